"""The families of picture questions, and what is known to be true about each problem.

A family draws a scene at random and states the truth behind it: the facts that the picture, the question or
world knowledge support, and the quantities that answer the question. Rendering, teacher and verifier all
start from this truth and know nothing of each other. Each family stands for a benchmark of the paper.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from PIL import Image

from sailrl_lite.errors import SailRLError
from sailrl_lite.world.scenes import (
    CELL,
    COLORS,
    FONTS,
    SHAPES,
    Bar,
    Digit,
    Item,
    Lines,
    Mark,
    Scene,
    Shape,
    Text,
    render,
    scans,
)

Kind = Literal["perception", "general", "reasoning"]
Source = Literal["image", "question", "world"]
SHORTCUT_WORDS = (*COLORS, *SHAPES, "yes", "no")  # their place in this list is the code of the shortcut mark


@dataclass(frozen=True)
class Fact:
    value: str
    source: Source = "image"


@dataclass(frozen=True)
class Term:
    """`factor * value(name)`; without a name it is the number `factor` itself, as in 180 - left - right."""

    factor: int
    name: str | None = None


Quantity = tuple[Term, ...]  # a sum of terms, in the order in which a person would work them out


@dataclass(frozen=True)
class Problem:
    """One question about one picture, with its whole truth.

    `facts` names everything a trace may claim. `targets` are the quantities that answer the question: the
    first as the teacher works it out, then other right ways. A question about one fact has one such term.
    `distractor` is the wrong model of the problem that a careless reader would use, where there is one.
    """

    family: str
    kind: Kind
    seed: int
    split: str
    question: str
    scene: Scene
    facts: dict[str, Fact]
    targets: tuple[Quantity, ...]
    gold: str
    needs_thinking: bool
    distractor: Quantity = field(default=())

    @property
    def image(self) -> Image.Image:
        return render(self.scene)

    @property
    def id(self) -> str:
        return f"{self.family}-{self.split}-{self.seed}"


@dataclass(frozen=True)
class Draft:
    """What a family's function returns; `make_problem` adds the rest."""

    question: str
    scene: list[Item]
    facts: dict[str, Fact]
    targets: tuple[Quantity, ...]
    distractor: Quantity = ()
    needs_thinking: bool | None = None  # None: as the family's kind says


@dataclass(frozen=True)
class Family:
    name: str
    kind: Kind
    stands_for: str
    draw: Callable[[random.Random, str], Draft]


FAMILIES: dict[str, Family] = {}


def _family(kind: Kind, stands_for: str) -> Callable[[Callable[[random.Random, str], Draft]], Callable]:
    def register(draw: Callable[[random.Random, str], Draft]) -> Callable[[random.Random, str], Draft]:
        FAMILIES[draw.__name__] = Family(draw.__name__, kind, stands_for, draw)
        return draw

    return register


def get_family(name: str) -> Family:
    if name not in FAMILIES:
        raise SailRLError(f"unknown family {name!r}; known families: {', '.join(FAMILIES)}")
    return FAMILIES[name]


def make_problem(family: str, seed: int, split: str = "train", shortcut: float = 0.0) -> Problem:
    """The problem number `seed` of a family; the same arguments always give the same problem.

    Args:
        family: a key of `FAMILIES`.
        seed: any whole number; seeds of different splits are unrelated.
        split: "train" or "test"; they share no scan of a handwritten digit.
        shortcut: probability in [0, 1] that the picture carries a mark that encodes the answer.

    Raises:
        SailRLError: unknown family or split, or a shortcut outside [0, 1].
    """
    found = get_family(family)
    if split not in ("train", "test"):
        raise SailRLError(f"unknown split {split!r}; use 'train' or 'test'")
    if not 0 <= shortcut <= 1:
        raise SailRLError(f"shortcut must lie in [0, 1], not {shortcut}")
    rng = random.Random(f"{family}/{split}/{seed}")
    draft = found.draw(rng, split)
    gold = evaluate(draft.targets[0], draft.facts)
    # Its own source of randomness: turning the knob changes no other pixel.
    marked = random.Random(f"mark/{family}/{split}/{seed}").random() < shortcut
    scene = [*draft.scene, Mark(_mark_code(gold))] if marked else draft.scene
    needs = found.kind == "reasoning" if draft.needs_thinking is None else draft.needs_thinking
    truth = (draft.question, tuple(scene), draft.facts, draft.targets, gold, needs, draft.distractor)
    return Problem(family, found.kind, seed, split, *truth)


def evaluate(quantity: Quantity, facts: dict[str, Fact]) -> str:
    """The value of a quantity; a quantity of one bare term may be a word ("red", "yes")."""
    if len(quantity) == 1 and quantity[0].factor == 1 and quantity[0].name:
        return facts[quantity[0].name].value
    return str(sum(t.factor * (int(facts[t.name].value) if t.name else 1) for t in quantity))


def _mark_code(gold: str) -> int:
    return 900 + SHORTCUT_WORDS.index(gold) if gold in SHORTCUT_WORDS else int(gold) % 900


# ---- pieces of scenes


def _seen(**values: object) -> dict[str, Fact]:
    return {name.replace("_", " "): Fact(str(value)) for name, value in values.items()}


def _sum(*names: str) -> Quantity:
    return tuple(Term(1, name) for name in names)


def _center(cell: int) -> tuple[int, int]:
    return cell % 4 * CELL + CELL // 2, cell // 4 * CELL + CELL // 2


def _handwritten(rng: random.Random, split: str, number: int, cell: int) -> list[Item]:
    items: list[Item] = []
    for k, digit in enumerate(str(number)):
        x, y = _center(cell + k)
        scan = rng.choice(scans(int(digit), split))
        jitter = rng.randint(-2, 2), rng.randint(-1, 1)
        items.append(Digit(scan, x + jitter[0], y + jitter[1], rng.randint(22, 26), rng.uniform(-8, 8)))
    return items


def _printed(rng: random.Random, text: str, cell: int) -> Text:
    x, y = _center(cell)
    x, y = x + rng.randint(-1, 1), y + rng.randint(-2, 2)
    return Text(text, x, y, rng.randint(17, 19), rng.randrange(len(FONTS)))


def _shapes(rng: random.Random, wanted: list[tuple[str, str]]) -> list[Item]:
    items: list[Item] = []
    for cell, (kind, color) in zip(rng.sample(range(8), len(wanted)), wanted, strict=True):
        x, y = _center(cell)
        items.append(Shape(kind, color, x + rng.randint(-3, 3), y + rng.randint(-2, 2), rng.randint(8, 10)))
    return items


_CORNERS = ((-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1))


def _looks(shown: list[tuple[str, str]]) -> dict[str, Fact]:
    """All that can be said about some (shape, color) pairs: how many of each shape, what is there and what
    is not, and the color of a shape (or the shape of a color) where only one thing can be meant."""
    kinds, colors = [k for k, _ in shown], [c for _, c in shown]
    facts = {plural(k): Fact(str(kinds.count(k))) for k in SHAPES}
    facts |= {f"{c} {k}": Fact("yes" if (k, c) in shown else "no") for k in SHAPES for c in COLORS}
    facts |= {k: Fact(c) for k, c in shown if kinds.count(k) == 1}
    return facts | {c: Fact(k) for k, c in shown if colors.count(c) == 1}


def plural(kind: str) -> str:
    return kind + ("es" if kind == "cross" else "s")


def _bar_chart(rng: random.Random, n: int) -> tuple[list[Item], dict[str, Fact], list[str]]:
    colors = rng.sample(list(COLORS), n)
    heights = [rng.randint(1, 9) for _ in colors]
    axis = Lines(((2, 3), (2, 52), (110, 52)))
    ticks = [Lines(((0, 52 - 5 * h), (4, 52 - 5 * h))) for h in (5, 9)]
    chart = list(zip(colors, heights, strict=True))
    bars = [Bar(color, 15 + 28 * k + rng.randint(-2, 2), height) for k, (color, height) in enumerate(chart)]
    return [axis, *ticks, *bars], {color: Fact(str(height)) for color, height in chart}, colors


# ---- perception: the answer is read off the picture


@_family("perception", "OCRBench")
def read_number(rng: random.Random, split: str) -> Draft:
    number = rng.randint(10, 99)
    question = rng.choice(["What number is written?", "Read the number."])
    scene = _handwritten(rng, split, number, rng.randrange(3) + 4 * rng.randrange(2))
    return Draft(question, scene, _seen(number=number), (_sum("number"),))


@_family("perception", "MMBench")
def color_of(rng: random.Random, split: str) -> Draft:
    shown = [(kind, rng.choice(list(COLORS))) for kind in rng.sample(SHAPES, 4)]
    asked, _ = rng.choice(shown)
    question = rng.choice([f"What color is the {asked}?", f"Which color has the {asked}?"])
    return Draft(question, _shapes(rng, shown), _looks(shown), (_sum(asked),))


@_family("perception", "MME")
def shape_of(rng: random.Random, split: str) -> Draft:
    shown = [(rng.choice(SHAPES), color) for color in rng.sample(list(COLORS), 4)]
    _, asked = rng.choice(shown)
    question = rng.choice([f"Which shape is {asked}?", f"What shape is {asked}?"])
    return Draft(question, _shapes(rng, shown), _looks(shown), (_sum(asked),))


@_family("perception", "HallusionBench")
def exists(rng: random.Random, split: str) -> Draft:
    shown = [(rng.choice(SHAPES), rng.choice(list(COLORS))) for _ in range(4)]
    kind, color = rng.choice(shown)
    if rng.random() < 0.5:  # ask for what is not there, though its shape or its color may be
        kind, color = rng.choice([(k, c) for k in SHAPES for c in COLORS if (k, c) not in shown])
    name = f"{color} {kind}"
    question = rng.choice([f"Is there a {name}?", f"Does the picture show a {name}?"])
    return Draft(question, _shapes(rng, shown), _looks(shown), (_sum(name),))


@_family("perception", "ChartQA")
def read_bar(rng: random.Random, split: str) -> Draft:
    scene, facts, colors = _bar_chart(rng, 4)
    asked = rng.choice(colors)
    question = rng.choice([f"How high is the {asked} bar?", f"What is the height of the {asked} bar?"])
    return Draft(question, scene, facts, (_sum(asked),))


# ---- general: whether thinking is needed differs from one instance to the next


@_family("general", "MMMU")
def bars(rng: random.Random, split: str) -> Draft:
    scene, facts, colors = _bar_chart(rng, 4)
    if rng.random() < 0.5:
        question = f"How high is the {colors[0]} bar?"
        return Draft(question, scene, facts, (_sum(colors[0]),), needs_thinking=False)
    a, b, c = colors[:3]
    question = f"How high are the {a}, {b} and {c} bars together?"
    return Draft(question, scene, facts, (_sum(a, b, c),), (*_sum(a, b), Term(-1, c)), True)


@_family("general", "MMStar")
def suppose(rng: random.Random, split: str) -> Draft:
    """A hypothetical that overrides what everybody knows: a shape counts as several."""
    kind, other, lone = rng.sample(SHAPES, 3)
    worth, few, more = rng.randint(2, 5), rng.randint(1, 3), rng.randint(1, 4)
    shown = [(k, rng.choice(list(COLORS))) for k in [kind] * few + [other] * more + [lone]]
    facts = {f"each {k}": Fact("1", "world") for k in SHAPES} | _looks(shown)
    facts[f"each {kind}"] = Fact(str(worth), "question")
    premise = f"Suppose every {kind} counts as {worth}."
    scene = _shapes(rng, shown)
    if rng.random() < 0.5:
        question = f"{premise} What color is the {lone}?"
        return Draft(question, scene, facts, (_sum(lone),), needs_thinking=False)
    question = f"{premise} What do the {plural(kind)} and {plural(other)} count together?"
    target = (Term(worth, plural(kind)), Term(1, plural(other)))
    return Draft(question, scene, facts, (target,), (Term(1, plural(kind)), Term(worth, plural(other))), True)


@_family("general", "AI2D")
def rule(rng: random.Random, split: str) -> Draft:
    """A diagram of three boxes: name what one holds, or follow a rule over two of them."""
    values = dict(zip(("left", "middle", "right"), (rng.randint(2, 19) for _ in range(3)), strict=True))
    scene: list[Item] = []
    first = 4 * rng.randrange(2) + rng.randrange(2)
    for k, value in enumerate(values.values()):
        x, y = _center(first + k)
        scene.append(Lines(tuple((x + 13 * a, y + 12 * b) for a, b in _CORNERS)))
        scene.append(_printed(rng, str(value), first + k))
    facts = _seen(**values)
    a, b = rng.sample(list(values), 2)
    if rng.random() < 0.5:
        return Draft(f"What does the {a} box hold?", scene, facts, (_sum(a),), needs_thinking=False)
    question = f"Rule: double the {a} box, then add the {b} box. What comes out?"
    return Draft(question, scene, facts, ((Term(2, a), Term(1, b)),), (Term(1, a), Term(2, b)), True)


# ---- reasoning: several steps


@_family("reasoning", "MathVision, MathVista")
def add(rng: random.Random, split: str) -> Draft:
    top, bottom = rng.randint(11, 59), rng.randint(11, 40)
    column = rng.randrange(3)
    scene = _handwritten(rng, split, top, column) + _handwritten(rng, split, bottom, 4 + column)
    question = rng.choice(["What is the sum of the two numbers?", "Add the two numbers."])
    target, wrong = _sum("top", "bottom"), (Term(1, "top"), Term(-1, "bottom"))
    return Draft(question, scene, _seen(top=top, bottom=bottom), (target,), wrong)


@_family("reasoning", "MathVerse")
def angle(rng: random.Random, split: str) -> Draft:
    left, right = 5 * rng.randint(4, 17), 5 * rng.randint(4, 17)
    apex = rng.randint(46, 66)
    scene: list[Item] = [
        Lines(((4, 52), (108, 52), (apex, 4), (4, 52))),
        Text(str(left), 40 + rng.randint(-1, 1), 43, 15, rng.randrange(len(FONTS))),
        Text(str(right), 72 + rng.randint(-1, 1), 43, 15, rng.randrange(len(FONTS))),
        Text("?", apex, 18, 12),
    ]
    facts = _seen(left=left, right=right) | {"angle sum": Fact("180", "world")}
    question = rng.choice(["How large is the missing angle?", "Find the missing angle."])
    target = (Term(180), Term(-1, "left"), Term(-1, "right"))
    return Draft(question, scene, facts, (target,), (Term(180), Term(-1, "left"), Term(1, "right")))


@_family("reasoning", "DynaMath")
def compare(rng: random.Random, split: str) -> Draft:
    difference = rng.randint(1, 5)
    few = rng.randint(1, (8 - difference) // 2)
    more, less = rng.sample(SHAPES, 2)
    shown = [(k, rng.choice(list(COLORS))) for k in [more] * (few + difference) + [less] * few]
    question = rng.choice(
        [
            f"How many more {plural(more)} than {plural(less)} are there?",
            f"By how many do the {plural(more)} outnumber the {plural(less)}?",
        ]
    )
    target = (Term(1, plural(more)), Term(-1, plural(less)))
    return Draft(question, _shapes(rng, shown), _looks(shown), (target,), _sum(plural(more), plural(less)))


@_family("reasoning", "LogicVista")
def pattern(rng: random.Random, split: str) -> Draft:
    start, step = rng.randint(2, 40), rng.randint(2, 9)
    row = [start, start + step, start + 2 * step]
    line = rng.randrange(2)
    scene: list[Item] = [_printed(rng, str(value), 4 * line + k) for k, value in enumerate(row)]
    scene.append(_printed(rng, "?", 4 * line + 3))
    names = ("first", "second", "third")
    target = (Term(1, "second"), Term(-1, "first"), Term(1, "third"))
    other = (Term(1, "third"), Term(-1, "second"), Term(1, "third"))
    facts = _seen(**dict(zip(names, row, strict=True)))
    question = rng.choice(["Which number comes next?", "Continue the row."])
    wrong = (Term(1, "second"), Term(-1, "first"), Term(1, "second"))
    return Draft(question, scene, facts, (target, other), wrong)


@_family("reasoning", "WeMath")
def story(rng: random.Random, split: str) -> Draft:
    """A word problem in two steps over two printed numbers and one in the text."""
    left, right = rng.randint(4, 49), rng.randint(2, 9)
    other = rng.randint(2, 9)
    who, thing = rng.choice(["Ann", "Tom"]), rng.choice(["apples", "coins"])
    row = 4 * rng.randrange(2)
    scene: list[Item] = [_printed(rng, str(left), row), _printed(rng, str(right), row + 3)]
    if rng.random() < 0.5:
        name, sign = "given", -1
        question = f"{who} has two bags of {thing} and gives away {other}. How many {thing} are left?"
    else:
        name, sign = "found", 1
        question = f"{who} has two bags of {thing} and finds {other} more. How many {thing} are there now?"
    facts = _seen(left=left, right=right) | {name: Fact(str(other), "question")}
    target, wrong = ((*_sum("left", "right"), Term(factor, name)) for factor in (sign, -sign))
    return Draft(question, scene, facts, (target,), wrong)
