"""How large a model is, exactly, from its config.json alone: no weights, no download."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sailrl_lite.errors import SailRLError, suggest
from sailrl_lite.files import read_toml

_FILE = Path(__file__).parent / "models.toml"
# What transformers' configuration classes say of the picture tower where a config.json is silent.
_VISION: dict[str, dict[str, Any]] = {
    "qwen2_vl": dict(
        depth=32, embed_dim=1280, mlp_ratio=4, num_heads=16, in_channels=3, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2, hidden_size=3584,
    ),
    "qwen2_5_vl": dict(
        depth=32, hidden_size=3584, intermediate_size=3420, num_heads=16, in_channels=3, patch_size=14,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584,
    ),
    "qwen3_vl": dict(
        depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, in_channels=3, patch_size=16,
        spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=3584, num_position_embeddings=2304,
        deepstack_visual_indexes=(8, 16, 24),
    ),
    "sailvl": dict(in_channels=3, image_size=448, patch_size=14),
}  # fmt: skip
_KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "sailvl", "qwen2", "qwen3")


@dataclass(frozen=True)
class Tower:
    """A stack of equal transformer layers.

    Attributes:
        layers, width, inner: of the stack, of the residual stream and of the feed-forward part.
        queries, keys: width of all query heads, and of all key heads, together.
        heads: of the queries.
        linears: (in, out) of every linear map of a layer.
        layer_parameters: of one layer, biases and norms too.
        gated: the feed-forward part has two maps in, one of them a gate.
    """

    layers: int
    width: int
    inner: int
    queries: int
    keys: int
    heads: int
    layer_parameters: int
    gated: bool = True

    @property
    def linears(self) -> tuple[tuple[int, int], ...]:
        inward = ((self.width, self.inner),) * (2 if self.gated else 1)
        attention = (self.width, self.queries), (self.width, self.keys), (self.width, self.keys)
        return (*attention, (self.queries, self.width), *inward, (self.inner, self.width))

    @property
    def parameters(self) -> int:
        return self.layers * self.layer_parameters


@dataclass(frozen=True)
class Shape:
    """The sizes of a policy.

    Attributes:
        text, vision: its towers; a model without pictures has no `vision`.
        vocabulary: tokens; their embeddings are also the head where `tied`.
        around_vision: parameters of the picture part beside its layers (patches, places, merger).
        patch: side of a patch in pixels; merge x merge patches become one token.
    """

    name: str
    text: Tower
    vision: Tower | None
    vocabulary: int
    tied: bool
    around_vision: int = 0
    patch: int = 14
    merge: int = 2

    @property
    def parameters(self) -> int:
        """All of them, a tied head counted once."""
        return self.text.parameters + self.text.width + self.embeddings + self.vision_parameters

    @property
    def embeddings(self) -> int:
        """Parameters of the embeddings, and of the head where it is not tied to them."""
        return self.vocabulary * self.text.width * (1 if self.tied else 2)

    @property
    def vision_parameters(self) -> int:
        return (self.vision.parameters if self.vision else 0) + self.around_vision

    @property
    def cache_bytes(self) -> int:
        """Of the keys and values of one token, in two bytes a number."""
        return 2 * 2 * self.text.layers * self.text.keys

    def picture_tokens(self, pixels: int) -> int:
        """Tokens of a picture of so many pixels."""
        return math.ceil(pixels / (self.patch * self.merge) ** 2)


def read_shape(checkpoint: str | Path) -> Shape:
    """The shape of a model of `models.toml` by its name, or of a folder that has a config.json.

    Raises:
        SailRLError: there is no such folder and the name is not known, or the architecture is not.
    """
    known = read_toml(_FILE, "the shapes of public models")
    file = Path(checkpoint) / "config.json"
    if file.is_file():
        try:
            config = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise SailRLError(f"{file} is not JSON; name another checkpoint") from error
    elif str(checkpoint) in known:
        config = known[str(checkpoint)]
    else:
        raise SailRLError(
            f"the shape of {str(checkpoint)!r} is not known: it is no folder with a config.json, "
            f"and among the public models {suggest(str(checkpoint), known)}"
        )
    return shape_of(str(checkpoint), config)


def shape_of(name: str, config: Mapping[str, Any]) -> Shape:
    """The shape that the entries of a config.json stand for.

    Raises:
        SailRLError: the architecture is none of those known, or an entry is missing.
    """
    kind = str(config.get("model_type"))
    if kind not in _KINDS:
        raise SailRLError(f"{name} is a {kind!r}, whose shape is not known; known: {', '.join(_KINDS)}")
    text = config.get("text_config") or config.get("llm_config") or config
    tied = text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
    try:
        tower = _text(kind, text)
        vision, around, own = None, 0, {}
        if kind in _VISION:
            own = _VISION[kind] | dict(config["vision_config"])
            reader = {"qwen2_vl": _qwen2, "qwen2_5_vl": _qwen2_5, "qwen3_vl": _qwen3, "sailvl": _sail}[kind]
            vision, around = reader(own, text["hidden_size"])
        merge = (
            round(1 / config["downsample_ratio"]) if kind == "sailvl" else own.get("spatial_merge_size", 2)
        )
        return Shape(
            name, tower, vision, text["vocab_size"], bool(tied), around, own.get("patch_size", 14), merge
        )
    except KeyError as error:
        raise SailRLError(f"the configuration of {name} has no entry {error}") from None


def _text(kind: str, config: Mapping[str, Any]) -> Tower:
    width, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    head = config.get("head_dim") or width // heads
    queries, keys = heads * head, config["num_key_value_heads"] * head
    size = 2 * width * (queries + keys) + 3 * width * inner + 2 * width
    # Qwen2 has biases of queries, keys and values, Qwen3 norms of queries and keys instead.
    size += queries + 2 * keys if kind.startswith("qwen2") else 2 * head
    return Tower(config["num_hidden_layers"], width, inner, queries, keys, heads, size)


def _merger(width: int, merge: int, out: int, norm: int) -> int:
    """Parameters of what makes merge x merge patches one token: a norm and two maps."""
    wide = width * merge**2
    return norm + wide * wide + wide + wide * out + out


def _qwen2(c: Mapping[str, Any], _: int) -> tuple[Tower, int]:
    width, inner, merge = c["embed_dim"], c["embed_dim"] * c["mlp_ratio"], c["spatial_merge_size"]
    layer = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    patches = c["in_channels"] * c["temporal_patch_size"] * c["patch_size"] ** 2 * width
    around = patches + _merger(width, merge, c["hidden_size"], 2 * width)
    return Tower(c["depth"], width, inner, width, width, c["num_heads"], layer, gated=False), around


def _qwen2_5(c: Mapping[str, Any], _: int) -> tuple[Tower, int]:
    width, inner = c["hidden_size"], c["intermediate_size"]
    layer = 4 * width * width + 4 * width + 3 * width * inner + 2 * inner + width + 2 * width
    patches = c["in_channels"] * c["temporal_patch_size"] * c["patch_size"] ** 2 * width
    around = patches + _merger(width, c["spatial_merge_size"], c["out_hidden_size"], width)
    return Tower(c["depth"], width, inner, width, width, c["num_heads"], layer), around


def _qwen3(c: Mapping[str, Any], _: int) -> tuple[Tower, int]:
    width, inner, merge = c["hidden_size"], c["intermediate_size"], c["spatial_merge_size"]
    layer = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width
    patches = c["in_channels"] * c["temporal_patch_size"] * c["patch_size"] ** 2 * width + width
    around = patches + c["num_position_embeddings"] * width
    around += _merger(width, merge, c["out_hidden_size"], 2 * width)
    deep = _merger(width, merge, c["out_hidden_size"], 2 * width * merge**2)
    around += len(c["deepstack_visual_indexes"]) * deep
    return Tower(c["depth"], width, inner, width, width, c["num_heads"], layer, gated=False), around


def _sail(c: Mapping[str, Any], out: int) -> tuple[Tower, int]:
    width, inner = c["hidden_size"], c["intermediate_size"]
    layer = 4 * width * width + 3 * width * inner + 2 * width
    patches = c["in_channels"] * c["patch_size"] ** 2 * width + width
    places = (c["image_size"] // c["patch_size"]) ** 2 * width
    wide = 4 * width
    around = patches + 2 * width + places + 2 * wide + wide * out + out + out * out + out
    heads = c["num_attention_heads"]
    return Tower(c["num_hidden_layers"], width, inner, width, width, heads, layer), around
