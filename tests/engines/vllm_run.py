"""Rollouts by the real vLLM on the CPU: `make check-vllm`, in an environment of its own.

    python tests/engines/vllm_run.py OUT

A colocated vLLM, as TRL starts it, rolls out for `train_rl` on the micro policy, with all weights and with
adapters; at each batch its greedy responses are compared with those of `rollout.sample` on the weights being
trained, so weights that are not pushed, a prompt that is not the same or a picture that is lost would show.
Then curation's tries of a problem are compared in the same way, and a server answers the requests that TRL
sends it. Before all, the part of `make gpu` with vLLM runs small, on a policy as the hub has it. What is not
proven here, since it needs CUDA: the push of weights to a server (NCCL), sleep mode, and vLLM's own kernels
for GPUs.

Everything in `for_cpu` and `for_micro` is for this test alone; the code under test has no part in it.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # colocated is in this process
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "HF_HUB_OFFLINE": "1",
}

import pandas as pd
import torch
import trl.generation.vllm_generation as trl_vllm
import vllm
import vllm.model_executor.layers.utils as vllm_layers
import vllm.model_executor.models.qwen2_5_vl as vllm_qwen
import vllm.transformers_utils.processors as vllm_processors
from trl.generation.vllm_client import VLLMClient

from sailrl_lite.bench.gpu_part import measure
from sailrl_lite.config import SHIPPED, EngineConfig, PolicyConfig, RLConfig
from sailrl_lite.curation.passrate import MicroSampler, VLLMSampler
from sailrl_lite.curation.readers import read_micro
from sailrl_lite.errors import SailRLError
from sailrl_lite.training import rollout
from sailrl_lite.training.dapo import DapoTrainer
from sailrl_lite.training.models import MicroProcessor, bare
from sailrl_lite.training.rl import train_rl
from sailrl_lite.training.vllm import check_vllm

COLOCATED = EngineConfig(sampler="vllm")
RUN = RLConfig(steps=6, prompts=8, families=("add",), engine=COLOCATED)
PORT = 8123


def for_cpu() -> None:
    """What vLLM's CPU build lacks."""
    # Weights are packed on loading and could not be loaded again: keep them as they are.
    vllm_layers.dispatch_cpu_unquantized_gemm = lambda layer, remove_weight: setattr(
        layer, "cpu_linear", torch.nn.functional.linear
    )
    trl_vllm.LLM = vllm.LLM = partial(vllm.LLM, enforce_eager=True)
    trl_vllm.empty_cache = lambda: None


def for_micro() -> None:
    """What the micro policy lacks for vLLM."""
    # vLLM makes 16 bits of 32 unless told; TRL does not tell.
    trl_vllm.LLM = vllm.LLM = partial(vllm.LLM, dtype="float32")
    # It has no processor of videos.
    vllm_qwen.Qwen2_5_VLProcessor = vllm_processors.MicroProcessor = MicroProcessor


@contextmanager
def compared(rows: list[dict[str, float]]) -> Iterator[None]:
    """Add a row for each batch: greedy responses of vLLM against those of `rollout.sample`."""
    usual = DapoTrainer._rollouts_of_vllm

    def with_greedy(self: DapoTrainer, prompt_ids: Any, images: Any, fields: Any, draw: int) -> Any:
        drawn = usual(self, prompt_ids, images, fields, draw)
        if draw == 0:
            again = usual(self, prompt_ids, images, fields, draw)
            self.vllm_generation.top_k = 1
            greedy = usual(self, prompt_ids, images, fields, draw)[0][:: self.num_generations]
            # A picture token that is as good as certain must not come up all the same.
            self.vllm_generation.generation_kwargs["logit_bias"] = {self._image_pad_token_id: 100.0}
            pushed = usual(self, prompt_ids, images, fields, draw)[0]
            limits = self.vllm_generation.generation_kwargs
            self.vllm_generation.generation_kwargs = {k: v for k, v in limits.items() if k != "bad_words"}
            allowed = usual(self, prompt_ids, images, fields, draw)[0]
            self.vllm_generation.generation_kwargs = {k: v for k, v in limits.items() if k != "logit_bias"}
            self.vllm_generation.top_k = self.top_k
            policy = bare(self.accelerator.unwrap_model(self.model))
            own = rollout.sample(
                policy, self._prompt_tensors(prompt_ids, fields), 1, self.max_completion_length, 0.0
            ).ids
            pairs = [(a, b) for x, y in zip(greedy, own, strict=True) for a, b in zip(x, y, strict=False)]
            rows.append(
                {
                    "greedy rows alike": sum(x == y for x, y in zip(greedy, own, strict=True)) / len(own),
                    "greedy tokens alike": sum(a == b for a, b in pairs) / len(pairs),
                    "same seed alike": float(again[0] == drawn[0]),
                    "distinct in a group": len({tuple(x) for x in drawn[0]}) / len(drawn[0]),
                    "picture tokens": sum(self._image_pad_token_id in x for x in drawn[0] + pushed),
                    "picture tokens if allowed": sum(self._image_pad_token_id in x for x in allowed),
                }
            )
        return drawn

    DapoTrainer._rollouts_of_vllm = with_greedy
    try:
        yield
    finally:
        DapoTrainer._rollouts_of_vllm = usual


def run(config: RLConfig, out: Path) -> pd.DataFrame:
    """Train; the metrics and the comparison of each step."""
    rows: list[dict[str, float]] = []
    start = time.monotonic()
    with compared(rows):
        train_rl(config, out, bar=False)
    print(f"{out.name}: {time.monotonic() - start:.0f} s", flush=True)
    metrics = pd.read_csv(out / "metrics.csv")
    wanted = ["reward", "kl", "vllm/difference", "vllm/cut"]
    return pd.concat([metrics[["step", *wanted]], pd.DataFrame(rows)], axis=1)


def checkpoint_to_serve(folder: Path) -> Path:
    """The micro policy with a processor of videos, which vLLM's processes load for Qwen2.5-VL in any case."""
    shutil.copytree(SHIPPED, folder)
    processor = json.loads((folder / "processor_config.json").read_text())
    video = processor["image_processor"] | {"video_processor_type": "Qwen2VLVideoProcessor"}
    del video["image_processor_type"]
    (folder / "video_preprocessor_config.json").write_text(json.dumps(video))
    (folder / "processor_config.json").write_text(
        json.dumps(processor | {"processor_class": "Qwen2_5_VLProcessor"})
    )
    return folder


@contextmanager
def server(out: Path) -> Iterator[EngineConfig]:
    """What `trl vllm-serve` starts, but for the push of weights, once it answers.

    By the module: the command `vllm serve` asks for a distribution named vllm, and this one is vllm-cpu.
    """
    engine = EngineConfig(sampler="vllm", vllm="server", vllm_server=f"http://localhost:{PORT}")
    model, log = checkpoint_to_serve(out / "served"), out / "server.log"
    flags = "--dtype=float32 --enforce-eager --enable-scale-out --max-model-len=512 --max-logprobs=-1"
    values = f"--model={model} --port={PORT} --logprobs-mode=processed_logprobs"
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *flags.split(), *values.split()]
    own = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    with log.open("w") as text:
        process = subprocess.Popen(command, stdout=text, stderr=text, env=os.environ | own)
    try:
        for _ in range(120):
            try:
                check_vllm(PolicyConfig(), engine)
                break
            except SailRLError:
                assert process.poll() is None, f"the server ended; {log} says why"
                time.sleep(5)
        yield engine
    finally:
        process.terminate()
        process.wait(60)


def without_push() -> None:
    """The weights of the server stay those of the checkpoint, which are right for one batch."""
    for name in ("init_communicator", "update_named_params"):
        setattr(VLLMClient, name, lambda *_, **__: None)


def check(table: pd.DataFrame, out: Path) -> None:
    print(table.round(7).to_string(index=False), flush=True)
    table.to_csv(out, index=False)
    assert (table["greedy tokens alike"] > 0.98).all()
    assert (table["vllm/difference"] < 1e-4).all()
    assert (table["vllm/cut"] == 0).all()
    assert (table["picture tokens"] == 0).all()
    assert (table["picture tokens if allowed"] > 0).all()  # so the line above can fail


def same_tries() -> None:
    """What `curate rl` asks of vLLM against what it asks of transformers, all but greedily."""
    rows, cold = list(read_micro(52)), 0.01
    own = MicroSampler(SHIPPED, cold)(rows, 1, 0)
    theirs = VLLMSampler(str(SHIPPED), cold, 64)(rows, 1, 0)
    same = sum(a == b for a, b in zip(own, theirs, strict=True))
    print(f"tries: {same} of {len(rows)} alike", flush=True)
    assert same >= 0.9 * len(rows)


def dry_run(out: Path) -> None:
    """The part of `make gpu` with vLLM, small: adapters in bfloat16, in a process of its own as there."""
    out.mkdir(parents=True)
    measure("policy", out, small=True)
    measured = measure("rl-vllm", out, small=True)
    assert measured.rollout_tokens == 2 * 2 * 8 and measured.step_seconds > measured.rollout_seconds > 0
    print(f"dry run: {measured}", flush=True)


def main(out: Path) -> None:
    shutil.rmtree(out, ignore_errors=True)
    subprocess.run([sys.executable, __file__, str(out / "dry-run"), "dry-run"], check=True)
    for_micro()
    for weights in ("full", "lora"):
        config = replace(RUN, policy=PolicyConfig(weights=weights))
        table = run(config, out / weights)
        check(table, out / f"{weights}.csv")
        assert (table["same seed alike"] == 1).all()
        assert table["kl"].iloc[-1] > table["kl"].iloc[0]  # the policy moved, and vLLM with it
    same_tries()
    without_push()
    with server(out) as engine:
        check(run(replace(RUN, steps=1, engine=engine), out / "server"), out / "server.csv")


if __name__ == "__main__":
    for_cpu()
    (dry_run if sys.argv[2:] == ["dry-run"] else main)(Path(sys.argv[1]))
