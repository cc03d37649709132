"""The report of a curation: its numbers are the run's, and no text of a row breaks it."""

import io
import json
from collections import Counter
from dataclasses import replace

import numpy as np
from markdown_it import MarkdownIt
from PIL import Image

from sailrl_lite.curation import figures
from sailrl_lite.curation.pipeline import Choose, Count, Drop, Dropped, Map, Tally, run
from sailrl_lite.curation.report import write_report
from sailrl_lite.curation.schema import Change, Row, write_rows

ODD = [
    "| a | b |\n|---|---|",
    "```\n# Not a heading\n```",
    "<script>alert(1)</script> <b>5</b> &lt; 6 <!-- gone",
    r"$\frac{1}{$ and $x^$ and \(y\) \| `x",
    "[link](http://example.org) ![x](y.png) *a* _b_ ~~c~~ www.example.org",
    "كم عدد الدوائر؟ \u202e backwards \u2066",
    "图中有多少个圆? 🎉\x00\x07",
    "long " * 20_000,
    "x" * 5000,
    "\\",
]


def picture(size=(40, 20), color="red"):
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, "PNG")
    return buffer.getvalue()


def rows(n, **values):
    made = {"image": picture(), "source": "mine", "kind": "general"} | values
    return [
        Row(f"r{k}", question=f"How many? {k}", gold=str(k), needs_thinking=k % 3 == 0, **made)
        for k in range(n)
    ]


def no_fours(row):
    return (
        Drop("four", f"it is {row.gold}")
        if int(row.gold) % 4 == 0
        else row.with_change("fours", kind="perception")
    )


def twins(table):
    return {row: Drop("twin", other=table.index[0]) for row in table.index[-3:]}


def finished(tmp_path, given, steps, **options):
    out = tmp_path / "run"
    tally = run(given, steps, out / "rows.parquet", tmp_path / "work", bar=False)
    report = write_report(out, tally, out / "rows.parquet", {"seed": 1, "file": tmp_path}, **options)
    return tally, json.loads((out / "report.json").read_text()), report


def tables(markdown):
    """The tables of a Markdown text, as lists of rows of cells as they are shown."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    found, kinds = [], Counter()
    for token in tokens:
        kinds[token.type] += 1
        kinds.update(child.type for child in token.children or ())
        if token.type == "table_open":
            found.append([])
        elif token.type == "tr_open":
            found[-1].append([])
        elif token.type == "inline" and token.level > 3:
            found[-1][-1].append("".join(child.content for child in token.children))
    return found, kinds


def is_drawn(path, least=300):
    with Image.open(path) as image:
        assert least <= min(image.size) and max(image.size) <= 4000
        assert np.asarray(image.convert("L")).std() > 5
    return True


def test_the_numbers_are_those_of_the_run(tmp_path):
    steps = [
        Map("fours", no_fours),
        Choose("twins", lambda row: {"length": len(row.gold)}, twins, watch="length"),
    ]
    given = [*rows(40), Dropped("bad", "read", "no picture", "x.png")]
    tally, report, _ = finished(tmp_path, given, steps)
    assert report["rows"] == {"read": 41, "left": 27, "dropped": 14}
    for step, (name, count) in zip(report["steps"], tally.counts.items(), strict=True):
        assert (step["step"], step["rows"], step["changed"]) == (name, count.rows, count.changed)
        assert step["dropped"] == dict(count.dropped)
    assert [tuple(row.values()) for row in report["dropped"]] == [
        (row.id, row.step, row.reason, row.detail, row.other) for row in tally.dropped
    ]
    assert {"id": "r39", "step": "twins", "reason": "twin", "detail": "", "other": "r1"} in report["dropped"]
    left = [k for k in range(40) if k % 4][:-3]
    by_label = {entry["label"]: entry["rows"] for entry in report["labels"]}
    thinks = sum(k % 3 == 0 for k in left)
    assert by_label == {"needs thinking": thinks, "no thinking needed": len(left) - thinks}
    assert report["spreads"]["twins"] == {
        "column": "length", "before": {"1": 7, "2": 23}, "after": {"1": 7, "2": 20}
    }  # fmt: skip
    assert report["splits"] == {"train": 27} and report["settings"]["seed"] == 1
    assert report["versions"].keys() >= {"sailrl-lite", "python", "datasets"}


def test_the_markdown_has_every_step_reason_and_figure(tmp_path):
    steps = [
        Map("fours", no_fours),
        Choose("twins", lambda row: {"length": len(row.gold)}, twins, watch="length"),
    ]
    tally, _, path = finished(tmp_path, rows(40), steps, then="sailrl-lite sft --data rows.parquet")
    text = path.read_text()
    (done, why, labels, splits, sample), kinds = tables(text)
    assert [row[0] for row in done[1:]] == list(tally.counts)
    assert done[2][1:5] == ["40", "30", "10", "30"]
    assert why[1:] == [["fours", "four", "10", "r0", "it is 0"], ["twins", "twin", "3", "r37", ""]]
    assert labels[1:] == [
        ["perception", "mine", "needs thinking", "9"],
        ["perception", "mine", "no thinking needed", "18"],
    ]
    assert splits[1:] == [["train", "27"]] and len(sample) == 11
    assert kinds["image"] == 5 and "sailrl-lite sft --data rows.parquet" in text
    for name in ("funnel", "labels", "lengths", "sample", "pairs"):
        assert f"({name}.png)" in text and is_drawn(path.parent / f"{name}.png")


def test_remarks_on_rows_that_stay_are_told(tmp_path):
    def remark(row):
        note = Change("look", "", f"seen in e{row.gold} | twice")
        return replace(row, provenance=(*row.provenance, note)) if int(row.gold) % 2 else row

    _, report, path = finished(tmp_path, rows(30), [Map("fours", no_fours), Map("look", remark)])
    assert len(report["remarks"]) == 15
    assert report["remarks"][1] == {"id": "r3", "step": "look", "note": "seen in e3 | twice"}
    table = tables(path.read_text())[0][2]
    assert len(table) == 11 and table[2] == ["look", "r3", "seen in e3 | twice"]


def test_the_same_run_and_seed_show_the_same_rows_and_another_seed_others(tmp_path):
    seen = []
    for number, seed in enumerate((0, 0, 1)):
        _, _, path = finished(tmp_path / str(number), rows(400), [], seed=seed)
        seen.append((tables(path.read_text())[0][-1], (path.parent / "sample.png").read_bytes()))
    assert seen[0] == seen[1] and seen[0][0] != seen[2][0]


def test_odd_texts_break_neither_the_tables_nor_the_figures(tmp_path):
    given = [
        Row(f"<i>{k}|`", picture(), text, text, source=text[:50], kind=text[:50])
        for k, text in enumerate(ODD)
    ]
    given += [Dropped(text, "read", "odd", text) for text in ODD]
    drop_last = Choose(
        "last", lambda row: {}, lambda table: {table.index[9]: Drop("odd", other=table.index[3])}
    )
    _, report, path = finished(tmp_path, given, [drop_last])
    found, kinds = tables(path.read_text())
    assert len(found) == 5 and not kinds["html_block"] and not kinds["html_inline"]
    assert not kinds["link_open"] and not kinds["em_open"] and not kinds["s_open"]
    assert kinds["heading_open"] == 6 and kinds["image"] == 4
    assert all(len(row) == len(table[0]) for table in found for row in table)
    questions = {row[0]: row[1] for row in found[-1][1:]}
    assert questions["<i>2|`"] == "<script>alert(1)</script> <b>5</b> &lt; 6 <!-- gone"
    assert questions["<i>3|`"] == r"$\frac{1}{$ and $x^$ and \(y\) \| `x"
    assert len(questions["<i>7|`"]) == 100
    assert report["dropped"][0]["detail"] == ODD[0]
    for name in ("funnel", "labels", "sample", "pairs"):
        assert is_drawn(path.parent / f"{name}.png")


def test_pictures_of_all_shapes_and_none_are_drawn(tmp_path):
    images = [picture((4, 700)), picture((700, 4)), picture((1, 1)), b"", b"broken", picture((3000, 2000))]
    write_rows(tmp_path / "x.parquet", [Row(f"r{k}", image, "Q?", "5") for k, image in enumerate(images)])
    tally = Tally({"read": Count(len(images))})
    write_report(tmp_path, tally, tmp_path / "x.parquet", {})
    assert is_drawn(tmp_path / "sample.png")


def test_nothing_left(tmp_path):
    _, report, path = finished(tmp_path, rows(8), [Map("none", lambda row: Drop("no", "never"))], then="go")
    text = path.read_text()
    assert report["rows"]["left"] == 0 and "# 0 of 8 rows" in text
    assert "step “none” (no: 8)" in text and "Go on" not in text
    assert sorted(file.name for file in path.parent.glob("*.png")) == ["funnel.png"]
    _, report, path = finished(tmp_path, [], [])
    assert "# 0 of 0 rows" in path.read_text() and is_drawn(path.parent / "funnel.png", 150)


def test_a_new_report_leaves_no_figure_of_an_old_one(tmp_path):
    finished(tmp_path, rows(3), [])
    _, _, path = finished(tmp_path, [], [])
    assert not (path.parent / "sample.png").exists()


def test_pairs_of_every_reason_are_shown(tmp_path, monkeypatch):
    def choose(table):
        reasons = ["copy"] * 9 + ["clash"] * 2
        drops = {f"r{k}": Drop(reason, other=f"r{k + 20}") for k, reason in enumerate(reasons)}
        return drops | {"r30": Drop("clash", other="r10")}  # which goes because of r30: one pair

    shown, draw = [], figures.pairs
    monkeypatch.setattr(figures, "pairs", lambda found: shown.extend(found) or draw(found))
    finished(tmp_path, rows(40), [Choose("some", lambda row: {}, choose)])
    assert [dropped.reason for dropped, _, _ in shown] == ["copy", "clash", "copy", "clash", "copy", "copy"]
    assert all(row.id == dropped.id and other.id == dropped.other for dropped, row, other in shown)
