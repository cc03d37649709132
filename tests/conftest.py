"""Settings for the whole test run, made before anything can import torch or open a window."""

import os
import signal

# The first two keep OpenMP threads from spin-waiting on a busy machine; the rest: offline, quiet, no window.
os.environ.update(
    OMP_WAIT_POLICY="PASSIVE",
    GOMP_SPINCOUNT="0",
    HF_HUB_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    MPLBACKEND="Agg",
)

from hypothesis import settings

# No deadline: on a shared machine a slow example says nothing about the code.
settings.register_profile("local", deadline=None, max_examples=50)
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# A shell starts a background job deaf to Ctrl-C, and its children inherit that; some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
