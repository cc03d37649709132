"""Problems in another dress: does a policy think because a question needs it, or because of how it sounds?

Perception questions get a premise in the words of the hypothetical family ("Suppose every star counts as
3."), which changes nothing about their answers. Reasoning questions are put in the words of reading ("Read
...", "What number is written ..."). All words are in the micro policy's vocabulary, which has "Read" and "Is"
only at the beginning of a line.
"""

import random
import re
from dataclasses import replace

from sailrl_lite.world.problems import FAMILIES, Problem, make_problem
from sailrl_lite.world.scenes import SHAPES

_OTHER_WORDS = {  # (pattern of the question, what takes its place)
    "add": (r".*", "Read the sum of the two numbers."),
    "angle": (r".*", "Read the missing angle."),
    "compare": (
        r".* (\w+es|\w+s) (?:than|outnumber the) (\w+).*",
        r"Read how many more \1 there are than \2.",
    ),
    "pattern": (r".*", "What number is written next?"),
    "story": (r"(.*\.) How many (\w+) are (left|there now)\?", r"\1\nRead how many \2 are \3."),
}


def dressed_problems(per_family: int) -> list[Problem]:
    """The first problems of each perception and reasoning family's test split, asked in other words.

    Pictures, answers and labels are those of `unseen_problems`, and so are the ids.
    """
    families = [family.name for family in FAMILIES.values() if family.kind != "general"]
    return [dress(make_problem(family, k, "test")) for family in families for k in range(per_family)]


def dress(problem: Problem) -> Problem:
    """The same problem in other words; one of a general family stays as it is."""
    if problem.kind == "perception":
        rng = random.Random(f"dress/{problem.id}")
        premise = f"Suppose every {rng.choice(SHAPES)} counts as {rng.randint(2, 5)}."
        return replace(problem, question=f"{premise}\n{problem.question}")
    if problem.kind == "reasoning":
        pattern, other = _OTHER_WORDS[problem.family]
        return replace(problem, question=re.sub(f"^{pattern}$", other, problem.question))
    return problem
