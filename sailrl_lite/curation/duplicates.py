"""Duplicates: the same question about the same picture, in another file, re-compressed, answered otherwise.

All pairs are never compared. Rows are the same if they share hashes; pictures are nearly the same if their
perceptual hashes differ in at most `NEAR` of 256 bits, and then at least one of `NEAR` + 1 bands of bits is
the same in both, so only rows that share a band are looked at.
"""

import functools
import hashlib
import unicodedata
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from sailrl_lite.answers import equivalent
from sailrl_lite.curation.images import hashes, perceptual_hash
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row

# Bits. Of 100 micro-world pictures of a family, at least 95 stay within 8 as a JPEG of quality 75 and at
# least 95 when made a tenth smaller. Of 2,000 different ones the nearest with the same question and gold are
# 20 apart and more, but for triangles with the same two numbers that were drawn a pixel apart.
NEAR = 8
_BITS = 256
_STEPS = 64  # of comparisons, before their pairs are taken up
_Pairs = tuple[np.ndarray, np.ndarray]


def duplicate_key(row: Row) -> dict[str, Any]:
    """What `find_duplicates` compares: numbers of question with options and of the picture, and the gold."""
    question = normalise(row.question) + "".join(f"\n{option}" for option in row.options)
    return {"question": short_hash(question), **picture_key(row.image), "gold": row.gold}


def find_duplicates(table: pd.DataFrame) -> dict[str, Drop]:
    """The rows of a table of `duplicate_key`s to drop: of each pair the later one, of a conflict both.

    Reasons: "conflicting golds", the same question about the same pixels with answers that are not
    equivalent; "duplicate"; "near duplicate", the same question about nearly the same picture with an
    equivalent answer. Where such an answer differs, the pictures are taken to differ in what matters.
    """
    drops = _conflicts(table)
    table = table[~table.index.isin(list(drops))]
    first = (
        table.index.to_series().groupby([table["question"], table["content"]], sort=False).transform("first")
    )
    copies = first[first != first.index]
    drops |= {str(copy): Drop("duplicate", f"duplicate of {other}", other) for copy, other in copies.items()}
    return drops | _near_duplicates(table[~table.index.isin(list(drops))])


def picture_key(image: bytes) -> dict[str, Any]:
    """ "content": a number of 60 bits for the pixels; "look": as `look_of` a picture."""
    content, look = hashes(image)
    return {"content": int(content[:15], 16), "look": look.to_bytes(_BITS // 8)}


def look_of(image: bytes) -> bytes:
    """The perceptual hash of a picture as `near_groups` takes it, 32 bytes."""
    return perceptual_hash(image).to_bytes(_BITS // 8)


def normalise(question: str) -> str:
    """A question without differences that mean nothing: case, white space, marks at the end.

    >>> normalise(" How many  CATS? ")
    'how many cats'
    """
    return " ".join(unicodedata.normalize("NFC", question).casefold().split()).rstrip(" .?!:")


def short_hash(text: str) -> int:
    """A number of 63 bits that is the same for the same text, in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()) >> 1


def near_groups(looks: Sequence[bytes], within: np.ndarray | None = None, distance: int = NEAR) -> np.ndarray:
    """For each of N perceptual hashes the number of the first that it is near to, itself included.

    Two hashes are near if they differ in at most `distance` bits, or through others in between.

    Args:
        within: (N,) whole numbers; only hashes with the same one are compared.
        distance: bits, from 0 to 31.
    """
    total = len(looks)
    bits = np.frombuffer(b"".join(looks), np.uint8).reshape(total, _BITS // 8)
    group = np.zeros(total, np.int64) if within is None else within.astype(np.int64)
    # The same hash many times, as of a picture with many questions, is one node.
    keys = np.hstack([bits, group.view(np.uint8).reshape(total, 8)]).view(f"V{_BITS // 8 + 8}").ravel()
    _, one, node = np.unique(keys, return_index=True, return_inverse=True)
    bits, group, label = bits[one], group[one], np.arange(len(one))
    for band in range(distance + 1):
        by = (_band(bits, band, distance + 1), group)
        for left, right in _near_pairs(bits.view(np.uint64), by, distance):
            label = _joined(label, left, right)
    found = label[node]
    first = np.full(len(one), total)
    np.minimum.at(first, found, np.arange(total))
    return first[found]


def _conflicts(table: pd.DataFrame) -> dict[str, Drop]:
    drops: dict[str, Drop] = {}
    texts = table.groupby(["question", "content"], sort=False)["gold"].transform("nunique")
    for _, group in table[texts > 1].groupby(["question", "content"], sort=False):
        golds = group["gold"].to_dict()
        first, gold = next(iter(golds.items()))
        other = next((name for name, text in golds.items() if not same_gold(gold, text)), None)
        if other is not None:
            detail = f"{gold!r} in {first}, {golds[other]!r} in {other}"
            sides = {name: other if name == first else first for name in golds}
            drops |= {str(name): Drop("conflicting golds", detail, str(side)) for name, side in sides.items()}
    return drops


def _near_duplicates(table: pd.DataFrame) -> dict[str, Drop]:
    if table.empty:
        return {}
    looks = list(table["look"])
    groups = near_groups(looks, table["question"].to_numpy())
    drops: dict[str, Drop] = {}
    kept: dict[Hashable, list[int]] = {}  # of each group the rows that stay, each with a gold of its own
    ids, golds = table.index, table["gold"].to_numpy()
    for place in np.flatnonzero(np.bincount(groups, minlength=len(table))[groups] > 1):
        stays = kept.setdefault(groups[place], [])
        original = next((k for k in stays if same_gold(golds[k], golds[place])), None)
        if original is None:
            stays.append(place)
            continue
        bits = (int.from_bytes(looks[original]) ^ int.from_bytes(looks[place])).bit_count()
        detail = f"near duplicate of {ids[original]} (distance {bits})"
        drops[ids[place]] = Drop("near duplicate", detail, ids[original])
    return drops


@functools.lru_cache(maxsize=65536)
def same_gold(gold: str, other: str) -> bool:
    """Whether two gold answers are equivalent; the same text is, without asking."""
    return gold == other or equivalent(gold, other)


# ---- pictures that are near one another


def _band(bits: np.ndarray, band: int, bands: int) -> np.ndarray:
    """(N,) numbers of every `bands`-th bit: neighbouring bits are alike, so each band has some of all."""
    values = np.zeros(len(bits), np.uint64)
    for bit in range(band, _BITS, bands):
        values = values << np.uint64(1) | (bits[:, bit // 8] >> (7 - bit % 8) & 1).astype(np.uint64)
    return values


def _near_pairs(words: np.ndarray, sorted_by: tuple[np.ndarray, ...], distance: int) -> Iterator[_Pairs]:
    """Pairs of nodes that share the sorting keys and are near, many at a time.

    Sorted, those that share both stand side by side: each is compared with the next, the one after, ... as
    long as there is one.
    """
    order = np.lexsort(sorted_by)
    words, keys = words[order], [key[order] for key in sorted_by]
    at, step = np.arange(len(order)), 0
    found: list[_Pairs] = []
    while len(at):
        step += 1
        at = at[at + step < len(order)]
        for key in keys:
            at = at[key[at] == key[at + step]]
        near = at[np.bitwise_count(words[at] ^ words[at + step]).sum(1) <= distance]
        found.append((order[near], order[near + step]))
        if not len(at) or len(found) == _STEPS:
            left, right = zip(*found, strict=True)
            yield np.concatenate(left), np.concatenate(right)
            found = []


def _joined(label: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The labels of components after some pairs were joined."""
    edges = coo_array((np.ones(len(left), bool), (label[left], label[right])), (len(label), len(label)))
    return connected_components(edges, directed=False)[1][label]
