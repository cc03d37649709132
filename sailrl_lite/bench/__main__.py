"""`make bench`: all timings, or those that are named (`make bench ARGS=answers`)."""

import argparse
from collections.abc import Callable

from sailrl_lite.bench import answers, curation, step

PARTS: dict[str, Callable[[], None]] = {"answers": answers.main, "curation": curation.main, "step": step.main}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m sailrl_lite.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parts = parser.parse_args().parts or list(PARTS)
    for part in parts:
        if part not in PARTS:
            parser.error(f"unknown part {part!r}; choose from {', '.join(PARTS)}")
    for part in parts:
        PARTS[part]()


if __name__ == "__main__":
    main()
