"""Problems in another dress: same picture, answer and label, other words, all of them known to the policy."""

import pytest

from sailrl_lite.config import SHIPPED
from sailrl_lite.training.models import load_checkpoint
from sailrl_lite.world.dress import dress, dressed_problems
from sailrl_lite.world.problems import FAMILIES, make_problem


def test_only_the_words_change():
    dressed = dressed_problems(30)
    assert {p.family for p in dressed} == {name for name, f in FAMILIES.items() if f.kind != "general"}
    for problem in dressed:
        plain = make_problem(problem.family, problem.seed, "test")
        assert problem.question != plain.question
        assert (problem.id, problem.gold, problem.needs_thinking) == (
            plain.id,
            plain.gold,
            plain.needs_thinking,
        )
        assert problem.scene == plain.scene


def test_the_policy_knows_every_word():
    tokenizer = load_checkpoint(SHIPPED)[1].tokenizer
    for problem in dressed_problems(60):
        assert tokenizer.unk_token_id not in tokenizer(problem.question)["input_ids"], problem.question


@pytest.mark.parametrize("seed", range(20))
def test_what_is_counted_stays_what_is_counted(seed):
    problem = make_problem("compare", seed, "test")
    more, less = (term.name for term in problem.targets[0])
    assert dress(problem).question == f"Read how many more {more} there are than {less}."


def test_general_families_stay_as_they_are():
    problem = make_problem("rule", 0, "test")
    assert dress(problem) == problem
