"""The command line in processes of which the second is killed in its third generation batch."""

import os
import signal
import sys
import time

from sailrl_lite.cli import main
from sailrl_lite.training.dapo import DapoTrainer

generate = DapoTrainer._generate_and_score_completions
batches = []


def killed(*args, **kwargs):
    batches.append(1)
    if os.environ.get("RANK") == "1" and len(batches) == 3:
        time.sleep(3)  # until the other one waits for it
        os.kill(os.getpid(), signal.SIGKILL)
    return generate(*args, **kwargs)


if __name__ == "__main__":
    DapoTrainer._generate_and_score_completions = killed
    sys.exit(main())
