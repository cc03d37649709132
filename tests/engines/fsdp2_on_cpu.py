"""`sailrl-lite` with FSDP2 on a CPU; accelerate 1.15 has it for GPUs only, and makes plain DDP of it there.

The one change: accelerate is told that its two gloo processes are of the kind MULTI_GPU, whose device happens
to be the CPU. Sharding, gathering and checkpoints are then accelerate's and torch's own.
"""

import sys

from accelerate import PartialState
from accelerate.utils import DistributedType

PartialState._prepare_backend = lambda self, *args, **kwargs: ("gloo", DistributedType.MULTI_GPU)

from sailrl_lite.cli import main  # noqa: E402

sys.exit(main())
