"""SAIL-RL lite: teach a multimodal model when and how to think (after arXiv 2511.02280).

Only the response format is imported here, so that ``import sailrl_lite`` is instant and needs no torch.
"""

from sailrl_lite.response import Response, parse_response, render_response

__version__ = "0.1.0"

__all__ = ["Response", "parse_response", "render_response", "__version__"]
