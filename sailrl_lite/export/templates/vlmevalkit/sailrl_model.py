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

from sailrl_lite.config import PolicyConfig
from sailrl_lite.errors import SailRLError
from sailrl_lite.export.vlmevalkit import split_response
from sailrl_lite.response import NEVER_THINK
from sailrl_lite.training.policies import HubProcessor, load_policy
from sailrl_lite.training.rollout import sample

Message = list[dict[str, str]]  # parts with type ("image" or "text") and value (a path, or the text)


class SailRLPolicy:
    """One question at a time, in this process; several GPUs share the questions under torchrun."""

    def __init__(self, settings: dict[str, Any], responses: Path, never_think: bool = False) -> None:
        self.settings = settings
        self.prefill = NEVER_THINK if never_think else ""
        self.policy, self.processor = load_policy(settings["checkpoint"], PolicyConfig(**settings["policy"]))
        self.file = responses / f"responses-{os.environ.get('RANK', '0')}.jsonl"
        self.longest = self.policy.config.get_text_config().max_position_embeddings

    def set_dump_image(self, dump: Callable[[Any], list[str]]) -> None:
        """VLMEvalKit's function that writes the pictures of a row to files."""
        self.pictures_of = dump

    def use_custom_prompt(self, dataset: str) -> bool:
        """The micro policy knows the questions of its own world and no other words."""
        return not isinstance(self.processor, HubProcessor)

    def build_prompt(self, line: Any, dataset: str | None = None) -> Message:
        pictures = [{"type": "image", "value": path} for path in self.pictures_of(line)]
        return [*pictures, {"type": "text", "value": line["question"]}]

    def generate(self, message: Message, dataset: str | None = None) -> str:
        """The whole response, prefill included; `split_thinking` takes it apart afterwards.

        It is empty, with its `problem` in the file, where the prompt leaves no room for one (a cut would take
        tokens of the picture), or where the policy cannot be shown the picture or asked the question.
        """
        question = "\n".join(part["value"].strip() for part in message if part["type"] == "text")
        paths = [Path(part["value"]) for part in message if part["type"] == "image"]
        asked: dict[str, Any] = {"data": dataset, "question": question, "pictures": [p.name for p in paths]}
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        row = asked | {"key": key, "response": "", "tokens": 0}
        try:
            row |= self._respond(self._inputs(message, question, paths), int(key[:8], 16))
        except SailRLError as error:
            row["problem"] = str(error)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        return str(row["response"])

    @staticmethod
    def split_thinking(text: str) -> tuple[str, str]:
        """(the answer, the trace), for VLMEvalKit with SPLIT_THINK=1."""
        return split_response(text)

    def _inputs(self, message: Message, question: str, paths: list[Path]) -> dict[str, torch.Tensor]:
        """A picture stands before the question, as in training; several stand where the data set has them."""
        if special := next((token for token in self.processor.special_tokens() if token in question), None):
            raise SailRLError(f"the question holds the token {special}")
        pictures = [self.processor.shown(Image.open(path)) for path in paths]
        parts = [{"type": "image"} for _ in pictures] + [{"type": "text", "text": question}]
        if len(pictures) > 1:
            texts = [{"type": "text", "text": part["value"]} for part in message]
            parts = [t if m["type"] == "text" else parts[0] for m, t in zip(message, texts, strict=True)]
        asked = [{"role": "user", "content": parts}]
        text = self.processor.apply_chat_template(asked, add_generation_prompt=True) + self.prefill
        return dict(self.processor(images=pictures or None, text=[text], return_tensors="pt"))

    def _respond(self, inputs: dict[str, torch.Tensor], key: int) -> dict[str, Any]:
        """Sampled with a seed of the question's own, whatever was asked before."""
        prompt, most = inputs["input_ids"].shape[1], self.settings["max_new_tokens"]
        if prompt + most > self.longest:
            raise SailRLError(
                f"the prompt has {prompt} tokens and leaves no room for {most} of {self.longest}"
            )
        seed = (self.settings["seed"] + key) % 2**32
        rolled = sample(self.policy, inputs, 1, most, self.settings["temperature"], seed)
        text = self.processor.batch_decode(rolled.ids, skip_special_tokens=True)[0]
        prefilled = len(self.processor.tokenizer(self.prefill)["input_ids"]) if self.prefill else 0
        return {
            "response": self.prefill + text,
            "tokens": len(rolled.ids[0]) + prefilled,
            "prompt_tokens": prompt,
        }
