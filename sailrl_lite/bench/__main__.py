"""`make bench`: all timings of the CPU, or those that are named (`make bench ARGS=answers`).

`gpu` runs only where it is named: it is for one GPU, takes up to ten minutes and writes a table.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

from sailrl_lite.bench import answers, curation, gpu, step

PARTS: dict[str, Callable[[], None]] = {"answers": answers.main, "curation": curation.main, "step": step.main}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sailrl_lite.bench", description=__doc__)
    known = [*PARTS, "gpu"]
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(known)} (default: all but gpu)"
    )
    parser.add_argument("--dry-run", action="store_true", help="of gpu: a small shape, on the CPU")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu.csv"), help="of gpu: the table to write")
    args = parser.parse_args()
    parts = args.parts or list(PARTS)
    for part in parts:
        if part not in known:
            parser.error(f"unknown part {part!r}; choose from {', '.join(known)}")
    for part in parts:
        if part == "gpu":
            gpu.main(args.dry_run, args.out)
        else:
            PARTS[part]()


if __name__ == "__main__":
    main()
