"""SAIL-RL lite: teach a multimodal model when and how to think (after arXiv 2511.02280).

Only the response format is imported here, so that ``import sailrl_lite`` is instant and needs no torch.
"""

import os

from sailrl_lite.response import Response, parse_response, render_response

# OpenMP threads that spin while they wait cost up to 15x on a busy machine; said before torch loads.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")

__version__ = "0.1.0"

__all__ = ["Response", "parse_response", "render_response", "__version__"]
