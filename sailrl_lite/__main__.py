"""``python -m sailrl_lite`` is the same as the ``sailrl-lite`` command."""

import sys

from sailrl_lite.cli import main

if __name__ == "__main__":
    sys.exit(main())
