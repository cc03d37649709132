"""Readers: a file of one's own, good and bad; the micro-world; the public sources in their own columns."""

import base64
import io
import itertools
import json
import tracemalloc

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from sailrl_lite.curation.images import clean_image
from sailrl_lite.curation.options import LETTERS, letter_of, list_options, multiple_choice, split_options
from sailrl_lite.curation.pipeline import Drop, Dropped, Map, run
from sailrl_lite.curation.readers import problem_of, read_file, read_micro, read_source
from sailrl_lite.curation.schema import KINDS, Row, read_rows, write_rows
from sailrl_lite.curation.sources import _FUNCTIONS, registry
from sailrl_lite.errors import SailRLError


def picture(color="red", kind="PNG", size=(8, 8)):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, kind)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path):
    """What a user has: a folder of pictures, and a table beside it."""
    (tmp_path / "images").mkdir()
    for k in range(4):
        (tmp_path / "images" / f"{k}.png").write_bytes(picture())
    return tmp_path


def written(folder, text, name="mine.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def sorted_out(rows):
    rows = list(rows)
    good = [row for row in rows if isinstance(row, Row)]
    return good, {row.id: row.reason for row in rows if isinstance(row, Dropped)}


# ---- a file of one's own: what is fine


def test_a_folder_and_a_csv(folder):
    path = written(
        folder,
        "\ufeffImage;Question;Answer;needs_thinking;kind;source;id\r\n"
        'images/0.png;"How many? ""All"" of them;\r\nplease";5;yes;Reasoning;book;p-1\r\n'
        "\r\n"
        "images/1.png;What color?;red;;;;\r\n",
    )
    good, bad = sorted_out(read_file(path))
    assert not bad
    assert good == [
        Row(
            "p-1",
            picture(),
            'How many? "All" of them;\nplease',
            "5",
            "book",
            "reasoning",
            needs_thinking=True,
        ),
        Row("mine-5", picture(), "What color?", "red", "mine"),
    ]


@pytest.mark.parametrize("value", ["images/0.png", "base64", "data URL"])
def test_json_lines_hold_paths_or_pictures(folder, value):
    text = base64.b64encode(picture()).decode()
    value = {"base64": text, "data URL": f"data:image/png;base64,{text}"}.get(value, value)
    record = {"image": value, "question": "How many?", "answer": 5, "needs_thinking": False, "id": 7}
    (row,) = read_file(written(folder, json.dumps(record) + "\n\n", "mine.jsonl"))
    assert row == Row("7", picture(), "How many?", "5", "mine", needs_thinking=False)


@pytest.mark.parametrize("image", [picture(), {"bytes": picture(), "path": None}, "images/0.png"], ids=type)
def test_parquet_holds_pictures_or_paths(folder, image):
    rows = [
        {"image": image, "question": "How many?", "answer": 5.0, "needs_thinking": True},
        {"image": image, "question": "How many?", "answer": None, "needs_thinking": None},
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "mine.parquet")
    good, bad = sorted_out(read_file(folder / "mine.parquet"))
    assert good == [Row("mine-1", picture(), "How many?", "5", "mine", needs_thinking=True)]
    assert bad == {"mine.parquet:row 2": "empty gold"}


def test_what_was_curated_can_be_curated_again(folder):
    rows = [
        row.with_change("label", "", needs_thinking=True, judge="Think.", think="2+3=5", answer="5")
        for row in read_micro(4)
    ]
    write_rows(folder / "curated.parquet", [*rows, Row("blank", picture(), " ", "5")])
    good, bad = sorted_out(read_file(folder / "curated.parquet"))
    assert good == rows and bad == {"blank": "empty question"}


def test_pictures_in_another_folder(folder):
    (folder / "tables").mkdir()
    path = written(folder / "tables", "image,question,answer\n0.png,How many?,5\n")
    assert [row.gold for row in read_file(path, images=folder / "images")] == ["5"]
    assert sorted_out(read_file(path))[1] == {"mine.csv:line 2": "missing picture"}


def test_multiple_choice_has_its_options_in_the_question_and_a_letter_as_gold(folder):
    path = written(
        folder,
        "image,question,answer,A,B,C\n"
        "images/0.png,How many?,4 cm,3 cm,4 cm,\n"
        "images/0.png,How many?,(b),3 cm,4 cm,5 cm\n"
        'images/0.png,"How many?\nA. 3 cm\nB. 4 cm",B,,,\n'
        "images/0.png,How many?,9 cm,3 cm,4 cm,5 cm\n"
        "images/0.png,How many?,4 cm,,,\n",
    )
    good, bad = sorted_out(read_file(path))
    listed = "How many?\n(A) 3 cm\n(B) 4 cm"
    assert [(row.question, row.gold, row.options) for row in good] == [
        (listed, "B", ("3 cm", "4 cm")),
        (listed + "\n(C) 5 cm", "B", ("3 cm", "4 cm", "5 cm")),
        (listed, "B", ("3 cm", "4 cm")),
        ("How many?", "4 cm", ()),
    ]
    assert bad == {"mine.csv:line 7": "answer is no option"}
    records = [
        {"image": "images/0.png", "question": "How many?", "answer": "4", "options": ["3", 4]},
        {"image": "images/0.png", "question": "How many?", "answer": "4", "options": '["3", "4"]'},
        {"image": "images/0.png", "question": "How many?", "answer": "4", "options": "3, 4"},
    ]
    path = written(folder, "\n".join(map(json.dumps, records)), "mine.jsonl")
    good, bad = sorted_out(read_file(path))
    assert [row.options for row in good] == [("3", "4")] * 2
    assert bad == {"mine.jsonl:line 3": "bad options"}


def test_ids_are_made_unique(folder):
    lines = "".join(f"images/0.png,How many?,5,{name}\n" for name in ("x", "y", "x", "x"))
    good, _ = sorted_out(read_file(written(folder, "image,question,answer,id\n" + lines)))
    assert [row.id for row in good] == ["x", "y", "x (line 4)", "x (line 5)"]
    assert [len(row.provenance) for row in good] == [0, 0, 1, 1]
    lines = "".join(f"images/0.png,How many?,5,{name}\n" for name in ("x", "x (line 4)", "x"))
    good, _ = sorted_out(read_file(written(folder, "image,question,answer,id\n" + lines)))
    assert [row.id for row in good] == ["x", "x (line 4)", "x (line 4) (line 4)"]


def test_what_was_curated_twice_over_keeps_every_row(folder):
    rows = [Row("a", picture(), "Q?", "5"), Row("a", picture(), "Q?", "5"), Row("", picture(), " ", "5")]
    write_rows(folder / "mine.parquet", rows)
    good, bad = sorted_out(read_file(folder / "mine.parquet"))
    assert [row.id for row in good] == ["a", "a (row 2)"] and bad == {"mine.parquet:row 3": "empty question"}


def test_curated_rows_that_another_program_changed(folder):
    write_rows(folder / "mine.parquet", [Row("a", picture(), "Q?", "5")])
    table = pq.read_table(folder / "mine.parquet")
    for name, value in {"question": pa.nulls(1, pa.string()), "split": pa.nulls(1, pa.string())}.items():
        table = table.set_column(table.schema.get_field_index(name), name, value)
    pq.write_table(table, folder / "mine.parquet")
    assert sorted_out(read_file(folder / "mine.parquet")) == ([], {"a": "empty question"})
    for name, value in {"id": pa.array([7]), "image": pa.array([picture()])}.items():
        other = table.set_column(table.schema.get_field_index(name), name, value)
        pq.write_table(other, folder / "mine.parquet")
        with pytest.raises(SailRLError, match="cannot be read as curated rows"):
            list(read_file(folder / "mine.parquet"))


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.0", True), ("T", True), ("y", True), ("0.0", False), ("F", False), ("n", False), ("None", None)],
)
def test_labels_as_spreadsheets_and_pandas_write_them(folder, text, value):
    path = written(folder, f"image,question,answer,needs_thinking\nimages/0.png,How many?,5,{text}\n")
    assert [row.needs_thinking for row in read_file(path)] == [value]


def test_parquet_cells_that_python_cannot_hold(folder):
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 2, 4)))
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"Q?\xff?")])
    days = pa.array([2**55, 0], pa.timestamp("ms"))  # in a column that nobody reads
    table = pa.table({"image": [picture()] * 2, "question": text, "answer": ["5", "5"], "when": days})
    pq.write_table(table, folder / "mine.parquet")
    good, bad = sorted_out(read_file(folder / "mine.parquet"))
    assert [row.question for row in good] == ["Q?"] and bad == {"mine.parquet:row 2": "not UTF-8"}


@pytest.mark.parametrize("record", [{"answer": True}, {"answer": ["5"]}, {"question": {"a": "How many?"}}])
def test_what_is_no_text_is_not_called_empty(folder, record):
    line = json.dumps({"image": "images/0.png", "question": "How many?", "answer": "5"} | record)
    assert sorted_out(read_file(written(folder, line, "mine.jsonl"))) == (
        [],
        {"mine.jsonl:line 1": "not text"},
    )


# ---- a file of one's own: what is not


def test_every_bad_row_has_its_reason_and_none_stops_the_run(folder):
    (folder.parent / "secret.png").write_bytes(b"secret")
    (folder / "images" / "out.png").symlink_to(folder.parent / "secret.png")
    (folder / "images" / "cut.jpg").write_bytes(picture(kind="JPEG", size=(200, 200))[:-60])
    (folder / "images" / "thin.png").write_bytes(picture(size=(1, 3000)))
    path = written(
        folder,
        b"image,question,answer,needs_thinking,kind\n"
        b"images/0.png,How many?,5,,\n"
        b"images/9.png,How many?,5,,\n"
        b"../secret.png,How many?,5,,\n"
        b"images/out.png,How many?,5,,\n"
        b"/etc/passwd,How many?,5,,\n"
        b"images/0.png,Caf\xe9?,5,,\n"
        b"images/0.png,How many?,,,\n"
        b"images/0.png,How many?,5 or 6,,\n"
        b"images/0.png,  ,5,,\n"
        b"images/0.png,How many?,5,perhaps,\n"
        b"images/0.png,How many?,5,,hard\n"
        b"images/0.png,How many, really?,5,,\n"
        b"images/0.png,How many?,5\n"
        b",How many?,5,,\n"
        b"images/0.png," + b"x" * 30_000 + b",5,,\n"
        b"images/0.png," + b"x" * 200_000 + b",5,,\n"
        b"images/cut.jpg,How many?,5,,\n"
        b"images/thin.png,How many?,5,,\n"
        b"images/1.png,How many?,6,,\n",
    )
    tally = run(
        read_file(path), [Map("images", clean_image)], folder / "out.parquet", folder / "w", bar=False
    )
    assert {row.id.removeprefix("mine.csv:"): row.reason for row in tally.dropped} == {
        "line 3": "missing picture",
        "line 4": "path leaves the folder",
        "line 5": "path leaves the folder",
        "line 6": "path leaves the folder",
        "line 7": "not UTF-8",
        "line 8": "empty gold",
        "line 9": "unusable gold",
        "line 10": "empty question",
        "line 11": "bad needs_thinking",
        "line 12": "bad kind",
        "line 13": "wrong number of columns",
        "line 14": "wrong number of columns",
        "line 15": "no picture",
        "line 16": "too long",
        "line 17": "too long",
        "mine-18": "cut short",
        "mine-19": "too thin",
    }
    assert [row.gold for row in read_rows(folder / "out.parquet")] == ["5", "6"]
    assert all(row.detail for row in tally.dropped if not row.reason.startswith(("empty", "no ")))


STRAY = {
    "never closed": ('images/0.png,"How many?,1', {2}),
    "closed two rows on": ('images/0.png,"How many?,1', {2}),
    "before the picture": ('"images/0.png,How many?,1', {2}),
    "inside a quoted cell": ('images/0.png,"How many "small" ones?",1', {2}),
    "after the cell": ('images/0.png,"How many?" ,1', {2}),
    "in the last cell": ('images/0.png,How many?,"1', {2}),
}


@pytest.mark.parametrize("name", STRAY)
def test_a_stray_quote_merges_no_rows(folder, name):
    line, bad_lines = STRAY[name]
    after = 'images/2.png,How many?",3' if name == "closed two rows on" else "images/2.png,How many?,3"
    text = f"image,question,answer\n{line}\nimages/1.png,How many?,2\n{after}\nimages/3.png,How many?,4\n"
    good, bad = sorted_out(read_file(written(folder, text)))
    assert [row.gold for row in good] == ["2", "3", "4"]
    assert bad == {f"mine.csv:line {n}": "stray quote" for n in bad_lines}


def test_many_stray_quotes_cost_little_time(folder):
    lines = [f'images/{k % 4}.jpg,"How many?,{k}' for k in range(3000)]
    _, bad = sorted_out(read_file(written(folder, "image,question,answer\n" + "\n".join(lines))))
    assert len(bad) == 3000 and set(bad.values()) == {"stray quote"}
    lines = [f'picture {k},"How many?,{k}' for k in range(2001)]  # nothing shows where the next record begins
    good, bad = sorted_out(read_file(written(folder, "image,question,answer\n" + "\n".join(lines))))
    assert not good and len(bad) >= 1000


def test_bad_json_lines(folder):
    good_line = b'{"image": "images/0.png", "question": "How many?", "answer": "5"}'
    lines = [
        good_line,
        b'{"image": "images/0.png", "question": "How many?", "answer": ',
        b'["images/0.png", "How many?", "5"]',
        b"[" * 100_000,
        good_line.replace(b"many", b"m\xe4ny"),
        good_line.replace(b"many", b"\\ud800"),
        good_line.replace(b'"How many?"', b"null"),
        good_line.replace(b'"5"', b"NaN"),
        good_line.replace(b'"5"', b'["5"]'),
        b'{"image": "images/0.png", "question": "How many?"}',
        b'{"question": "How many?", "answer": "5"}',
        b'{"image": "data:image/png;base64,!!", "question": "How many?", "answer": "5"}',
        good_line,
    ]
    good, bad = sorted_out(read_file(written(folder, b"\n".join(lines), "mine.jsonl")))
    assert [row.id for row in good] == ["mine-1", "mine-13"]
    assert list(bad.values()) == [
        *["not JSON"] * 3,
        *["not UTF-8"] * 2,
        "empty question",
        "empty gold",
        "not text",
        "empty gold",
        "no picture",
        "bad base64",
    ]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("mine.csv", "image,question,anwser\n", "has no column 'answer'; rename 'anwser'"),
        ("mine.csv", "picture,text\n", "has no column 'image'; it has picture, text"),
        ("mine.csv", "", "mine.csv is empty; its first line must name the columns"),
        ("mine.csv", "image,question,answer,answer\n", "two columns 'answer'"),
        ("mine.csv", 'image,"question,answer\n', "stray quote"),
        ("mine.csv", "image,question,answer\ra.png,Q,5\r", "line ends"),
        ("mine.csv", "image,question,answer\n".encode("utf-16"), "UTF-16; save it as UTF-8"),
        ("mine.csv", "imagé,question,answer\n".encode("cp1252"), "first line of .* cannot be read"),
        ("mine.jsonl", "", "is empty; each line must be a JSON object"),
        ("mine.jsonl", "[1]\n[2]\n", "hold no JSON object"),
        ("mine.jsonl", '{"image": "a", "question": "b"}\n', "has no column 'answer'"),
        ("mine.parquet", "no", r"cannot be read as Parquet \(.*\); name another file"),
        ("mine.xlsx", "no", r"give a file \*\.csv, \*\.jsonl or \*\.parquet"),
    ],
)
def test_a_file_that_is_no_table_is_one_line_of_error(folder, name, content, message):
    with pytest.raises(SailRLError, match=message) as error:
        read_file(written(folder, content, name))
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there(folder):
    with pytest.raises(SailRLError, match=r"there is no file .*gone\.csv; check the name"):
        read_file(folder / "gone.csv")


def test_an_endless_line_is_not_held_in_memory(folder, monkeypatch):
    monkeypatch.setattr("sailrl_lite.curation.tables.LONGEST_LINE", 2**16)
    with (folder / "mine.jsonl").open("wb") as file:
        for line in (b'{"image": "images/0.png", "question": "Q?", "answer": "5"}\n', b"x" * 2**24 + b"\n"):
            file.write(line)
            file.write(line if line[0] == 0x7B else b"")
    tracemalloc.start()
    good, bad = sorted_out(read_file(folder / "mine.jsonl"))
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()
    assert len(good) == 2 and bad == {"mine.jsonl:line 3": "too long"}


@settings(deadline=None)
@given(st.binary(max_size=400), st.sampled_from(["csv", "jsonl"]))
def test_noise_in_a_file_is_dropped_and_nothing_else(tmp_path_factory, noise, kind):
    folder = tmp_path_factory.mktemp("noise")
    (folder / "a.png").write_bytes(picture())
    row = {
        "csv": b"a.png,How many?,5\n",
        "jsonl": b'{"image":"a.png","question":"How many?","answer":"5"}\n',
    }[kind]
    head = b"image,question,answer\n" if kind == "csv" else b""
    path = written(folder, head + row + noise.replace(b"\n", b" ") + b"\n" + row, f"mine.{kind}")
    good, _ = sorted_out(read_file(path))
    assert good[0].gold == "5" and good[-1].gold == "5" and len(good) >= 2


# ---- the micro-world


def test_micro_rows_are_problems_and_give_them_back():
    rows = list(read_micro(30, ["angle", "read_number"], seed_offset=100))
    assert [row.id for row in rows[:3]] == ["angle-train-100", "read_number-train-100", "angle-train-101"]
    for row in rows:
        problem = problem_of(row)
        assert (problem.id, problem.gold, problem.question) == (row.id, row.gold, row.question)
        assert problem.needs_thinking == row.needs_thinking and problem.kind == row.kind
        assert Image.open(io.BytesIO(row.image)).tobytes() == problem.image.tobytes()
    (held_out,) = read_micro(1, ["bars"], split="test")
    assert held_out.split == "test" and problem_of(held_out).split == "test"


@pytest.mark.parametrize(
    ("id", "source"),
    [("angle-train-1", "mine"), ("mine-4", "micro-world"), ("angle-train-x", "micro-world"),
     ("none-train-1", "micro-world"), ("angle-dev-1", "micro-world"),
     ("angle-train-1 (line 4)", "micro-world")],
)  # fmt: skip
def test_other_rows_have_no_problem(id, source):
    assert problem_of(Row(id, b"", "Q?", "5", source)) is None


def test_an_unknown_family():
    with pytest.raises(SailRLError, match="unknown family 'angel'"):
        list(read_micro(1, ["angel"]))


# ---- options


@pytest.mark.parametrize(
    ("question", "stem", "options"),
    [
        ("What part? (A) 3/11 (B) 8/11", "What part?", ("3/11", "8/11")),
        ("How many are left? Options: A. 4, B. 8, C. 2", "How many are left?", ("4", "8", "2")),
        ("How long is BC? ()\nChoices:\nA:2\nB:2√3", "How long is BC? ()", ("2", "2√3")),
        ("Find its equation.A. x = 1 B. Not clear.", "Find its equation.", ("x = 1", "Not clear.")),
        ("Which?\nA. a cat\nB. a dog\nSay the letter.", "Which?\nSay the letter.", ("a cat", "a dog")),
        ("Which one?\n(A)\n(B)\n(C)", "Which one?", ("", "", "")),
        ("Who?\n(A) A. Smith\n(B) B. Jones", "Who?", ("A. Smith", "B. Jones")),
        ("Which?\n(A) not B. complex\n(B) C", "Which?", ("not B. complex", "C")),
        ("哪个？\nA、三\nB、四", "哪个？", ("三", "四")),
        ("Where?\nA. (1,2)\nB. (3,4)", "Where?", ("(1,2)", "(3,4)")),
    ],
)  # fmt: skip
def test_options_in_a_question(question, stem, options):
    assert split_options(question) == (stem, options)
    assert split_options(list_options(stem, options)) == (stem, options)


@pytest.mark.parametrize(
    "question",
    [
        "How many?",
        "The points A: (1, 2) and B: (3, 4) are joined.",
        "Are the circles (A) and (B) equal?",
        "In triangle ABC, A. is right.",
        "Which? A. only one",
    ],
)
def test_questions_without_options(question):
    assert split_options(question) == (question, ())


def test_the_letter_that_an_answer_names():
    options = ["red", "blue", "red and blue"]
    for answer in ("B", "b", "(B)", "B.", "B) blue", "blue", " Blue. "):
        assert letter_of(answer, options) == "B", answer
    for answer in ("D", "green", "B) red", "", "a shade of red"):
        assert letter_of(answer, options) is None, answer
    assert letter_of("5", ["5", "5"]) is None
    assert multiple_choice("Which?", "A", [str(k) for k in range(11)]) is None
    assert multiple_choice("Which?", "J", [str(k) for k in range(10)])[1] == LETTERS[9] == "J"


# ---- the public sources, in their published columns (rows of our own)


def talk(question, answer, *more):
    turns = itertools.chain.from_iterable([(question, answer), *more])
    return [
        {"from": who, "value": value}
        for who, value in zip(itertools.cycle(["human", "gpt"]), turns, strict=False)
    ]


ABC = "\n(A) 3\n(B) 4\n(C) 5"
RECORDS = {
    "visualwebinstruct": [
        (
            {"conversations": talk("<image>\nFind x.", "We add.\n\n**Answer:** 7"), "image": ["p.png"]},
            ("Find x.", "7"),
        ),
        (
            {"conversations": talk("Find x.", r"So \(x=\boxed{\frac12}\)."), "image": ["p.png"]},
            ("Find x.", r"\frac12"),
        ),
        (
            {
                "conversations": talk("Find x.", "The answer is not 5.\nThe answer is 12 cm."),
                "image": ["p.png"],
            },
            ("Find x.", "12 cm"),
        ),
        (
            {"conversations": talk("Find x.", "First we add.\nThen we stop."), "image": ["p.png"]},
            "no final answer",
        ),
        ({"conversations": talk("Find x.", "Answer: 7"), "image": None}, "no picture"),
        ({"conversations": talk("Find x.", "Answer: 7"), "image": ["p.png", "p.png"]}, "several pictures"),
    ],
    "mathv360k": [
        (
            {
                "id": "1",
                "image": "p.png",
                "conversations": talk(
                    "Hint: Please answer the question and provide the correct option letter, e.g., A, B, C, "
                    "D, at the end.\nQuestion: How many?\nChoices:\n(A) 3\n(B) 4\n(C) 5",
                    "The answer is B",
                ),
            },
            ("How many?" + ABC, "B", ("3", "4", "5")),
        ),
        ({"image": "p.png", "conversations": talk("<image>\nHow many?", "9")}, ("How many?", "9")),
        ({"image": "gone.png", "conversations": talk("How many?", "9")}, "missing picture"),
        ({"image": "../p.png", "conversations": talk("How many?", "9")}, "path leaves the folder"),
    ],
    "llava-cot": [
        (
            {
                "image": "p.png",
                "conversations": talk(
                    "How many? Options: A. 3, B. 4, C. 5",
                    "<SUMMARY> I count. </SUMMARY>\n\n<CAPTION> Four. </CAPTION>\n\n"
                    "<REASONING> 4 </REASONING>\n\n<CONCLUSION> B </CONCLUSION>",
                ),
            },
            ("How many?" + ABC, "B", ("3", "4", "5")),
        ),
        ({"image": "p.png", "conversations": talk("How many?", "Four.")}, "no final answer"),
        ({"image": "p.png", "conversations": [{"from": "human", "value": "x"}]}, "no question and answer"),
    ],
    "mm-math": [
        (
            {
                "question": "As shown, find $x$.",
                "file_name": "p.png",
                "solution": r"\boxed{1} is a step, so $x=\boxed{\sqrt{2}}$.",
                "year": "eight",
                "difficult": "easy",
                "knowledge": {"level_1": "a"},
            },
            ("As shown, find $x$.", r"\sqrt{2}"),
        ),
        ({"question": "Find x.", "file_name": "p.png", "solution": "It is 2."}, "no final answer"),
    ],
    "mathverse": [
        (
            {
                "sample_index": "1",
                "problem_index": "1",
                "problem_version": "Text Lite",
                "question_type": "multi-choice",
                "question": "How long is BC? ()\nChoices:\nA:3\nB:4\nC:5",
                "answer": "B",
                "image": "PICTURE",
            },
            ("How long is BC? ()" + ABC, "B", ("3", "4", "5")),
        ),
        (
            {"question": "Find x.", "question_type": "free-form", "answer": "40 degrees", "image": "PICTURE"},
            ("Find x.", "40 degrees"),
        ),
        (
            {"question": "", "problem_version": "Vision Only", "answer": "B", "image": "PICTURE"},
            "empty question",
        ),
        ({"question": "Find x.", "answer": "5", "image": None}, "no picture"),
    ],
    "wemath": [
        (
            {
                "ID": "1",
                "split": "testmini",
                "knowledge concept": "squares",
                "question": "How many?",
                "option": "A. 3; B. 4; C. 5",
                "answer": "B",
                "image_path": "PICTURE",
                "key": "1",
                "question number": 1,
            },
            ("How many?" + ABC, "B", ("3", "4", "5")),
        ),
        (
            {"question": "How many?", "option": "A. 3;B. 4", "answer": "E", "image_path": "PICTURE"},
            "answer is no option",
        ),
    ],
    "puzzlevqa": [
        (
            {
                "image": "PICTURE",
                "question": "What is the missing number?",
                "options": ["3", "4", "5"],
                "answer": "4",
                "caption": "c",
                "explanation": "e",
                "deduction": "d",
            },
            ("What is the missing number?" + ABC, "B", ("3", "4", "5")),
        ),
        (
            {"image": "PICTURE", "question": "What?", "options": ["3", "5"], "answer": "4"},
            "answer is no option",
        ),
    ],
    "scienceqa": [
        (
            {
                "image": "PICTURE",
                "question": "Which?",
                "choices": ["no", "yes"],
                "answer": 1,
                "hint": "A map.",
            },
            ("A map.\nWhich?\n(A) no\n(B) yes", "B", ("no", "yes")),
        ),
        (
            {"image": None, "question": "Which?", "choices": ["no", "yes"], "answer": 1, "hint": ""},
            "no picture",
        ),
        (
            {"image": "PICTURE", "question": "Which?", "choices": ["no", "yes"], "answer": 2, "hint": ""},
            "answer is no option",
        ),
    ],
    "clevr-counting": [
        (
            {"image": "PICTURE", "problem": "How many items are there?", "solution": "<answer> 5 </answer>"},
            ("How many items are there?", "5"),
        )
    ],
    "ocr-textvqa": [
        (
            {
                "question_id": 1,
                "question": "what does it say?",
                "answers": ["Stop", "stop"] * 4 + ["go"] * 2,
                "image": "PICTURE",
            },
            ("what does it say?", "stop"),
        ),
        (
            {"question": "what?", "answers": [f"word {k // 2}" for k in range(10)], "image": "PICTURE"},
            "people disagree",
        ),
        ({"question": "what?", "answers": [""] * 10, "image": "PICTURE"}, "people disagree"),
    ],
    "llava-onevision": [
        (
            {
                "id": "1",
                "image": "PICTURE",
                "data_source": "x",
                "conversations": talk("<image>\nWhat color?", "Red.", ("And the other?", "Blue.")),
            },
            ("What color?", "Red"),
        )
    ],
}


def served(records, source):
    """The records as `datasets` gives them, with pictures inside or paths to them."""
    records = [
        {
            key: {"bytes": picture(), "path": None} if cell == "PICTURE" else cell
            for key, cell in record.items()
        }
        for record in records
    ]
    data = datasets.Dataset.from_list(records)
    return data if source.archive else data.cast_column(source.image, datasets.Image())


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("name", RECORDS)
def test_a_source_is_read_in_its_own_columns(name, streaming, tmp_path, monkeypatch):
    source = registry()[name]
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for place in (pictures, tmp_path):  # the second must not be reached
        (place / "p.png").write_bytes(picture())
    calls = []

    def load(hub, config, **options):
        calls.append((hub, config, options["split"], options["revision"], options.get("data_files")))
        data = served([record for record, _ in RECORDS[name]], source)
        return data.to_iterable_dataset() if options["streaming"] else data

    monkeypatch.setattr(datasets, "load_dataset", load)
    count = len(RECORDS[name]) * max(1, len(source.configs))
    rows = list(read_source(name, streaming=streaming, images=pictures if source.archive else None))
    assert len(rows) == count
    turns = max(1, len(source.configs))
    for row, (_, expected) in zip(rows[::turns], RECORDS[name], strict=True):
        if isinstance(expected, str):
            assert isinstance(row, Dropped) and row.reason == expected
        else:
            question, gold, options = (*expected, ()) if len(expected) == 2 else expected
            assert isinstance(row, Row), row
            assert (row.question, row.gold, row.options) == (question, gold, options)
            assert (row.source, row.kind, row.image) == (name, source.kind, picture())
    assert [row.id for row in rows] == [f"{name}-{k}" for k in range(count)]
    assert calls[0] == (
        source.hub,
        next(iter(source.configs), None),
        source.split,
        source.revision,
        list(source.files) or None,
    )


def test_every_source_of_the_account_is_registered_and_tested():
    assert set(registry()) == set(RECORDS) == set(_FUNCTIONS)
    for source in registry().values():
        assert source.part in ("stem", "general") and source.kind in KINDS and source.checked.strip()
        assert set(source.roles) <= {"sft", "rl", "evaluation"} and source.roles
        assert source.revision == "main" or len(source.revision) == 40
    assert [name for name, source in registry().items() if "evaluation" in source.roles] == [
        "mathverse",
        "wemath",
    ]
    assert [name for name, source in registry().items() if not source.confirmed] == ["visualwebinstruct"]


def test_subsets_are_read_in_turn_up_to_the_limit(monkeypatch):
    source = registry()["llava-onevision"]

    def load(hub, config, **options):
        record = {"id": "1", "image": "PICTURE", "conversations": talk(config, "Red.")}
        return served([record] * 3, source)

    monkeypatch.setattr(datasets, "load_dataset", load)
    rows = list(read_source("llava-onevision", limit=4))
    assert [row.question for row in rows] == list(source.configs[:4])


def test_a_record_in_other_columns_is_dropped_with_what_it_has(monkeypatch):
    source = registry()["clevr-counting"]
    data = served([{"image": "PICTURE", "question": "How many?"}], source)
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: data)
    (row,) = read_source("clevr-counting")
    assert row.reason == "unexpected record" and "'problem'" in row.detail and "'question'" in row.detail


def test_errors_of_a_source_are_one_line(monkeypatch):
    def offline(*_, **__):
        raise ConnectionError("Couldn't reach\nthe hub")

    monkeypatch.setattr(datasets, "load_dataset", offline)
    with pytest.raises(
        SailRLError, match=r"cannot be read \(ConnectionError: Couldn't reach\); check the net"
    ) as error:
        list(read_source("scienceqa"))
    assert "\n" not in str(error.value)
    with pytest.raises(SailRLError, match=r"the pictures of mm-math lie apart; unpack MM_Math/MM_Math\.zip"):
        read_source("mm-math")
    with pytest.raises(SailRLError, match="unknown source 'clevr'; known sources: visualwebinstruct, "):
        read_source("clevr")


def test_a_reader_drops_and_does_not_stop(monkeypatch):
    source = registry()["llava-onevision"]
    records = [{"id": "1", "image": "PICTURE", "conversations": None}, {"id": "2", "image": "PICTURE",
                "conversations": talk("What?", "Red.")}]  # fmt: skip
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: served(records, source))
    kinds = [type(row) for row in read_source("llava-onevision")]
    assert kinds.count(Dropped) == kinds.count(Row) == len(source.configs)
    assert isinstance(source.row({"conversations": []}), Drop)
