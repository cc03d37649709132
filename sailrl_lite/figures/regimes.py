"""When an effect appears: differences of two arms against a knob of the regime."""

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from sailrl_lite.figures.results import Missing, Results
from sailrl_lite.figures.style import BLUE, GREY, WIDTH, use_style
from sailrl_lite.study.regimes import read_regimes


def regimes(results: Results) -> Figure:
    """A row a map, a panel a measure: the difference in points at each point of the knob, 95% intervals."""
    table = read_regimes(results.folder)
    if table.empty:
        raise Missing("no regime has been run")
    use_style()
    maps = list(dict.fromkeys(table["map"]))
    columns = max(table.groupby("map")["measure"].nunique())
    figure, axes = plt.subplots(len(maps), columns, figsize=(WIDTH, 1.75 * len(maps)), squeeze=False)
    for row, name in zip(axes, maps, strict=True):
        part = table[table["map"] == name]
        measures = list(dict.fromkeys(part["measure"]))
        for axis, measure in zip(row, measures, strict=False):
            points = part[part["measure"] == measure]
            bars = [points["effect"] - points["ci_low"], points["ci_high"] - points["effect"]]
            axis.axhline(0, color=GREY, linewidth=0.8)
            axis.errorbar(range(len(points)), points["effect"], yerr=bars, fmt="o", color=BLUE)
            axis.set_xticks(range(len(points)), points["point"])
            axis.margins(x=0.35)
            axis.set_xlabel(points["knob"].iloc[0])
            axis.set_title(measure)
        for axis in row[len(measures) :]:
            axis.axis("off")
        row[0].set_ylabel("points")
        row[0].annotate(
            part["title"].iloc[0],
            (0, 1.28),
            xycoords="axes fraction",
            fontweight="bold",
            annotation_clip=False,
        )
    return figure
