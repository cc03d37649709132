"""The command line in a process whose seed is its number, as where each machine has a command of its own."""

import os
import sys

from sailrl_lite.cli import main

if __name__ == "__main__":
    sys.exit(main([*sys.argv[1:], "--seed", os.environ["RANK"]]))
