"""Equal answers: every kind, the traps of math-verify, and a worker that neither hangs nor stays behind."""

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sailrl_lite.answers import check_gold, equivalent
from sailrl_lite.answers.mathematics import worker

CASES = [
    json.loads(line) for line in (Path(__file__).parent / "cases" / "answers.jsonl").open(encoding="utf-8")
]
TOWER = "9^{9^{9^{9}}}"

# gold == predictions that equal it, gold != predictions that do not; a prediction ends at " ¦ "
TABLE = r"""
words
blue == Blue. ¦ **blue** ¦ the blue ¦ \text{blue} ¦ The ball is blue ¦ "blue" ¦ It's blue!
blue != lbue ¦ not blue ¦ The ball is not blue ¦ blue or red ¦ red
light blue == light-blue ¦ The answer is light blue.
light blue != blue light ¦ blue
The cat is black == the cat is black.
The cat is black != the dog is black ¦ cat
Yes == yes ¦ Yes, it is.
Yes != No ¦ No, it is not. ¦ true
H_2O == H2O ¦ H₂O ¦ \mathrm{H_2O}
H_2O != 2HO ¦ HO
C++ == c++
C++ != C
北京 == 北京。
北京 != 京北
option letters
C == c ¦ (C) ¦ C. ¦ C) 12 cm ¦ (C) 12 cm ¦ C: 12 cm ¦ Option C ¦ \textbf{(C)} ¦ C - the blue one
C != D ¦ C or D ¦ AC ¦ D. 12 cm
G == g ¦ The correct option is (G). ¦ G is correct
G != A ¦ 5
A == A. 5 cm ¦ answer: A
A != A or B ¦ A, B ¦ A and B ¦ A) 5 or B) 6 ¦ a cat
AC != CA ¦ A
A and C == C, A ¦ both A and C
A and C != A ¦ A, B
numbers
42 == 42.0 ¦ +42 ¦ 042 ¦ forty-two ¦ ４２ ¦ (42) ¦ {42} ¦ \boxed{42} ¦ It is 42 ¦ **42** ¦ $42$ ¦ `42`
42 != 43 ¦ -42 ¦ 42! ¦ 42 or 43 ¦ 42, 43 ¦ not 42 ¦ more than 42 ¦ 42 squared
-5 == −5 ¦ –5 ¦ minus 5 ¦ \left(-5\right)
-5 != 5 ¦ - 6
0.5 == .5 ¦ 1/2 ¦ 0.50 ¦ \frac12 ¦ ½ ¦ half
0.5 != 50% ¦ 0.49999999 ¦ 5
1/3 == \frac{1}{3} ¦ \dfrac13 ¦ 2/6 ¦ 0.\overline{3} ¦ one third
1/3 != 0.33 ¦ 0.333... ¦ 33.3%
3/2 == 1 1/2 ¦ 1\frac{1}{2} ¦ 1½ ¦ 1.5
3/2 != 11/2 ¦ 1/2
1234567 == 1,234,567 ¦ 1 234 567 ¦ 1{,}234{,}567 ¦ 1\,234\,567
1234567 != 1,234 ¦ 1.234567
5000 == 5e3 ¦ 5E+3 ¦ 5\times10^3 ¦ 5 × 10³ ¦ 5 thousand ¦ 5*10^{3}
5000 != 5e4 ¦ 500
5 million == 5,000,000 ¦ 5000000 ¦ five million
5 million != 5 ¦ 5 billion
47 == 4 7 ¦ 4 7 . ¦ 4 7 cm
47 != 4, 7 ¦ 4.7
28 != 4 7
3.14 == 3 . 1 4
3.14 != \pi
12 == a dozen ¦ \(12\) ¦ # 12 ¦ x = \boxed{12}
-2 != 3-5 ¦ 3–5
units, currency, nouns, degrees, percentages
12 cm == 12 ¦ 12\text{ cm} ¦ 12cm ¦ 0.12 m ¦ 120 mm ¦ 12 centimeters
12 cm != 12 m ¦ 12 kg ¦ 12 cm^2
90 min == 1.5 hours ¦ 1 h 30 min ¦ 5400 s ¦ 1 hour and 30 minutes
90 min != 90 s ¦ 1 h
1.5 kg == 1500 g ¦ 0.0015 t
1.5 kg != 1.5 g ¦ 15 kg
36 km/h == 10 m/s ¦ 36 kilometers per hour
36 km/h != 36 m/s
12 cm^2 == 12 cm² ¦ 12\text{ cm}^2 ¦ 12 square centimeters ¦ 0.0012 m^2
12 cm^2 != 12 cm ¦ 0.12 m^2
5 apples == 5 ¦ 5 red apples ¦ There are 5 apples ¦ five apples
5 apples != 5 oranges ¦ 5 apples and 6 pears
$5 == 5 ¦ 5 dollars ¦ \$5 ¦ $5.00 ¦ USD 5
$5 != €5 ¦ 5 cents ¦ $6
30° == 30 ¦ 30 degrees ¦ 30^\circ ¦ 30^{\circ} ¦ 30º ¦ 30^o
30° != 60° ¦ 30°C ¦ \frac{\pi}{6}
30 °C == 30 degrees Celsius ¦ 30
30 °C != 30 °F
50% == 50\% ¦ 50 ¦ 50 percent ¦ 50 per cent ¦ $50\%$
50% != 0.5 ¦ 1/2 ¦ 50 cm
ratios, clock times, dates
1:2 == 2:4 ¦ 1 : 2 ¦ 1\colon 2 ¦ 0.5:1
1:2 != 2:1 ¦ 1/2 ¦ 0.5 ¦ 1:2:3
12:30 == 12:30 pm ¦ 12:30:00 ¦ 1 2 : 3 0 ¦ The time is 12:30
12:30 != 24:60 ¦ 12.5 ¦ 2:5 ¦ 12:31
3:05 pm == 15:05 ¦ 3:05 p.m. ¦ 03:05
3:05 pm != 3:05 am ¦ 3:06 pm
2019-05-03 == May 3, 2019 ¦ 3rd of May 2019 ¦ 2019/5/3 ¦ 3-May-2019
2019-05-03 != 2019-03-05 ¦ 2011 ¦ May 3
03/05/2019 != 05/03/2019 ¦ 2019-05-03
intervals, tuples, sets, lists
[0,1) == [0, 1) ¦ \left[0, 1\right) ¦ [0,\frac{2}{2}) ¦ 0 \le x < 1
[0,1) != [0,1] ¦ (0,1) ¦ 0, 1
(-\infty, 5] == (−∞, 5] ¦ x \in (-\infty,5]
(-\infty, 5] != (-\infty,5)
(-\infty,1)\cup(2,\infty) == (2,\infty)\cup(-\infty,1)
(-\infty,1)\cup(2,\infty) != (-\infty,1)\cup(3,\infty)
(1,2) == (1, 2) ¦ (x,y)=(1,2) ¦ (1.0, 4/2) ¦ 1, 2
(1,2) != (2,1) ¦ [1,2] ¦ (1,2,3) ¦ \{1,2\}
\{1,2\} == \{2, 1\} ¦ \{1,2,2\} ¦ {1,2} ¦ 2, 1 ¦ \left\{1,2\right\}
\{1,2\} != (1,2) ¦ \{1,3\} ¦ [1,2]
\{red, blue\} == \{blue, red\}
\{red, blue\} != \{red\}
2, -2 == \pm 2 ¦ -2 and 2 ¦ x=2, x=-2
2, -2 != 2 ¦ 2, 3
\emptyset == ∅ ¦ \{\}
\emptyset != 0
1:\sqrt{3}:2 == 1:√3:2 ¦ 2:2\sqrt{3}:4
1:\sqrt{3}:2 != 1:2:3
equations and mathematics
5 == x = 5 ¦ f(x)=5 ¦ 5=x ¦ area of the square = 5 ¦ \theta = 5 ¦ 2+3=5 ¦ P(X=3) = 5
5 != x=6 ¦ 2+4=5 ¦ 2x=5 ¦ 8=5
x=5 == 5 ¦ x = 5
x=5 != y=5 ¦ x=6
y=2x+1 == y=1+2x ¦ 2x-y+1=0 ¦ 2x+1
y=2x+1 != x=2y+1 ¦ y=2x+2
x>5 == 5<x ¦ (5,\infty)
x>5 != x \ge 5 ¦ x<5
2\pi == 2π ¦ 2pi ¦ \pi\cdot 2 ¦ 2\pi\text{ cm}
2\pi != 6.28 ¦ \pi
\frac{\sqrt{3}}{2} == √3/2 ¦ \frac{√3}{2} ¦ sqrt(3)/2
\frac{\sqrt{3}}{2} != 0.8660254037844386 ¦ \frac{\sqrt{2}}{2}
x² == x^2 ¦ x^{2} ¦ x \cdot x
x² != x_2 ¦ 2x ¦ x
2ab == 2ba ¦ ab*2
2ab != 2 ¦ 2a
5\sqrt{2} cm == 5\sqrt{2} ¦ 0.05\sqrt{2}\text{ m}
5\sqrt{2} cm != 5\sqrt{2} m
6 == (2)(3) ¦ 3! ¦ \log_2 64
6 != 3-9
2^{10} == 1024 ¦ 2^10
"""
_LINES = [re.split(" ([=!]=) ", line) for line in TABLE.splitlines() if re.search(" [=!]= ", line)]
PAIRS = [(gold, text, sign == "==") for gold, sign, rest in _LINES for text in rest.split(" ¦ ")]
GOLDS = sorted({gold for gold, _, _ in PAIRS})
SIMPLE = sorted({gold for gold, _, _ in PAIRS[: PAIRS.index(("[0,1)", "[0, 1)", True))]})


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case: dict) -> None:
    assert equivalent(case["gold"], case["predicted"]) is bool(case["equal"])
    check_gold(case["gold"])


@pytest.mark.parametrize(("gold", "predicted", "equal"), PAIRS)
def test_kinds(gold: str, predicted: str, equal: bool) -> None:
    assert equivalent(gold, predicted) is equal
    assert equivalent(predicted, gold) is equal


@pytest.mark.parametrize("gold", GOLDS)
def test_golds_are_usable(gold: str) -> None:
    check_gold(gold)
    assert equivalent(gold, gold)


# what traps many graders: math-verify 0.9.0 calls these equal ...
WRONGLY_EQUAL = {
    "blue": "lbue",
    "listen": "silent",
    "AC": "CA",
    "cat, dog": "dog, cat",
    "2019-05-03": "2019-03-05",
    "12:30": "24:60",
    "7": "8=7",
    "12 cm": "12 m",
    "50%": "0.5",
    "50": "0.5",
    r"\{1,2\}": "(1,2)",
    "0.0000001": "0.0000002",
    r"\pi\cdot 10^{-20}": r"2\pi\cdot 10^{-20}",
    r"\sqrt{2}": r"\sqrt{2}+10^{-30}",
}
# ... and these different
WRONGLY_DIFFERENT = {
    "30": "30°",
    "5": "5.",
    "-5": "–5",
    r"\sqrt{2}": "√2",
    "x^2": "x²",
    "1234": "1 234",
    "100": "1e2",
    "The sky is blue.": "the sky is blue",
    "H": "(H)",
}


def test_traps_of_math_verify() -> None:
    assert not [pair for pair in WRONGLY_EQUAL.items() if equivalent(*pair)]
    assert not [pair for pair in WRONGLY_DIFFERENT.items() if not equivalent(*pair)]


UNUSABLE = {
    "": "empty",
    " \n ": "empty",
    "?!": "punctuation",
    "$$": "punctuation",
    "1" * 600: "longer",
    "5 or 6": "two candidate",
    "either A or B": "two candidate",
    r"\boxed{5}, \boxed{6}": "two candidate",
    r"\frac{1}{": "brace",
    "5}": "brace",
    "1/0": "zero",
    "3 + * 4": "cannot read",
    None: "not a text",
}


@pytest.mark.parametrize("gold", UNUSABLE)
def test_unusable_golds(gold: str) -> None:
    with pytest.raises(ValueError, match=UNUSABLE[gold]):
        check_gold(gold)
    assert not equivalent(gold, "5")


HOSTILE = [
    None,
    "",
    "  ",
    "\x00",
    "\ud800",
    "(" * 400,
    "{" * 400,
    r"\frac" * 90,
    "1/0",
    r"\frac{0}{0}",
    "5" * 10**6,
]
HOSTILE += [
    "1e999999999",
    "(" * 200 + "x+1" + ")" * 200,
    "x^{" * 99 + "2" + "}" * 99,
    r"\sqrt{" * 60 + "5" + "}" * 60,
]
HOSTILE += ["9!!!!!!!!!", "(1+x)^{10000}", r"\binom{10^9}{50000}"]


@pytest.mark.parametrize("predicted", HOSTILE, ids=lambda text: repr(text)[:20])
def test_hostile_predictions_are_only_wrong(predicted: str | None) -> None:
    begun = time.monotonic()
    assert equivalent("5", predicted) is False
    assert equivalent(r"5\pi", predicted) is False
    assert time.monotonic() - begun < 15


def test_text_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    codes = [
        '__import__("os").system("touch pwned")',
        "open('pwned','w')",
        r"\input{|touch pwned}",
        "exec(x)+1",
    ]
    assert not any(equivalent("5", code) or equivalent("2x+1", code) for code in codes)
    assert list(tmp_path.iterdir()) == []


@given(st.text(max_size=80), st.sampled_from(GOLDS))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(predicted: str, gold: str) -> None:
    assert equivalent(gold, predicted) in (True, False)


PIECES = [
    *"0123 ,.:;()[]{}$%°^_=+-*/|<!\\ABxy",
    r"\frac",
    r"\sqrt",
    r"\text",
    r"\{",
    r"\}",
    r"\pm",
    " or ",
    " is ",
    " cm",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@settings(max_examples=300, deadline=None)
def test_no_near_answer_raises(text: str) -> None:
    assert equivalent("red", text) in (True, False)
    try:
        check_gold(text)
    except ValueError:
        return
    assert equivalent(text, text)


@given(st.sampled_from(SIMPLE), st.sampled_from(SIMPLE) | st.text(max_size=20))
@settings(max_examples=200, deadline=None)
def test_simple_kinds_are_symmetric(one: str, other: str) -> None:
    assert equivalent(one, other) is equivalent(other, one)


@given(st.fractions(max_denominator=10**6), st.integers(1, 1000))
def test_fractions_are_exact(value: object, factor: int) -> None:
    numerator, _, denominator = str(value).partition("/")
    n, d = int(numerator), int(denominator or 1)
    assert equivalent(f"{n}/{d}", rf"\frac{{{n * factor}}}{{{d * factor}}}")
    assert not equivalent(f"{n}/{d}", f"{n * factor + 1}/{d * factor}")


@given(st.integers(0, 10**12))
def test_a_number_in_its_spellings(number: int) -> None:
    gold = str(number)
    for predicted in (
        f"{number:,}",
        " ".join(gold),
        f"**{number}**",
        f"${number}$",
        f"The answer is {number}.",
    ):
        assert equivalent(gold, predicted)
    assert not equivalent(gold, str(number + 1))


# ---------------------------------------------------------------------------------------- the worker process
def test_a_passed_deadline_is_not_equal_and_the_next_answer_comes() -> None:
    assert equivalent("2x", "x+x")
    begun = time.monotonic()
    assert not equivalent("2", TOWER)
    assert 1.5 < time.monotonic() - begun < 8
    begun = time.monotonic()
    assert not equivalent(r"\{1,2,3\}", rf"\{{{TOWER}, {TOWER}, {TOWER}\}}", deadline=0.5)
    assert time.monotonic() - begun < 6
    assert equivalent("2x", "x+x")


def test_from_threads() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: equivalent(f"{n}x+{n}", f"{n}(x+1)"), range(1, 25)))
    assert all(answers)


def test_a_deadline_in_a_thread() -> None:
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.append(equivalent("2", TOWER, deadline=0.5)))
    thread.start()
    thread.join(30)
    assert results == [False]


def test_from_asyncio() -> None:
    async def ask() -> list[bool]:
        inside = equivalent(r"2\pi", "pi*2")
        return [
            inside,
            *await asyncio.gather(*(asyncio.to_thread(equivalent, "x^2", f"x^{n}") for n in range(2, 5))),
        ]

    assert asyncio.run(ask()) == [True, True, False, False]


def _run(code: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, text=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:  # no /proc here
        return True
    except OSError:
        return False


START = "from sailrl_lite.answers import equivalent; from sailrl_lite.answers.mathematics import worker\n"
START += "assert equivalent('2x', 'x+x'); print(worker._process.pid, flush=True)\n"


ASK_IN_A_THREAD = f"import threading; threading.Thread(target=equivalent, args=('2', '{TOWER}')).start()\n"
ENDS = ["", "raise SystemExit(3)", "import os; os._exit(0)", f"equivalent('2', '{TOWER}')"]
ENDS += ["import time; time.sleep(99)", ASK_IN_A_THREAD + "import time; time.sleep(99)"]


@pytest.mark.skipif(os.name != "posix", reason="looks at process ids")
@pytest.mark.parametrize(
    "end", ENDS, ids=["end", "error", "exit", "deadline", "killed", "killed while it works"]
)
def test_no_process_stays_behind(end: str) -> None:
    parent = _run(START + end)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    if "sleep" in end:
        time.sleep(0.3)
        parent.send_signal(signal.SIGKILL)
    parent.wait(60)
    parent.stdout.close()
    give_up = time.monotonic() + 15
    while _alive(child) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not _alive(child)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_worker() -> None:
    assert equivalent("2x", "x+x")
    assert worker._process is not None
    pid = worker._process.pid
    child = _run(
        START + "import os, sys\nfirst = worker._process.pid\n"
        "if (child := os.fork()) == 0:\n"
        "    right = equivalent('3x', 'x+2x') and worker._process.pid != first\n"
        "    worker.close()\n"
        "    os._exit(not right)\n"
        "right = all(equivalent(f'{n}x', f'x+{n - 1}x') for n in range(3, 9))\n"
        "sys.exit(os.waitpid(child, 0)[1] or not right or worker._process.pid != first)"
    )
    assert child.wait(120) == 0
    assert child.stdout is not None
    child.stdout.close()
    assert _alive(pid)


def test_a_missing_math_verify_is_loud(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from sailrl_lite.answers import equivalent\n"
        "assert equivalent('1/2', '0.5')\n"
        "try:\n    equivalent('2x', 'x+x')\nexcept RuntimeError as error:\n    print('gone' in str(error))"
    )
    (tmp_path / "math_verify.py").write_text("raise ImportError('gone')")
    child = _run(code, str(tmp_path))
    assert child.communicate(timeout=60)[0] == "True\n"


def test_the_import_is_light() -> None:
    code = (
        "import sys, sailrl_lite.answers as a\n"
        "a.equivalent('12 cm', '0.12 m'); a.equivalent('red', 'blue'); a.equivalent('12:30', '(1, 2]')\n"
        "print({'sympy', 'torch', 'numpy'} & set(sys.modules) or a.mathematics.worker._process)"
    )
    assert _run(code).communicate(timeout=60)[0] == "None\n"


# ---------------------------------------------------------------------------------------------------- speed
def _best(run: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(3):
        begun = clock()
        run()
        times.append(clock() - begun)
    return min(times)


def test_simple_comparisons_are_fast() -> None:
    numbers = range(1000, 1500)
    pairs = [(str(n), f"{n + n % 2}") for n in numbers] + [(f"{n}.5", f"{n}.50") for n in numbers]
    pairs += [(f"{n}/7", rf"\frac{{{n}}}{{7}}") for n in numbers] + [(f"{n} cm", f"{n} cm") for n in numbers]
    pairs += [(f"word{n}", f"Word{n}.") for n in numbers] + [(f"{n}%", rf"{n}\%") for n in numbers]
    pairs += [(chr(65 + n % 9), f"({chr(65 + n % 7)})") for n in numbers] + [
        (f"({n},2)", f"({n}, 2)") for n in numbers
    ]
    seconds = _best(lambda: [equivalent(*pair) for pair in pairs], time.process_time)
    assert len(pairs) / seconds > 20_000


def test_mathematics_is_as_fast_as_math_verify() -> None:
    from math_verify import parse, verify

    logging.disable(logging.WARNING)
    rounds = []
    for start in (2, 12, 22, 32):  # distinct pairs, half of them different, and one round to warm up
        pairs = []
        for n in range(start, start + 6):
            pairs += [(rf"{n}\sqrt{{2}}", rf"\sqrt{{2}}\cdot {n}"), (f"{n}x+y", f"y+{n}x")]
            pairs += [(rf"\frac{{{n}\pi}}{{7}}", rf"\frac{{{n}}}{{7}}\pi"), (rf"x^2+{2 * n}x", rf"x(x+{n})")]
            pairs += [
                (rf"\sqrt{{{n}}}+1", rf"\sqrt{{{n}}}+2"),
                (rf"\frac{{x}}{{{n}}}", rf"\frac{{{n}}}{{x}}"),
            ]
        begun = time.perf_counter()
        bare = [verify(parse(f"${gold}$"), parse(f"${predicted}$")) for gold, predicted in pairs]
        between = time.perf_counter()
        assert [equivalent(*pair) for pair in pairs] == bare
        rounds.append((between - begun) / (time.perf_counter() - between))
    logging.disable(logging.NOTSET)
    assert max(rounds[1:]) > 0.8
