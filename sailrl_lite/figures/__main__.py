"""Draw every figure of the study: `python -m sailrl_lite.figures`."""

import argparse
from pathlib import Path

import matplotlib

from sailrl_lite.figures.every import FIGURES, draw_all
from sailrl_lite.figures.results import ROOT, read_results
from sailrl_lite.study.logs import LOGS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sailrl_lite.figures", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}; all by default")
    parser.add_argument("--logs", type=Path, default=LOGS, help="folder of the study's logs")
    parser.add_argument("--out", type=Path, default=ROOT / "figures", help="folder of the figures")
    args = parser.parse_args()
    if unknown := [name for name in args.names if name not in FIGURES]:
        parser.error(f"there is no figure {unknown[0]!r}; choose of {', '.join(FIGURES)}")
    matplotlib.use("agg")
    left_out = draw_all(read_results(args.logs), args.out, args.names)
    for name, why in left_out.items():
        print(f"{name}: left out, for {why}")
    print(f"{len(args.names or FIGURES) - len(left_out)} figures in {args.out}")


if __name__ == "__main__":
    main()
