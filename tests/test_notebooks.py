"""Every notebook of the course: the script and the committed notebook agree, and it runs from top to bottom.

A notebook is written as a script (notebooks/*.py, jupytext's percent format). After a change, execute it and
write the notebook beside it by

    python tests/test_notebooks.py notebooks/00_quickstart.py
"""

import base64
import io
import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted((ROOT / "notebooks").glob("*.py"))
SECONDS_A_CELL = 900  # a stuck cell, not a slow machine, is what this is to find
LARGEST = 1_000_000  # bytes of a committed notebook
# In pieces where this very file would otherwise hold one.
LOCAL_PATH = re.compile(
    r"/(home|root|tmp|usr|var|opt|mnt|work|Users|content|private)/|[A-Z]:\\\\?\w|site-" + "packages"
)
SOLUTION = re.compile(r"<summary>Solution</summary>.*?```python\n(.*?)```", re.DOTALL)

each_notebook = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


# ---- running a notebook


def run_cells(notebook: nbformat.NotebookNode, folder: Path, seconds: int = SECONDS_A_CELL) -> None:
    """Execute a notebook in place with `folder` as the current one. AssertionError names a failing cell."""
    started = [0]
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name="python3",
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=lambda cell, cell_index: started.append(cell_index),
    )
    env = {
        name: value for name, value in os.environ.items() if name != "MPLBACKEND"
    }  # figures as readers see
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")]).strip(os.pathsep)
    try:
        client.execute(env=env)
    except CellExecutionError as error:
        raise AssertionError(f"{_where(notebook, started[-1])}\n\n{error.ename}: {error.evalue}") from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise AssertionError(f"{_where(notebook, started[-1])}\n\n{type(error).__name__}: {error}") from None


def _where(notebook: nbformat.NotebookNode, index: int) -> str:
    """Which cell this is, for a person: its number, the heading above it, its text."""
    above = "\n".join(cell.source for cell in notebook.cells[:index] if cell.cell_type == "markdown")
    headings = re.findall(r"^#+ (.*)", above, re.MULTILINE)
    under = f" under {headings[-1]!r}" if headings else ""
    return f"cell {index + 1}{under} failed:\n\n{notebook.cells[index].source}"


def build(script: Path) -> Path:
    """Execute a script as a notebook and write it beside the script."""
    notebook = jupytext.read(script)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"  # jupytext draws them at random, and every build would change them all
    with tempfile.TemporaryDirectory() as folder:
        run_cells(notebook, Path(folder))
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = smaller(output.data["image/png"])
    path = script.with_suffix(".ipynb")
    nbformat.write(notebook, path)
    return path


def smaller(png: str) -> str:
    """The picture, as base64, in at most 128 colours: a third of the size, and no difference to be seen."""
    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    image.quantize(128, dither=Image.Dither.NONE).save(buffer, "png", optimize=True)
    return base64.b64encode(buffer.getvalue()).decode()


# ---- the tests


def test_each_script_has_its_notebook_and_each_notebook_its_script():
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert SCRIPTS
    assert [path.stem for path in notebooks] == [path.stem for path in SCRIPTS]


@each_notebook
def test_script_and_notebook_agree(script):
    def cells(path):
        return [(cell.cell_type, cell.source.strip()) for cell in jupytext.read(path).cells]

    ours, theirs = cells(script), cells(script.with_suffix(".ipynb"))
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        assert one == other, (
            f"cell {number} differs; run python tests/test_notebooks.py notebooks/{script.name}"
        )
    assert len(ours) == len(theirs)


@each_notebook
def test_the_committed_notebook_was_executed_whole(script):
    path = script.with_suffix(".ipynb")
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error", f"{output.get('evalue')} in\n{cell.source}"
            assert output.get("name") != "stderr", f"a warning, {output.get('text')}, in\n{cell.source}"
    assert path.stat().st_size < LARGEST


@each_notebook
def test_the_committed_notebook_names_no_path_of_a_machine(script):
    notebook = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("image/png", None)  # letters at random
        for text in (cell.source, str(cell.get("outputs", ""))):
            found = LOCAL_PATH.search(text)
            assert not found, text[max(0, found.start() - 60) : found.end() + 60]


@pytest.mark.slow
@each_notebook
def test_it_runs_from_top_to_bottom_and_its_solutions_solve_its_exercises(script, tmp_path):
    """A solution takes the place of the exercise's cell, and the check below that cell is run once more."""
    notebook = jupytext.read(script)
    cells, checks = [], []
    for cell in notebook.cells:
        cells.append(cell)
        for solution in SOLUTION.findall(cell.source) if cell.cell_type == "markdown" else ():
            check = [c for c in cells if c.cell_type == "code" and c not in checks][-1]
            again = nbformat.v4.new_code_cell(check.source)
            cells += [nbformat.v4.new_code_cell(solution.strip()), again]
            checks += [check, again]
    notebook.cells = cells
    run_cells(notebook, tmp_path)
    for unsolved, solved in zip(checks[::2], checks[1::2], strict=True):
        assert _printed(unsolved).startswith("Not yet"), f"solved before it is solved:\n{unsolved.source}"
        assert _printed(solved).startswith("Right"), f"{_printed(solved)}\n{solved.source}"


def _printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.text for output in cell.outputs if output.output_type == "stream")


def test_a_failing_cell_is_named(tmp_path):
    new = nbformat.v4
    cells = [
        new.new_markdown_cell("## Sums"),
        new.new_code_cell("1 + 1"),
        new.new_code_cell("assert 2 > 3, 'no'"),
    ]
    with pytest.raises(
        AssertionError, match=r"(?s)cell 3 under 'Sums' failed:.*assert 2 > 3.*AssertionError: no"
    ):
        run_cells(new.new_notebook(cells=cells), tmp_path)


def test_a_cell_that_hangs_is_named(tmp_path):
    new = nbformat.v4
    cells = [new.new_code_cell("import time\ntime.sleep(60)")]
    with pytest.raises(AssertionError, match=r"(?s)cell 1 failed:.*sleep.*Timeout"):
        run_cells(new.new_notebook(cells=cells), tmp_path, seconds=2)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(build(Path(argument)))
