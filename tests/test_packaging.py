"""The install files agree with each other: one set of pins, used everywhere."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# In pieces, so that this file does not name the hosts that it looks for.
REGISTRIES = ["py" + "pi", "python" + "hosted", "npm" + "js", "deb" + "ian"]
HOST = re.compile(rf"({'|'.join(REGISTRIES)})\.(org|com|net)", re.IGNORECASE)


# Which pins an extra is installed with, where not those of constraints.txt.
OWN_PINS = {"verl": "constraints-verl.txt", "eval": "constraints-eval.txt"}


def pins(file: str = "constraints.txt") -> dict[str, str]:
    """Package name to exact version, as a constraints file has it."""
    found: dict[str, str] = {}
    for line in (ROOT / file).read_text().splitlines():
        line = line.partition("#")[0].strip()
        if not line:
            continue
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        name = canonicalize_name(requirement.name)
        assert specifier.operator == "==", f"{line}: {file} holds exact versions only"
        assert name not in found, f"{name} is pinned twice"
        found[name] = specifier.version
    return found


def requirements() -> list[tuple[str, Requirement]]:
    """Every requirement of the package with the group that names it, its own extras left out."""
    groups = {"core": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    named = [(group, Requirement(text)) for group, texts in groups.items() for text in texts]
    return [(group, requirement) for group, requirement in named if requirement.name != PROJECT["name"]]


def imported_modules() -> set[str]:
    """The top-level names of all third-party modules that the package imports, inside functions too."""
    names: set[str] = set()
    for path in (ROOT / "sailrl_lite").rglob("*.py"):
        if "templates" in path.parts:  # of exports, which run in another environment
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names - {"sailrl_lite"}


def project_files() -> Iterable[Path]:
    """The files that git tracks; in an unpacked archive, all that are not hidden and not written by a run."""
    if shutil.which("git"):
        command = ["git", "ls-files", "-z"]
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.split("\0")
        tracked = [ROOT / name for name in listed if name]
        if tracked:
            return [path for path in tracked if path.is_file()]
    written = {"runs", "build", "dist", "__pycache__"}
    files = [path for path in ROOT.rglob("*") if path.is_file()]
    return [p for p in files if not any(x.startswith(".") or x in written for x in p.relative_to(ROOT).parts)]


def test_every_extra_is_asked_for_by_make_resolve() -> None:
    (asked,) = re.findall(r"for extra in ([a-z ]+);", (ROOT / "Makefile").read_text())
    assert set(asked.split()) == set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("group", ["core", *PROJECT["optional-dependencies"]])
def test_every_requirement_is_pinned_to_a_version_it_allows(group: str) -> None:
    file = OWN_PINS.get(group, "constraints.txt")
    pinned = pins(file)
    mine = [requirement for name, requirement in requirements() if name == group]
    assert mine, f"pyproject.toml names nothing under {group}"
    if group in OWN_PINS:  # an environment of its own has the core and the judge, too
        mine += [requirement for name, requirement in requirements() if name in ("core", "judge")]
    for requirement in mine:
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} ({group}) has no pin in {file}"
        assert requirement.specifier.contains(version), f"{requirement} ({group}) excludes the pin {version}"


def test_pyproject_leaves_exact_versions_to_the_constraints_file() -> None:
    exact = [str(r) for _, r in requirements() if any(s.operator in ("==", "===") for s in r.specifier)]
    assert not exact, f"exact versions in pyproject.toml: {exact}"


def test_every_import_is_a_named_requirement() -> None:
    """Nothing that the package imports arrives only because another library happens to need it."""
    named = {canonicalize_name(requirement.name) for _, requirement in requirements()}
    distributions = packages_distributions()
    for module in sorted(imported_modules()):
        # What is not installed here (vllm, say) goes by its own name.
        found = {canonicalize_name(name) for name in distributions.get(module, [module])}
        assert found & named, f"{module} is imported, but pyproject.toml does not name {sorted(found)}"


def test_what_is_imported_with_a_module_is_there_without_an_extra() -> None:
    """All but the two modules that speak to an endpoint, whose packages are the extra [judge]."""
    named = {canonicalize_name(requirement.name) for group, requirement in requirements() if group == "core"}
    named |= sys.stdlib_module_names | {"sailrl_lite"}
    distributions = packages_distributions()
    for path in sorted((ROOT / "sailrl_lite").rglob("*.py")):
        if "templates" in path.parts or path.name in ("client.py", "cache.py"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            whole = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                whole = [node.module]
            for module in (name.partition(".")[0] for name in whole):
                found = {canonicalize_name(name) for name in distributions.get(module, [module])}
                assert (found | {module}) & named, f"{path} imports {module}, which only an extra brings"


def test_conda_and_make_install_from_the_same_constraints() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip_lines,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert pip_lines == ["-c constraints.txt", "-e .[dev,notebooks]"]
    assert "-c constraints.txt" in (ROOT / "Makefile").read_text()


def test_packages_without_wheels_for_a_system_are_not_asked_for_there() -> None:
    elsewhere = {"sys_platform": "darwin", "platform_machine": "arm64", "python_version": "3.11"}
    linux = {"sys_platform": "linux", "platform_machine": "x86_64", "python_version": "3.11"}
    marked = {r.name: r.marker for _, r in requirements() if r.marker}
    for name in ("vllm", "deepspeed", "verl"):
        assert marked[name].evaluate(linux) and not marked[name].evaluate(elsewhere)
    assert marked["bitsandbytes"].evaluate(linux) and marked["bitsandbytes"].evaluate(elsewhere)


@pytest.mark.slow
def test_a_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    """Rungs, prompts, styles, export templates and plans are read at run time, and are no Python."""
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    package = {
        str(path.relative_to(ROOT)) for path in project_files() if path.is_relative_to(ROOT / "sailrl_lite")
    }
    assert package <= inside, f"not in the wheel: {sorted(package - inside)}"
    kinds = {Path(name).suffix for name in package}
    assert {".toml", ".yaml", ".md"} <= kinds


def test_version_is_the_same_everywhere() -> None:
    from sailrl_lite import __version__

    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__


def test_no_file_names_a_registry_host() -> None:
    """The files must work with whatever index the reader's pip is set up for."""
    named = []
    for path in project_files():
        hit = HOST.search(path.read_bytes().decode("latin-1"))
        if hit:
            named.append(f"{path.relative_to(ROOT)}: {hit.group()}")
    assert not named, f"registry hosts in {named}"
