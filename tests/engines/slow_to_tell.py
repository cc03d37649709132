"""`sailrl-lite`, with a first process that is slow to say why it failed after the others know that it did."""

import sys
import time

from torch import distributed

from sailrl_lite.cli import main

broadcast = distributed.broadcast_object_list


def slow_broadcast(told, *args, **kwargs):
    broadcast(told, *args, **kwargs)
    if distributed.get_rank() == 0 and told[0]:
        time.sleep(3)


if __name__ == "__main__":
    distributed.broadcast_object_list = slow_broadcast
    sys.exit(main())
