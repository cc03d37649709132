"""The micro policy: tokenizer, checkpoint files, and sampling that agrees with the library's own."""

import json
import shutil

import pytest
import torch

from sailrl_lite.errors import SailRLError
from sailrl_lite.response import DIRECT, THINK, parse_response
from sailrl_lite.training.models import (
    MicroProcessor,
    build_policy,
    build_processor,
    encode_prompts,
    load_checkpoint,
    save_checkpoint,
)
from sailrl_lite.training.rollout import sample
from sailrl_lite.world.problems import FAMILIES, make_problem
from sailrl_lite.world.teacher import Noise, teach


@pytest.fixture(scope="module")
def processor():
    return build_processor()


@pytest.fixture(scope="module")
def policy(processor):
    return build_policy(processor, seed=0).eval()


@pytest.fixture(scope="module")
def inputs(processor):
    problems = [make_problem(family, seed) for seed in range(2) for family in FAMILIES]
    return dict(encode_prompts(processor, [p.question for p in problems], [p.image for p in problems]))


def test_the_tokenizer_knows_every_word_of_every_family_and_gives_the_text_back(processor):
    import random

    tokenizer = processor.tokenizer
    for family in FAMILIES:
        for seed in range(1000, 1050):
            problem = make_problem(family, seed, "test")
            lesson = teach(problem, random.Random(seed), Noise())
            ids = tokenizer(problem.question + lesson.text)["input_ids"]
            assert tokenizer.unk_token_id not in ids, (problem.question, lesson.trace)
            assert tokenizer.decode(tokenizer(problem.question)["input_ids"]) == problem.question
            read = parse_response(
                tokenizer.decode(tokenizer(lesson.text)["input_ids"], skip_special_tokens=True)
            )
            assert (read.think, read.answer) == (lesson.trace, lesson.answer)


def test_a_judgment_is_one_token_and_tags_survive_skipping_special_tokens(processor):
    tokenizer = processor.tokenizer
    assert [len(tokenizer(sentence)["input_ids"]) for sentence in (THINK, DIRECT)] == [1, 1]
    ids = tokenizer("<judge>")["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "<judge>"


def test_a_picture_is_eight_tokens_and_the_policy_is_small(processor, policy, inputs):
    image_tokens = (inputs["input_ids"] == policy.config.image_token_id).sum(1)
    assert set(image_tokens.tolist()) == {8}
    assert 1e6 < sum(p.numel() for p in policy.parameters()) < 2e6


def test_a_checkpoint_comes_back_as_it_was(tmp_path, processor, policy, inputs):
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]  # nothing temporary stays behind
    again, its_processor = load_checkpoint(folder)
    assert isinstance(its_processor, MicroProcessor)
    assert torch.equal(again.eval()(**inputs).logits, policy(**inputs).logits)


def damage(folder, how):
    weights = folder / "model.safetensors"
    if how == "missing":
        shutil.rmtree(folder)
    elif how == "truncated":
        weights.write_bytes(weights.read_bytes()[:100_000])
    elif how == "no weights":
        weights.unlink()
    elif how == "empty":
        weights.write_bytes(b"")
    elif how == "foreign":
        (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    elif how == "not json":
        (folder / "config.json").write_text("{")
    elif how == "other shape":
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["num_hidden_layers"] = 5
        config["text_config"].pop("layer_types", None)
        (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("missing", "config.json is missing"),
        ("truncated", "cannot be read"),
        ("no weights", "cannot be read"),
        ("empty", "cannot be read"),
        ("foreign", "'llama' checkpoint"),
        ("not json", "not JSON"),
        ("other shape", "does not fit"),
    ],
)
def test_a_damaged_checkpoint_is_named_in_one_line_with_the_remedy(tmp_path, processor, policy, how, words):
    folder = save_checkpoint(policy, processor, tmp_path / "policy")
    damage(folder, how)
    with pytest.raises(SailRLError) as error:
        load_checkpoint(folder)
    message = str(error.value)
    assert (
        words in message and str(folder) in message and "sailrl-lite sft" in message and "\n" not in message
    )


def test_greedy_sampling_is_token_for_token_what_generate_gives(policy, inputs):
    length = 20
    ours = sample(policy, inputs, max_new_tokens=length, temperature=0).ids
    options = dict(max_new_tokens=length, do_sample=False, suppress_tokens=[policy.config.image_token_id])
    theirs = policy.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :].tolist()
    end = policy.generation_config.eos_token_id
    theirs = [row[: row.index(end) + 1] if end in row else row for row in theirs]
    assert ours == theirs


def test_rows_that_end_leave_the_batch_and_change_no_other_row(policy, inputs, monkeypatch):
    monkeypatch.setattr(policy.generation_config, "eos_token_id", list(range(8, 60)))  # many tokens end a row
    ragged = sample(policy, inputs, n=3, max_new_tokens=12, seed=1)
    lengths = {len(row) for row in ragged.ids}
    assert len(lengths) > 3  # the case that is meant: rows end at different times
    prompts = [
        row[mask.bool()].tolist()
        for row, mask in zip(inputs["input_ids"], inputs["attention_mask"], strict=True)
    ]
    for row in range(
        0, len(ragged.ids), 7
    ):  # its log-probabilities are those of a forward pass without a cache
        ids, one = torch.tensor([prompts[row // 3] + ragged.ids[row]]), row // 3
        patches = len(inputs["pixel_values"]) // len(prompts)
        logits = policy(
            input_ids=ids, attention_mask=torch.ones_like(ids),
            mm_token_type_ids=(ids == policy.config.image_token_id).long(),
            pixel_values=inputs["pixel_values"][one * patches : (one + 1) * patches],
            image_grid_thw=inputs["image_grid_thw"][one : one + 1],
        ).logits[0, len(prompts[one]) - 1 : -1]  # fmt: skip
        expected = logits.log_softmax(-1).gather(1, torch.tensor(ragged.ids[row])[:, None])[:, 0]
        assert torch.allclose(expected, torch.tensor(ragged.logps[row]), atol=1e-4)


def test_sampling_is_a_function_of_its_seed_and_never_writes_a_picture_token(policy, inputs):
    first, again, other = (sample(policy, inputs, n=4, max_new_tokens=8, seed=seed) for seed in (3, 3, 4))
    assert first == again and first.ids != other.ids
    assert len(first.ids) == 4 * len(inputs["input_ids"])
    assert policy.config.image_token_id not in {token for row in first.ids for token in row}


def test_sampling_follows_the_policys_probabilities(policy, inputs):
    one = {k: v[:1] for k, v in inputs.items() if k != "pixel_values"} | {
        "pixel_values": inputs["pixel_values"][:32]
    }
    draws = torch.tensor([row[0] for row in sample(policy, one, n=4000, max_new_tokens=1, seed=0).ids])
    expected = policy(**one).logits[0, -1].softmax(-1)
    share = torch.bincount(draws, minlength=len(expected)) / len(draws)
    assert (share - expected).abs().max() < 0.02
