"""A policy of SAIL-RL lite as a model of VLMEvalKit: asked as in training, its answer read from the box.

Written by `sailrl-lite export vlmevalkit`; the values are in settings.json beside it. Every raw response is
kept as a line of responses-RANK.jsonl: VLMEvalKit itself keeps only what it grades. VLMEvalKit asks a model
for a few methods and for no base class, so this file can be used and tested without it.
"""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from sailrl_lite.export.vlmevalkit import split_response
from sailrl_lite.pictures import upright
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.training.models import SPECIAL, MicroProcessor, load_checkpoint
from sailrl_lite.training.rollout import sample
from sailrl_lite.world.scenes import fit

Message = list[dict[str, str]]  # parts with type ("image" or "text") and value (a path, or the text)


class SailRLPolicy:
    """One question at a time, in this process; several GPUs share the questions under torchrun."""

    def __init__(self, settings: dict[str, Any], responses: Path, never_think: bool = False) -> None:
        self.settings = settings
        self.prefill = NEVER_THINK if never_think else ""
        self.policy, self.processor = load_checkpoint(settings["checkpoint"])
        self.policy.to("cuda" if torch.cuda.is_available() else "cpu")
        self.file = responses / f"responses-{os.environ.get('RANK', '0')}.jsonl"
        self.longest = self.policy.config.get_text_config().max_position_embeddings

    def set_dump_image(self, dump: Callable[[Any], list[str]]) -> None:
        """VLMEvalKit's function that writes the pictures of a row to files."""
        self.pictures_of = dump

    def use_custom_prompt(self, dataset: str) -> bool:
        """The micro policy knows the questions of its own world and no other words."""
        return isinstance(self.processor, MicroProcessor)

    def build_prompt(self, line: Any, dataset: str | None = None) -> Message:
        pictures = [{"type": "image", "value": path} for path in self.pictures_of(line)]
        return [*pictures, {"type": "text", "value": line["question"]}]

    def generate(self, message: Message, dataset: str | None = None) -> str:
        """The whole response, prefill included; `split_thinking` takes it apart afterwards.

        It is empty where the prompt leaves no room for one: a cut would take tokens of the picture.
        """
        question = "\n".join(part["value"].strip() for part in message if part["type"] == "text")
        paths = [Path(part["value"]) for part in message if part["type"] == "image"]
        asked: dict[str, Any] = {"data": dataset, "question": question, "pictures": [p.name for p in paths]}
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        inputs = self._inputs(message, question, [upright(Image.open(path)) for path in paths])
        prompt, most = inputs["input_ids"].shape[1], self.settings["max_new_tokens"]
        response, tokens = "", 0
        if prompt + most <= self.longest:
            seed = (self.settings["seed"] + int(key[:8], 16)) % 2**32  # whatever was asked before
            rolled = sample(self.policy, inputs, 1, most, self.settings["temperature"], seed)
            text = self.processor.batch_decode(rolled.ids, skip_special_tokens=True)[0]
            response, tokens = self.prefill + text, len(rolled.ids[0]) + self._length(self.prefill)
        row = asked | {"key": key, "response": response, "tokens": tokens, "prompt_tokens": prompt}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return response

    @staticmethod
    def split_thinking(text: str) -> tuple[str, str]:
        """(the answer, the trace), for VLMEvalKit with SPLIT_THINK=1."""
        return split_response(text)

    def _inputs(
        self, message: Message, question: str, pictures: list[Image.Image]
    ) -> dict[str, torch.Tensor]:
        """A picture stands before the question, as in training; several stand where the data set has them."""
        if special := next((token for token in SPECIAL if token in question), None):
            raise ValueError(f"a question holds the token {special}")
        if isinstance(self.processor, MicroProcessor):
            pictures = [fit(picture) for picture in pictures]
        parts = [
            {"type": "text", "text": part["value"]} if part["type"] == "text" else {"type": "image"}
            for part in message
        ]
        if len(pictures) == 1:
            parts = [{"type": "image"}, {"type": "text", "text": question}]
        asked = [{"role": "user", "content": parts}]
        text = self.processor.apply_chat_template(asked, add_generation_prompt=True) + self.prefill
        inputs = self.processor(images=pictures or None, text=[text], return_tensors="pt")
        return dict(inputs.to(self.policy.device))

    def _length(self, text: str) -> int:
        return len(self.processor.tokenizer(text)["input_ids"]) if text else 0
