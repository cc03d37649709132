"""The learned judge: a small Qwen2.5-VL that reads a response line by line, as a proofreader does.

It reads the picture, the question and the response as the policy would have written it, and is trained to
expect two things that are not always there: at each value (what a claim says, what a step or the trace comes
to) the right one, and where a line or the answer ends a mark, which names the dimensions that fail there for
another reason. So a value is as likely to be right as it is expected, and one forward pass judges a response.
A dimension passes if it fails nowhere, which is how the exact judge decides too.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from sailrl_lite.config import SHIPPED_JUDGE
from sailrl_lite.errors import SailRLError
from sailrl_lite.judges.protocol import DIMENSIONS, Case, Judge, NoVerdict, Verdict
from sailrl_lite.response import THINK
from sailrl_lite.training.models import MicroProcessor, load_checkpoint
from sailrl_lite.world.scenes import fit
from sailrl_lite.world.traces import Claim, Statement, Step, read_trace

CODES = tuple("01234567")  # the tokens of a mark: bit k is set if dimension k fails there
_CLEAR = np.array([[1.0 - (code >> k & 1) for k in range(len(DIMENSIONS))] for code in range(len(CODES))])
_ENDS = ("\n", "</think>", "}")  # what may stand behind a value
_TRUST = 20.0  # odds of a written value against any one other, before it is compared with what is expected
_CHUNK = 64  # cases in one forward pass
_MAX_LINES, _MAX_TOKENS = 24, 32  # of a trace, and of a line, a question or an answer; the rest is not read


class LearnedJudge(Judge):
    """Scores the cases that have a picture; the others get no verdict.

    The binary score of a dimension is whether the probability that it passes is above 0.5; the continuous one
    is that probability. The reason for a fail is the line that fails most surely. The same cases get the same
    scores (up to rounding in another batch), whatever is asked for as `sample`.

    Args:
        folder: of the checkpoint, as `sailrl-lite judge-train` wrote it; None is the shipped one.

    Raises:
        SailRLError: the checkpoint is missing, cannot be read, or is not a judge's.
    """

    name = "learned"

    def __init__(self, folder: str | Path | None = None) -> None:
        folder, remedy = Path(folder or SHIPPED_JUDGE), "make one with `sailrl-lite judge-train`"
        if not os.path.isfile(folder / "config.json"):  # which raises for no name, however odd
            raise SailRLError(f"there is no learned judge in {folder} (config.json is missing); {remedy}")
        self._model, self._processor = load_checkpoint(folder)
        if getattr(self._model.config, "judges", None) != list(DIMENSIONS):
            raise SailRLError(f"the model in {folder} is a policy and not a judge; {remedy}")
        self._model.eval().to("cuda" if torch.cuda.is_available() else "cpu")

    async def judge(
        self, cases: Sequence[Case], continuous: bool = False, sample: int = 0
    ) -> list[Verdict | NoVerdict]:
        return self.score(cases, continuous)

    def score(self, cases: Sequence[Case], continuous: bool = False) -> list[Verdict | NoVerdict]:
        """What `judge` returns, without waiting."""
        verdicts: list[Verdict | NoVerdict] = [
            NoVerdict("no picture", "the learned judge needs the picture of the question") for _ in cases
        ]
        seen = [k for k, case in enumerate(cases) if case.image is not None]
        for start in range(0, len(seen), _CHUNK):
            rows = seen[start : start + _CHUNK]
            read = [cases[k] for k in rows]
            for k, case, passes in zip(rows, read, self._passes(read), strict=True):
                verdicts[k] = _verdict(case, passes, continuous)
        return verdicts

    @torch.no_grad()
    def _passes(self, cases: Sequence[Case]) -> list[np.ndarray]:
        """For each case (marks, 3): the probability that a dimension does not fail at a mark."""
        read = encode(self._processor, cases)
        inputs = {name: value.to(self._model.device) for name, value in read.inputs.items()}
        logits = self._model(**inputs, use_cache=False).logits.float().cpu()
        expected = logits.softmax(-1).numpy()
        clear = logits[..., _code_ids(self._processor)].softmax(-1).numpy() @ _CLEAR
        ids = read.inputs["input_ids"].numpy()
        ends = self._processor.tokenizer.convert_tokens_to_ids(list(_ENDS))
        found = []
        for row, marks in enumerate(read.marks):
            passes = clear[row, [mark.at for mark in marks]]
            for k, mark in enumerate(marks):
                if mark.dimension is not None:
                    value = np.arange(mark.start, mark.end)
                    right = expected[row, value - 1, ids[row, value]].prod()
                    right *= expected[row, mark.end - 1, ends].sum()  # and no further digit
                    passes[k, mark.dimension] *= _TRUST * right / (_TRUST * right + 1 - right)
            found.append(passes)
        return found


def _verdict(case: Case, passes: np.ndarray, continuous: bool) -> Verdict:
    said = [*map(str, statements_of(case.think)), f"answer {(case.answer or '')[:50]}"]
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for k, dimension in enumerate(DIMENSIONS):
        probability = float(passes[:, k].prod())
        values[dimension] = min(1.0, probability) if continuous else int(probability > 0.5)
        if probability <= 0.5:
            reasons[dimension] = said[int(passes[:, k].argmin())][:200]
    return Verdict(values, reasons)


@dataclass(frozen=True)
class Mark:
    """Where a line or the answer ends, `at`, and its value: positions `start` to `end` in `input_ids`.

    dimension: what fails if the value is wrong, as a place in `DIMENSIONS`; None where there is no value.
    """

    at: int
    start: int = 0
    end: int = 0
    dimension: int | None = None


@dataclass(frozen=True)
class Encoded:
    """What the model reads: `inputs` of B responses, padded on the right, and the marks of each.

    There is one mark for each line that is read, and the last is the answer's.
    """

    inputs: dict[str, torch.Tensor]
    marks: list[list[Mark]]


def encode(processor: MicroProcessor, cases: Sequence[Case]) -> Encoded:
    """Model inputs of responses to questions about pictures. Any text will do; every case needs its picture.

    Text is taken to pieces without the special tokens and tags, so that none of it can pass for the frame.
    """
    frame = processor.tokenizer
    pad, picture = frame.pad_token_id, processor.image_token_id
    seen = processor.image_processor(images=[_fitted(case.image) for case in cases], return_tensors="pt")
    patches = (seen["image_grid_thw"].prod(1) // processor.image_processor.merge_size**2).tolist()
    start = frame("<|im_start|>user\n<|vision_start|>")["input_ids"]
    middle = frame(f"<|im_end|><|im_start|>assistant\n<judge>{THINK}</judge><think>")["input_ids"]
    rows, marks = [], []
    for case, count in zip(cases, patches, strict=True):
        ids = [*start, *[picture] * count, *frame("<|vision_end|>")["input_ids"]]
        ids += [*_pieces(processor, case.question), *middle]
        marks.append(_write_response(processor, case, ids))
        rows.append([*ids, frame.eos_token_id])
    length = max(map(len, rows))
    input_ids = torch.tensor([row + [pad] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    kinds = (input_ids == picture).long()
    return Encoded(
        {"input_ids": input_ids, "attention_mask": mask, "mm_token_type_ids": kinds, **seen}, marks
    )


def _write_response(processor: MicroProcessor, case: Case, ids: list[int]) -> list[Mark]:
    """Append the tokens of trace and answer to `ids`; return their marks."""
    token = processor.tokenizer.convert_tokens_to_ids
    marks = []
    statements = statements_of(case.think)
    for k, statement in enumerate(statements):
        before, equals, value = str(statement).rpartition("=")
        ids += _pieces(processor, before + equals)
        start = len(ids)
        ids += [*_pieces(processor, value), token("</think>" if k == len(statements) - 1 else "\n")]
        marks.append(Mark(len(ids) - 1, start, len(ids) - 1, _counts_for(statement)))
    ids += [*([] if statements else [token("</think>")]), token("<answer>")]
    start = len(ids) + 1
    if answer := _pieces(processor, (case.answer or "").strip()):
        ids += [token("\\boxed{"), *answer, token("}")]
    end = len(ids) - 1
    ids.append(token("</answer>"))
    marks.append(Mark(end + 1, start, end, DIMENSIONS.index("consistency") if answer else None))
    return marks


def labels_of(
    processor: MicroProcessor, read: Encoded, lessons: Sequence[Sequence[tuple[str | None, int]]]
) -> torch.Tensor:
    """Labels (B, length) that teach what to expect; -100 is no lesson.

    Args:
        lessons: for each mark its right value (None if there is none) and its code, from 0 to 7. Nothing is
            taught behind the first wrong token of a value, the mark included.
    """
    ids, codes = read.inputs["input_ids"], _code_ids(processor)
    labels = torch.full_like(ids, -100)
    for row, (marks, taught) in enumerate(zip(read.marks, lessons, strict=True)):
        for mark, (value, code) in zip(marks, taught, strict=True):
            wrong = False
            if mark.dimension is not None and value is not None:
                right = [*_pieces(processor, value), int(ids[row, mark.end])]
                for at, token in zip(range(mark.start, mark.end + 1), right, strict=False):
                    labels[row, at] = token
                    if wrong := bool(ids[row, at] != token):
                        break
            if not wrong:
                labels[row, mark.at + 1] = codes[code]
    return labels


def statements_of(trace: str) -> list[Statement]:
    """The statements of a trace that are read: the first ones, up to the most that are."""
    return read_trace(trace[:20_000])[:_MAX_LINES]


def _counts_for(statement: Statement) -> int | None:
    """What fails if the value of a statement is wrong, as a place in `DIMENSIONS`."""
    match statement:
        case Step():
            return DIMENSIONS.index("logic")
        case Claim():
            return DIMENSIONS.index("grounding")
    return None


def _code_ids(processor: MicroProcessor) -> list[int]:
    return processor.tokenizer.convert_tokens_to_ids(list(CODES))


def _pieces(processor: MicroProcessor, text: str) -> list[int]:
    """The token ids of a text, unknown words as <unk>; what looks like a special token is plain text."""
    backend = processor.tokenizer.backend_tokenizer
    clean = text[: 20 * _MAX_TOKENS].encode(errors="replace").decode()  # half a surrogate pair is no text
    pieces = backend.pre_tokenizer.pre_tokenize_str(clean)[:_MAX_TOKENS]
    unknown = processor.tokenizer.unk_token_id
    known = (backend.model.token_to_id(piece) for piece, _ in pieces)
    return [unknown if token is None else token for token in known]


def _fitted(image: Image.Image | None) -> Image.Image:
    assert image is not None
    return fit(image)
