"""Lets PyPI's torchvision, which is built for CUDA, be imported beside a torch for the CPU.

It misses two operators of its own there and fails. VLMEvalKit needs no more of it here than that it loads.
"""

import torch

if not torch.cuda.is_available():
    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
