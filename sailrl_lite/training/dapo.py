"""DAPO on top of TRL's GRPOTrainer: dynamic sampling, group-mean advantage, two readings of the clip range.

TRL gives the token-level loss (`loss_type="dapo"`), the optimizer, checkpoints and the engines. What it lacks
is written here, in the order in which a step runs: roll out a group for each prompt, score it, take the
advantage, refill what taught nothing, pack the rows that carry a gradient. (Paper section 3.4.5 and appendix
A.2; DAPO: arXiv 2503.14476.)
"""

import functools
import json
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import PreTrainedModel, set_seed
from trl.data_utils import prepare_multimodal_messages
from trl.models import prepare_deepspeed
from trl.trainer.utils import add_fused_lm_head, pad, use_adapter

from sailrl_lite.config import CLIP_HIGH, CLIP_LOW, KL_ROWS, Clip, FilterOn, Overlong
from sailrl_lite.files import write_text
from sailrl_lite.training import rollout, shared_prompt, vllm
from sailrl_lite.training.callbacks import StopBetweenBatches
from sailrl_lite.training.packing import SMALLEST, Group, in_updates, rows_with_gradient, tensors
from sailrl_lite.training.policies import REFERENCE
from sailrl_lite.training.resume import ResumableGRPOTrainer
from sailrl_lite.training.sharded import WholeCopy, is_sharded

# TRL warns of rollouts without a reward, with all that belongs to them; here they are counted and shown.
logging.getLogger("trl.trainer.grpo_trainer").addFilter(
    lambda record: "All reward functions returned None" not in record.getMessage()
)
_CLIP_FILE = "clip.json"
FEW = 0.05  # share of the rollouts that may go without a verdict, however few are judged


@dataclass(frozen=True)
class Dapo:
    """What DAPO adds to TRL's GRPOConfig.

    clip: "asymmetric" is DAPO's clip-higher (low 0.20, high 0.28); "adaptive" is one epsilon on both sides
        that moves inside [0.20, 0.28]: down while more than `clip_target` of the tokens are clipped, up
        while fewer are. The paper says "dynamically adjusted" and no more.
    filter_on: a group is informative if its rollouts differ in this: the "total" reward, or its "content".
    refills: how many more times prompts are drawn to replace groups that are not informative.
    overlong: what becomes of a response that was cut off: "mask" keeps it in the group's mean and leaves it
        out of the loss (DAPO's overlong filtering), "keep" trains on it.
    kl: the weight in the loss of the KL divergence from the reference; 0 is DAPO's. It takes the place of
        `beta` in GRPOConfig, which stays 0, since TRL would load a second reference for it.
    kl_rows: rollouts a batch on which KL to the SFT policy is measured, whatever its weight.
    max_unscored: the run stops where more than this share of the rollouts that were judged have no verdict,
        and they are more than `FEW` of all.
    """

    clip: Clip = "asymmetric"
    clip_target: float = 0.02
    filter_on: FilterOn = "total"
    refills: int = 1
    overlong: Overlong = "mask"
    kl: float = 0.0
    kl_rows: int = KL_ROWS
    max_unscored: float = 0.5


def group_advantages(rewards: torch.Tensor, scale: bool = False) -> torch.Tensor:
    """Reward minus the mean of its group, over the rollouts that have a reward.

    Args:
        rewards: (groups, G); NaN marks a rollout without a verdict. It is left out of the mean, and its
            advantage is 0.
        scale: also divide by the group's standard deviation (DAPO's and GRPO's form; the account of the
            paper subtracts the mean only).

    >>> group_advantages(torch.tensor([[1.0, 0.0, torch.nan]])).tolist()
    [[0.5, -0.5, 0.0]]
    """
    centered = rewards - rewards.nanmean(1, keepdim=True)
    if scale:
        variance = centered.square().nansum(1, keepdim=True) / (
            rewards.isfinite().sum(1, keepdim=True) - 1
        ).clamp(min=1)
        centered = centered / (variance.sqrt() + 1e-4)
    return centered.nan_to_num(0.0)


def has_spread(rewards: torch.Tensor) -> torch.Tensor:
    """(groups,) bool: do the rewards (groups, G) of a group differ? NaN (no verdict) is passed over.

    >>> has_spread(torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, torch.nan], [torch.nan, torch.nan]])).tolist()
    [True, False, False, False]
    """
    known = rewards.isfinite()
    low = rewards.masked_fill(~known, torch.inf).amin(1)
    high = rewards.masked_fill(~known, -torch.inf).amax(1)
    return high - low > SMALLEST


class DapoTrainer(ResumableGRPOTrainer):
    """A GRPOTrainer whose `_generate_and_score_completions` samples dynamically.

    Of several processes each has whole groups. It draws its own rollouts and refills, by a seed of its own,
    so that a run of two processes is another draw of the run of one, and not the same run: for the same
    rollouts their loss, gradient and metrics are equal but for rounding.

    Args:
        dapo: the options above.
        reference: the SFT policy, for KL (`policies.reference_of`); None measures none, and the loss can have
            none.
        stop: asked for a clean end of the run when too many rollouts have no verdict.
        Everything else is GRPOTrainer's. The first reward function is expected to log the column `content`
        (`log_extra`) if `filter_on` is "content".
    """

    def __init__(
        self, *args: Any, dapo: Dapo, reference: PreTrainedModel | None = None,
        stop: StopBetweenBatches | None = None, **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **kwargs)
        self.dapo = dapo
        self.beta = dapo.kl  # TRL's loss reads it
        self.reference = reference
        if reference and not hasattr(reference, "peft_config"):
            reference.eval().requires_grad_(False)
            reference.to(self.accelerator.device)
            add_fused_lm_head(reference, temperature=self.temperature, outputs=("log_probs",))
            if self.is_deepspeed_enabled:  # TRL's head takes every policy for a sharded one then
                self.reference = prepare_deepspeed(reference, self.accelerator)
        self._whole: WholeCopy | None = None
        if is_sharded(self) and not self.use_vllm:
            self._whole = WholeCopy(self.model, self.accelerator.device)
        self._columns: dict[str, list[Any]] = {}
        self._buffered_inputs: list[dict[str, Any]] | None = None  # TRL's
        self._stop = stop
        self.epsilon_low, self.epsilon_high = (
            (CLIP_LOW, CLIP_HIGH) if dapo.clip == "asymmetric" else (CLIP_HIGH,) * 2
        )
        if self.use_vllm:
            pictures = (self.model.config.image_token_id, self.model.config.video_token_id)
            limits = vllm.response_limits(self._tokenizer, pictures, self.eos_token_ids)
            self.vllm_generation.generation_kwargs |= limits

    # ---- one generation batch

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Rollouts, rewards and advantages of one generation batch: `inputs` holds each example G times."""
        wanted = len(inputs) // self.num_generations
        groups = self._roll(inputs[:: self.num_generations], draw=0)
        drawn = wanted
        for draw in range(1, self.dapo.refills + 1):
            missing = wanted - sum(group.informative for group in groups)
            # Every process refills as often and as much as the one that lacks most: their gathers must match.
            missing = self._largest(missing)
            if missing <= 0:
                break
            groups += self._roll(self._more_examples(missing, draw), draw)
            drawn += missing
        self._log_total("groups/drawn", drawn)
        self._log_total("groups/informative", sum(group.informative for group in groups))
        groups.sort(key=lambda group: not group.informative)
        return self._pack(groups[:wanted])

    def _roll(self, examples: list[dict[str, Any]], draw: int) -> list[Group]:
        """Roll out and score G responses to each example. The first draw is what the metrics describe."""
        n = self.num_generations
        prompts = [prepare_multimodal_messages(e["prompt"], images=[e["image"]]) for e in examples]
        prompt_ids, images, fields = self._tokenize_prompts(prompts)
        fields = {key: torch.tensor(np.array(fields[key])) for key in ("pixel_values", "image_grid_thw")}
        ids, logps, sampled = self._rollouts(prompt_ids, images, fields, draw)
        texts = self.processing_class.batch_decode(ids, skip_special_tokens=True)
        repeated = [example for example in examples for _ in range(n)]
        completions = [[{"role": "assistant", "content": text}] for text in texts]
        rewards, columns = self._score(repeated, completions, ids)
        table = rewards.view(-1, n)
        advantages = group_advantages(table, self.scale_rewards == "group")
        content = torch.tensor([x if x is not None else torch.nan for x in columns.get("content", [])])
        informative = has_spread(table if self.dapo.filter_on == "total" else content.view(-1, n))
        ended = torch.tensor([row[-1] in self.eos_token_ids for row in ids]).view(-1, n)
        trained = table.isfinite().cpu() & (ended if self.dapo.overlong == "mask" else torch.ones_like(ended))
        grids = fields["image_grid_thw"]
        pixels = fields["pixel_values"].split(grids.prod(1).tolist())
        groups = [
            Group(
                prompt_ids[k],
                {"pixel_values": pixels[k], "image_grid_thw": grids[k : k + 1]},
                ids[k * n : (k + 1) * n],
                logps and logps[k * n : (k + 1) * n],
                advantages[k].cpu(),
                trained[k],
                bool(informative[k]),
                sampled and sampled[k * n : (k + 1) * n],
            )
            for k in range(len(examples))
        ]
        if draw == 0:
            self._describe(columns, rewards, groups)
        return groups

    def _rollouts(
        self, prompt_ids: list[list[int]], images: list[Any], fields: dict[str, Any], draw: int
    ) -> tuple[list[list[int]], list[list[float]] | None, list[list[float]] | None]:
        """Ids of all rollouts, and their log-probabilities: those of this very policy or those of vLLM, of
        which the other is None."""
        n = self.num_generations
        if self.use_vllm:
            return self._rollouts_of_vllm(prompt_ids, [image for (image,) in images], fields, draw)
        inputs = self._prompt_tensors(prompt_ids, fields)
        policy = self._whole.update(self.model) if self._whole else self.accelerator.unwrap_model(self.model)
        rolled = rollout.sample(
            policy, inputs, n, self.max_completion_length, self.temperature, self._seed(draw)
        )
        # In bfloat16 a token's probability hangs on what it was computed together with: ask again, alike.
        exact = policy.dtype == torch.float32 and not self.args.bf16
        return rolled.ids, rolled.logps if exact else None, None

    def _rollouts_of_vllm(
        self, prompt_ids: list[list[int]], images: list[Image.Image], fields: dict[str, Any], draw: int
    ) -> tuple[list[list[int]], None, list[list[float]]]:
        """As `_rollouts`. A colocated vLLM draws from the random state of this process, a server from one of
        its own: with a server a resumed run goes on with other rollouts."""
        n, reader = self.num_generations, self.processing_class.image_processor
        if self.vllm_mode == "colocate":
            prompt_ids = [vllm.one_token_a_picture(ids, self._image_pad_token_id) for ids in prompt_ids]
        images = vllm.as_read(images, fields["image_grid_thw"], reader.patch_size, reader.resample)
        if draw == 0:  # the weights are those of a new batch
            vllm.forget_pictures(self.vllm_generation, self.accelerator.is_main_process)
        # The processes over which one vLLM is split must draw alike.
        set_seed(self._seed(draw, self.vllm_tensor_parallel_size) % 2**32)
        ids, sampled = self._generate_single_turn(
            [ids for ids in prompt_ids for _ in range(n)], [[x] for x in images for _ in range(n)], fields, n
        )
        return ids, None, sampled

    def _prompt_tensors(self, prompt_ids: list[list[int]], fields: dict[str, Any]) -> dict[str, torch.Tensor]:
        ids = [torch.tensor(x) for x in prompt_ids]
        inputs = {
            "input_ids": pad(ids, padding_value=self._tokenizer.pad_token_id, padding_side="left"),
            "attention_mask": pad([torch.ones_like(x) for x in ids], padding_value=0, padding_side="left"),
            "pixel_values": fields["pixel_values"],
            "image_grid_thw": fields["image_grid_thw"],
        }
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == self._image_pad_token_id).long()
        return {key: value.to(self.accelerator.device) for key, value in inputs.items()}

    def _score(
        self, examples: list[dict[str, Any]], completions: list[Any], ids: list[list[int]]
    ) -> tuple[torch.Tensor, dict[str, list[Any]]]:
        """Rewards (rows,), NaN where there is no verdict, and the columns that the reward function logged."""
        self._columns = {}
        prompts = [example["prompt"] for example in examples]
        per_function = self._calculate_rewards(examples, prompts, completions, ids)
        start = self.accelerator.process_index * len(examples)
        per_function = per_function[start : start + len(examples)]
        rewards = (per_function * self.reward_weights.to(per_function.device)).nansum(1)
        return rewards.masked_fill(per_function.isnan().all(1), torch.nan), self._columns

    def _log_completion_extra(self, column: str, values: list[Any]) -> None:
        self._columns[column] = values

    def _log_metric(self, name: str, value: float) -> None:
        """Keep none: the metrics are means of the columns, over the first draw alone."""

    def _more_examples(self, count: int, draw: int) -> list[dict[str, Any]]:
        """Other prompts for a refill."""
        generator = torch.Generator().manual_seed(self._seed(draw) + 1)
        rows = torch.randint(len(self.train_dataset), (count,), generator=generator).tolist()
        return [self.train_dataset[row] for row in rows]

    def _seed(self, draw: int, alike: int = 1) -> int:
        """A function of run, step, draw and process alone: no random state has to be saved for a resume.
        So many neighbouring processes as `alike` says have one seed."""
        digits = (self.args.seed, self.state.global_step, draw, self.accelerator.process_index // alike, 0)
        return functools.reduce(lambda total, digit: (total * 1_000_003 + digit) % 2**61, digits)

    def _pack(self, groups: list[Group]) -> dict[str, Any]:
        """The batch that TRL's loss reads: of the informative groups, the rows that carry a gradient, and for
        a KL term, which has one everywhere, all trained rows.

        The loss divides by `num_items_in_batch`, which counts the tokens of all rows of these groups, the
        dropped ones included, so that dropping them changes the time of a step and not its gradient.
        """
        generator = torch.Generator().manual_seed(self._seed(0) + 2)
        groups = [groups[k] for k in torch.randperm(len(groups), generator=generator)]
        rows = rows_with_gradient(groups, all_trained=bool(self.beta))
        pieces = self.args.gradient_accumulation_steps
        updates = self.args.steps_per_generation // pieces
        # No update may be empty, and all are of one size, in all processes.
        size = self._largest(max(1, -(-len(rows) // updates)))
        ordered = in_updates(rows, groups, updates, size, pieces)
        filled = [(groups[row.group], row.rollout) for row in ordered]
        tokens = sum(len(g.ids[k]) for g in groups for k in range(len(g.ids)) if g.trained[k])

        batch = self._tensors(filled)
        device = self.accelerator.device
        batch["advantages"] = torch.tensor([row.advantage for row in ordered], device=device)
        counted = torch.tensor(float(tokens), device=device)
        batch["num_items_in_batch"] = self.accelerator.gather(counted).sum()
        logps = [g.logps[k] for g, k in filled if g.logps]
        if logps:
            batch["old_per_token_logps"] = self._padded(logps)
        else:
            with torch.no_grad():
                batch["old_per_token_logps"] = self._logps(self.model, batch)
        sampled = [g.sampled[k] for g, k in filled if g.sampled]
        if sampled:
            batch["importance_sampling_ratio"], measured = vllm.correction(
                batch["old_per_token_logps"], self._padded(sampled), batch["completion_mask"],
                self.vllm_importance_sampling_clip_max,
            )  # fmt: skip
            for name, value in measured.items():
                self._log_mean(name, [value])
        if self.beta:
            with torch.no_grad():
                batch["ref_per_token_logps"] = self._reference_logps(batch)
            # A row that only fills up has no advantage, but its KL would count.
            counts = torch.tensor([[row.real] for row in ordered], device=device)
            batch["completion_mask"] = batch["completion_mask"] * counts
        self._log_total("rows/trained", len(rows))
        return batch

    def _padded(self, rows: list[list[float]]) -> torch.Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return pad(tensors, padding_value=0.0, padding_side="right").to(self.accelerator.device)

    def _tensors(self, rows: list[tuple[Group, int]]) -> dict[str, Any]:
        """The tensors of rollouts, each given as its group and its place there, on this device."""
        parts = [(group.prompt_ids, group.picture, group.ids[k]) for group, k in rows]
        batch = tensors(parts, self._tokenizer.pad_token_id, self._image_pad_token_id)
        device = self.accelerator.device
        return {key: x.to(device) if isinstance(x, torch.Tensor) else x for key, x in batch.items()}

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, Any]:
        """As TRL does it, but the rows of a prompt stay together; TRL shuffles them over the updates."""
        if not self.model.training:
            inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
            return inputs
        parts = self.args.steps_per_generation
        if self._step % (parts * self.num_iterations) == 0 or self._buffered_inputs is None:
            batch = self._generate_and_score_completions(generation_batch)
            self._buffered_inputs = shared_prompt.split_batch(batch, parts)
        chosen: dict[str, Any] = self._buffered_inputs[self._step % parts]
        return chosen

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, logits_to_keep: int,
        compute_entropy: bool = False, compute_aux_loss: bool = False, **fields: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
        """TRL's function, with every prompt read once; by TRL's own where the model is sharded, so that all
        processes need the same weights at once, or forgets what it read (gradient checkpointing keeps no keys
        and values)."""
        pictures = {name: fields[name] for name in ("pixel_values", "image_grid_thw", "num_images")}
        if is_sharded(self) or compute_aux_loss or self.args.gradient_checkpointing:
            fields |= shared_prompt.repeat_pictures(**pictures)
            own: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] = (
                super()._get_per_token_logps_and_entropies(
                    model, input_ids, attention_mask, logits_to_keep, compute_entropy=compute_entropy,
                    compute_aux_loss=compute_aux_loss, **fields,
                )
            )  # fmt: skip
            return own
        brings = torch.tensor(pictures.pop("num_images"), device=input_ids.device)
        prompts = {
            "input_ids": input_ids,
            "attention_mask": attention_mask,
            "mm_token_type_ids": fields["mm_token_type_ids"],
        }
        prompts = {name: value[brings == 1, :-logits_to_keep] for name, value in prompts.items()}
        answers = (input_ids[:, -logits_to_keep:], attention_mask[:, -logits_to_keep:])
        with self.accelerator.autocast():
            logps, entropies = shared_prompt.log_probs(
                model, prompts | pictures, brings.cumsum(0) - 1, *answers
            )
        return logps, entropies if compute_entropy else None, None

    # ---- what is measured

    def _describe(self, columns: dict[str, list[Any]], rewards: torch.Tensor, groups: list[Group]) -> None:
        """Metrics of the first draw: the mean of every numeric column, lengths, verdicts, KL."""
        for name, values in columns.items():
            known = [float(x) for x in values if isinstance(x, int | float)]
            if known or all(x is None for x in values):
                self._log_mean(name, known)
        self._log_mean("reward", rewards[rewards.isfinite()].tolist())
        ids = [row for group in groups for row in group.ids]
        self._log_mean("tokens", [float(len(row)) for row in ids])
        self._log_mean("truncated", [float(row[-1] not in self.eos_token_ids) for row in ids])
        self._log_mean("unscored", rewards.isnan().float().tolist())
        read = sum(len(group.prompt_ids) * len(group.ids) for group in groups)
        self.state.num_input_tokens_seen += int(self._total(read + sum(map(len, ids))))
        # A response without a trace has no logic: nobody had to be asked about it.
        scored = sum(x is not None for x in columns.get("logic", rewards[rewards.isfinite()].tolist()))
        unscored = int(self._total(int(rewards.isnan().sum())))
        judged, rows = unscored + int(self._total(scored)), int(self._total(len(rewards)))
        if self._stop and unscored > max(self.dapo.max_unscored * judged, FEW * rows):
            causes = Counter(cause for cause in columns.get("no_verdict", ()) if cause)
            why = f", most often: {causes.most_common(1)[0][0]}" if causes else ""
            self._stop.asked = f"{unscored} of {judged} rollouts have no verdict{why}"
        if self.reference and self.dapo.kl_rows:
            self._log("kl", self._kl(groups))

    def _kl(self, groups: list[Group]) -> float:
        """KL divergence of the policy from the SFT policy a token, by the estimator exp(-d) + d - 1 with
        d = log p - log p_sft on the policy's own tokens (never negative; Schulman, "Approximating KL")."""
        rows = [(g, k) for g in groups for k in range(len(g.ids))]
        rows = rows[:: max(1, len(rows) // self.dapo.kl_rows)]
        batch = self._tensors(rows)
        logps = [g.logps[k] for g, k in rows if g.logps]
        with torch.no_grad():
            own = self._padded(logps) if logps else self._logps(self.model, batch)
            difference = own - self._reference_logps(batch)
        mask = batch["completion_mask"]
        local = torch.stack([(((-difference).exp() + difference - 1) * mask).sum(), mask.sum().float()])
        total, tokens = self.accelerator.reduce(local, reduction="sum")
        return float(total / tokens)

    def _logps(self, model: Any, batch: dict[str, Any]) -> torch.Tensor:
        """Log-probabilities (rows, T) of the completions of a batch."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
        names = ("pixel_values", "image_grid_thw", "num_images", "mm_token_type_ids")
        length = batch["completion_ids"].shape[1]
        return self._get_per_token_logps_and_entropies(
            model, ids, mask, length, **{k: batch[k] for k in names}
        )[0]

    def _reference_logps(self, batch: dict[str, Any]) -> torch.Tensor:
        """Those of the reference: of a policy with adapters itself, with others or none."""
        adapters = getattr(self.reference, "peft_config", None)
        if adapters is None:
            return self._logps(self.reference, batch)
        policy = self.accelerator.unwrap_model(self.model)
        with use_adapter(policy, REFERENCE if REFERENCE in adapters else None):
            return self._logps(self.model, batch)

    def _log(self, name: str, value: float) -> None:
        self._metrics["train"][name].append(float(value))

    def _total(self, value: float) -> float:
        """The sum of a count over all processes."""
        count = torch.tensor(float(value), dtype=torch.float64, device=self.accelerator.device)
        return float(self.accelerator.reduce(count, reduction="sum"))

    def _largest(self, value: int) -> int:
        """The largest value of all processes: what these gather must be of one size."""
        return int(self.accelerator.gather(torch.tensor([value], device=self.accelerator.device)).max())

    def _log_total(self, name: str, count: int) -> None:
        self._log(name, self._total(count))

    def _log_mean(self, name: str, values: list[float]) -> None:
        """Log the mean over all processes; of no value it is NaN, which TRL leaves out of its averages."""
        local = torch.tensor([sum(values), float(len(values))], device=self.accelerator.device)
        total, count = self.accelerator.reduce(local, reduction="sum").tolist()
        self._log(name, total / count if count else float("nan"))

    # ---- the clip range

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any) -> torch.Tensor:
        loss = super().training_step(model, inputs, num_items_in_batch)
        if self.beta:  # TRL logs the KL of the rows trained on under the name of that of the first draw
            *measured, trained = self._metrics["train"].pop("kl")
            self._log("kl/trained", trained)
            if measured:
                self._metrics["train"]["kl"] = measured
        pieces = self.current_gradient_accumulation_steps
        if self.dapo.clip == "adaptive" and self._step % pieces == 0:  # once an update
            clipped = float(np.mean(self._metrics["train"]["clip_ratio/region_mean"][-pieces:]))
            step = -0.005 if clipped > self.dapo.clip_target else 0.005
            self.epsilon_low = self.epsilon_high = min(CLIP_HIGH, max(CLIP_LOW, self.epsilon_high + step))
        self._log("clip/low", self.epsilon_low)
        self._log("clip/high", self.epsilon_high)
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
        if self.args.should_save:
            write_text(folder / _CLIP_FILE, json.dumps([self.epsilon_low, self.epsilon_high]))
        super()._save_checkpoint(model, trial)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            self.epsilon_low, self.epsilon_high = json.loads((Path(checkpoint) / _CLIP_FILE).read_text())
