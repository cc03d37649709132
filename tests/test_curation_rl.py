"""The steps of RL curation: open-ended questions, pass rates, overlaps with evaluation sets, the mix."""

import pytest

from sailrl_lite.curation.choices import to_open
from sailrl_lite.curation.options import list_options
from sailrl_lite.curation.pipeline import Drop
from sailrl_lite.curation.schema import Row


def choice(question, options, gold):
    return Row("q", b"", list_options(question, options), gold, options=tuple(options))


NUMBERS = ("3 cm", "4 cm", "5 cm", "6 cm")
COLOURS = ("red", "blue", "green")


@pytest.mark.parametrize(
    "question, options, gold, open_question, open_gold",
    [
        ("How long is AB?", NUMBERS, "B", "How long is AB?", "4 cm"),
        ("How long is AB?", NUMBERS, "(b)", "How long is AB?", "4 cm"),
        ("How long is AB?", NUMBERS, "D. 6 cm", "How long is AB?", "6 cm"),
        ("How long is AB?", NUMBERS, "5 cm", "How long is AB?", "5 cm"),
        ("How many degrees has ∠A?", ("60°", "70°"), "70", "How many degrees has ∠A?", "70°"),
        ("What colour is the ball?", COLOURS, "Blue.", "What colour is the ball?", "blue"),
        ("Which colour has the ball?", COLOURS, "C", "Which colour has the ball?", "green"),
        ("Choose the correct answer. How long is AB?", NUMBERS, "A", "How long is AB?", "3 cm"),
        ("How long is AB? Please select the correct option, e.g. A, B, C or D.", NUMBERS, "A",
         "How long is AB?", "3 cm"),
        ("How long is AB?\nAnswer with the option's letter from the given choices directly.", NUMBERS, "A",
         "How long is AB?", "3 cm"),
        ("What is x in the following figure?", ("7", "8"), "B", "What is x in the following figure?", "8"),
        ("How high is the third bar in the chart below?", ("7", "8"), "B",
         "How high is the third bar in the chart below?", "8"),
        ("Which of the two lines is longer?", ("line m", "line n"), "A",
         "Which of the two lines is longer?", "line m"),
        ("What is the solution of the equation for the right triangle?", ("x = 2", "x = 3"), "A",
         "What is the solution of the equation for the right triangle?", "x = 2"),
        ("Which sign belongs into the gap: 3 _ 5?", ("<", ">", "="), "A",
         "Which sign belongs into the gap: 3 _ 5?", "<"),
        ("How long is AB?", ("3 cm", "4 cm", "No correct answer"), "A", "How long is AB?", "3 cm"),
        ("How long is AB?", ("3 cm", "4 cm", "none of the above"), "B", "How long is AB?", "4 cm"),
        ("How long is AB?", ("3 cm", "cannot be determined"), "A", "How long is AB?", "3 cm"),
        ("Is the triangle isosceles?", ("yes", "no"), "A", "Is the triangle isosceles?", "yes"),
        ("The triangle is isosceles.", ("True", "False"), "B",
         "The triangle is isosceles. True or false?", "False"),
        ("Is the following statement true? All sides are equal.", ("yes", "no"), "B",
         "Is the following statement true? All sides are equal.", "no"),
        ("What is $x$?", (r"$\frac{1}{2}$", r"$\frac{1}{3}$"), "A", "What is $x$?", r"$\frac{1}{2}$"),
        ("如图，AB∥CD，则∠A的度数为", ("30°", "45°"), "B", "如图，AB∥CD，则∠A的度数为", "45°"),
        ("圆的面积是多少？请直接回答选项字母。", ("π", "2π"), "A", "圆的面积是多少？", "π"),
    ],
)  # fmt: skip
def test_a_choice_becomes_open(question, options, gold, open_question, open_gold):
    row = to_open(choice(question, options, gold))
    assert isinstance(row, Row), row
    assert (row.question, row.gold, row.options) == (open_question, open_gold, ())
    assert {change.step for change in row.provenance} == {"open"}


@pytest.mark.parametrize(
    "question, options, gold, reason",
    [
        ("Which of the following is a prime?", ("4", "7"), "B", "asks for an option"),
        ("Which one of these states is farthest north?", ("Ohio", "Utah"), "A", "asks for an option"),
        ("Of the following, what is largest?", ("4", "7"), "B", "asks for an option"),
        ("Select the figure below that completes the row.", ("a cone", "a cube"), "B", "asks for an option"),
        ("Choose the colour that matches.", COLOURS, "B", "asks for an option"),
        ("Which option is right?", ("4", "7"), "B", "asks for an option"),
        ("What belongs into the gap? Pick from the listed words.", COLOURS, "B", "asks for an option"),
        ("下列图形中，是轴对称图形的是", ("圆柱", "圆锥"), "A", "asks for an option"),
        ("The statement that is true is", ("AB = CD", "AB > CD"), "A", "needs its options"),
        ("Which statement is supported by the chart?", ("It rises.", "It falls."), "A", "needs its options"),
        ("Which is not a prime?", ("4", "7"), "A", "needs its options"),
        ("What best describes the weather?", ("sunny", "rainy"), "A", "needs its options"),
        ("What could be the length of the third side?", NUMBERS, "A", "needs its options"),
        ("Which animal is also adapted to swim?", ("penguin", "lion"), "A", "needs its options"),
        ("All are mammals except", ("cat", "frog"), "B", "needs its options"),
        ("The value is closest to", ("4", "7"), "B", "needs its options"),
        ("则结论正确的是", ("AB=CD", "AB>CD"), "A", "needs its options"),
        ("How long is AB?", ("3 cm", "4 cm", "all of the above"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "both A and B"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "A and B"), "A", "options refer to each other"),
        ("Which shapes are red?", ("circle", "star", "both of these"), "A", "options refer to each other"),
        ("How long is AB?", ("3 cm", "4 cm", "none of these"), "C", "options refer to each other"),
        ("How long is AB?", ("3 cm", "4 cm", "No correct answer"), "C", "options refer to each other"),
        ("How long is AB?", ("3 cm", "Cannot be determined"), "B", "options refer to each other"),
        ("角A是多少度？", ("30°", "45°", "以上都不对"), "C", "options refer to each other"),
        ("What comes next?", ("Figure A", "Figure B"), "A", "picture options"),
        ("What comes next?", ("", "", ""), "A", "picture options"),
        ("What comes next?", ("A", "B", "C", "D"), "C", "picture options"),
        ("What comes next?", ("<image 2>", "<image 3>"), "A", "picture options"),
        ("俯视图是什么？", ("图①", "图②"), "A", "picture options"),
        ("How long is AB?", NUMBERS, "E", "gold not among the options"),
        ("How long is AB?", NUMBERS, "9 cm", "gold not among the options"),
        ("Which letter is shown?", ("B", "A", "K"), "A", "gold not among the options"),
        ("Which shapes are red?", ("circle", "star", "cross"), "A, C", "several right options"),
        ("Which shapes are red?", ("circle", "star", "cross"), "AC", "several right options"),
        ("How long is AB?", ("3 cm", "3 cm", "4 cm"), "C", "duplicate options"),
        ("How long is AB?", ("3 cm", "3 cm", "4 cm"), "3 cm", "duplicate options"),
        ("What is the ratio?", ("1/2", r"\frac{1}{2}", "1/3"), "A", "duplicate options"),
        ("How long is AB?", ("3 cm",), "A", "too few options"),
        ("What does he do?", ("he runs very fast along the long road", "he sits"), "A", "gold too long"),
        ("这个人在做什么？", ("他沿着一条很长很长的路跑得非常快", "坐着"), "A", "gold too long"),
        ("How long is AB?", ("5 or 6", "7"), "A", "unusable gold"),
        ("Choose the correct answer.", ("4", "7"), "A", "nothing is asked"),
    ],
)  # fmt: skip
def test_what_cannot_be_open_is_dropped_with_its_reason(question, options, gold, reason):
    dropped = to_open(choice(question, options, gold))
    assert isinstance(dropped, Drop) and dropped.reason == reason, dropped


def test_options_in_the_text_alone_are_found():
    row = Row("q", b"", "How long is AB?\nChoices:\nA:3 cm\nB:4 cm", "B")
    assert (to_open(row).question, to_open(row).gold) == ("How long is AB?", "4 cm")
    no_list = Row("q", b"", "How long is AB?\n(A) 3 cm\n(B) 4 cm", "9 cm")
    assert to_open(no_list) is no_list
    other = Row("q", b"", "How long is AB?\n(A) 3 cm\n(B) 4 cm", "B", options=("7 cm", "8 cm"))
    assert to_open(other).reason == "options stay in the question"
    lettered = Row("q", b"", "What is the capital of Wyoming?", "A", options=("A. Cheyenne", "B. Phoenix"))
    assert to_open(lettered).gold == "Cheyenne"
    hidden = Row("q", b"", "Which option comes next?", "B")
    assert to_open(hidden).reason == "picture options"


@pytest.mark.parametrize(
    "question, gold", [("How many?", "5"), ("Which letter is shown?", "B"), ("Is it red?", "no")]
)
def test_open_questions_stay_as_they_are(question, gold):
    row = Row("q", b"", question, gold)
    assert to_open(row) is row


def test_an_annotation_for_letters_is_not_kept():
    row = choice("How long is AB?", NUMBERS, "B").with_change("x", judge="Think.", think="so B", answer="B")
    assert to_open(row).response is None
