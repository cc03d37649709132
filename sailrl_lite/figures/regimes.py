"""When an effect appears: two arms against a knob of the regime."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Missing, Results
from sailrl_lite.figures.style import ARMS, BLUE, ORANGE, WIDTH, Look, use_style
from sailrl_lite.study.regimes import read_regimes


def regimes(results: Results) -> Figure:
    """A row a map, a panel a measure: what both arms reach at each point of the knob, with 95% intervals."""
    table = read_regimes(results.folder)
    if table.empty:
        raise Missing("no regime has been run")
    use_style()
    maps = list(dict.fromkeys(table["map"]))
    columns = max(table.groupby("map")["measure"].nunique())
    figure, axes = plt.subplots(len(maps), columns, figsize=(1.25 * WIDTH, 1.95 * len(maps)), squeeze=False)
    for row, name in zip(axes, maps, strict=True):
        part = table[table["map"] == name]
        measures = list(dict.fromkeys(part["measure"]))
        for axis, measure in zip(row, measures, strict=False):
            points = part[part["measure"] == measure]
            for arm, usual, shift in (("a", BLUE, -0.08), ("b", ORANGE, 0.08)):
                middle = points[arm].to_numpy()
                bars = [middle - points[f"{arm}_low"], points[f"{arm}_high"] - middle]
                places = [k + shift for k in range(len(points))]
                look = _look(points[f"{arm}_is"].iloc[0], usual)
                axis.errorbar(places, middle, yerr=bars, fmt=look.marker, color=look.color, label=look.label)
            axis.set_xticks(range(len(points)), points["point"])
            axis.margins(x=0.35)
            axis.set_ylim(max(-5, axis.get_ylim()[0]), min(105, axis.get_ylim()[1]))
            axis.set_title(measure.replace(", ", ",\n").replace(" (", "\n("))
        for axis in row[len(measures) :]:
            axis.axis("off")
        row[0].set_ylabel(f"{part['title'].iloc[0]}\n\n%", fontweight="bold")
        row[0].set_xlabel(part["knob"].iloc[0], loc="left")
        legend = row[len(measures) - 1].legend(loc="upper left", bbox_to_anchor=(1.05, 1))
        legend.set_in_layout(len(measures) == columns)  # elsewhere it stands in the place of a panel
    return figure


def _look(reward: str, color: str) -> Look:
    """That of the arm of the study with this reward, or a plain one."""
    return ARMS.get(reward.replace("+", "-"), Look(reward, color, "o"))
