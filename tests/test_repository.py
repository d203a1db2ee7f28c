"""The laws of the house: imports, parameters, documented names, prose that agrees with the code."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline
from sightline._names import homes
from sightline.cli import commands
from sightline.tables.subject import KINDS, SecretKind
from tools.rooms import (
    ROOMS,
    ROOT,
    SOURCE,
    Graph,
    cycles,
    import_graph,
    imported,
    into_the_theory,
    module_name,
    rightward,
    room_of,
    shortest_cycle,
)

MODULES = sorted(SOURCE.rglob("*.py"))

REASON = re.compile(r"# many parameters: \S")


def tracked_files() -> list[Path]:
    """The files under version control, and those about to be; in an unpacked archive, all files."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        skipped = {".venv", "_build", "__pycache__", ".git"}
        return [p for p in ROOT.rglob("*") if p.is_file() and not skipped & set(p.relative_to(ROOT).parts)]
    return [path for name in listing.decode().split("\0") if name and (path := ROOT / name).is_file()]


def texts() -> dict[Path, str]:
    found = {}
    for path in tracked_files():
        try:
            found[path] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


PROSE = [path for path in tracked_files() if path.suffix == ".md"]


# ------------------------------------------------------------------ the folder tree is the architecture


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The modules that each module imports: read when a test runs, not by every worker that collects."""
    return import_graph()


def test_every_room_has_its_place(graph: Graph) -> None:
    assert {room_of(module) for module in graph} <= set(ROOMS), "give a new room its place in tools/rooms.py"


def test_imports_point_to_the_left(graph: Graph) -> None:
    assert list(rightward(graph)) == []


def test_the_audit_never_imports_the_theory(graph: Graph) -> None:
    assert into_the_theory(graph) == []
    planted = {**graph, "sightline.units.design": frozenset({"sightline.theory.labeled.inout"})}
    assert into_the_theory(planted) == [("sightline.units.design", "sightline.theory.labeled.inout")]


def test_a_name_of_a_class_means_one_class() -> None:
    named = Counter(
        node.name
        for path in SOURCE.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    # Exporters are files that are copied one by one: each has its own refusal.
    assert {name for name, classes in named.items() if classes > 1} == {"CannotExport"}


def test_no_modules_import_each_other(graph: Graph) -> None:
    assert [" -> ".join(shortest_cycle(graph, component)) for component in cycles(graph)] == []


def test_the_import_graph_counts_lazy_and_typing_only_imports(tmp_path: Path) -> None:
    path = tmp_path / "one.py"
    path.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n"
        "    from sightline.b import name\n"
        "def later():\n"
        "    import sightline.c\n"
        "    from sightline import d\n"
        "    import_module('sightline.e')\n"
        "    import_module(f'sightline.{HOME}')\n"
        "HOME = 'f.g'\n"
    )
    known = {f"sightline.{name}" for name in ("b", "c", "d", "e", "f", "f.g", "h")}
    assert set(imported(path, known)) == known - {"sightline.f", "sightline.h"}
    path.rename(tmp_path / "__init__.py")
    (tmp_path / "__init__.py").write_text('_HOME = {"Name": "f.g"}\n')
    assert set(imported(tmp_path / "__init__.py", known)) == {"sightline.f.g"}


def test_cycles_are_found_whatever_their_length() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}, "f": {"a"}}
    frozen = {module: frozenset(targets) for module, targets in graph.items()}
    assert cycles(frozen) == [["a", "b", "c"], ["d", "e"]]
    assert shortest_cycle(frozen, ["a", "b", "c"]) == ["a", "b", "c", "a"]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a function takes, without ``self`` and ``cls``."""
    taken = function.args
    names = [each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
    own = bool(names) and names[0] in {"self", "cls"}
    return len(names) - own + (taken.vararg is not None) + (taken.kwarg is not None)


def functions(
    node: ast.AST, inside: str = ""
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function below a node, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # holds no function with a name
            continue
        name = inside
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}".lstrip(".")
            if not isinstance(child, ast.ClassDef):
                yield name, child
        yield from functions(child, name)


@pytest.mark.slow
def test_no_function_takes_more_than_six_parameters_without_a_reason() -> None:
    many = set()
    for path in MODULES:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for name, function in functions(ast.parse(text)):
            if parameters(function) > 6 and not REASON.search(lines[function.lineno - 1]):
                many.add(f"{path.relative_to(SOURCE).as_posix()}:{name}")
    assert many == set(), "group them, or end the line of the def: # many parameters: REASON"


def in_the_name_table(statement: ast.stmt) -> bool:
    """Whether a statement may stand in a room's ``__init__.py``: it names things and computes nothing."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.ImportFrom() | ast.Import() | ast.Assign() | ast.AnnAssign():
            return True
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


ROOM_INITS = [path for path in MODULES if path.name == "__init__.py" and path.parent != SOURCE]


@pytest.mark.parametrize("path", ROOM_INITS, ids=name_of)
def test_a_room_opens_with_a_docstring_or_a_table_of_names(path: Path) -> None:
    module = ast.parse(path.read_text(encoding="utf-8"))
    assert ast.get_docstring(module)
    assert [ast.unparse(statement) for statement in module.body if not in_the_name_table(statement)] == []


def test_opening_the_rooms_loads_none_of_their_modules() -> None:
    """Names load on first use: ``import sightline.privacy`` reads no rule, and loads no NumPy."""
    rooms = [module_name(path) for path in ROOM_INITS]
    script = f"import sys, {', '.join(rooms)}; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert "numpy" not in loaded
    ours = {name for name in loaded if name.startswith("sightline.")} - set(rooms)
    assert {name for name in ours if room_of(name) in rooms_with_folders()} == set()


def rooms_with_folders() -> set[str]:
    return {path.parent.relative_to(SOURCE).parts[0] for path in ROOM_INITS}


def test_a_kind_of_secret_is_asked_what_it_is_and_not_which() -> None:
    """A new kind is a row of facts: where one is compared with another, it would be taken for an old one."""
    assert list(KINDS) == list(SecretKind)
    compared = re.compile(r"\b(is|is not|==|!=) SecretKind\.")
    for path in (ROOT / "src" / "sightline").rglob("*.py"):
        if "sql" not in path.parts:  # reads the text of a query otherwise for each
            assert not compared.search(path.read_text(encoding="utf-8")), path


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_holds_one_idea(path: Path) -> None:
    """One docstring, at the top: a second text opens a second module, unless it describes a name above it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    texts = [
        node.lineno
        for before, node in pairwise(body)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and not isinstance(before, ast.Assign | ast.AnnAssign)
    ]
    assert texts == []
    assert path.stem not in {"utils", "common", "helpers"}


# ------------------------------------------------------------------ public names


def rooms_of(package: str) -> list[str]:
    """The rooms that a package publishes, as ``from PACKAGE import ROOM as ROOM`` in its stub."""
    return [f"{package}.{name}" for name, home in homes(package).items() if home == package]


WINGS = ["sightline", "sightline.theory"]
PUBLISHERS = ["sightline", *rooms_of("sightline"), *rooms_of("sightline.theory")]
PUBLIC_NAMES = [
    (package, name, home)
    for package in PUBLISHERS
    for name, home in homes(package).items()
    if home not in WINGS  # a room
]


@pytest.mark.parametrize(("package", "name", "home"), PUBLIC_NAMES)
class TestEveryPublicName:
    def test_it_resolves_to_the_module_that_defines_it(self, package: str, name: str, home: str) -> None:
        value = getattr(import_module(package), name)
        assert value is getattr(import_module(home), name)
        assert getattr(value, "__module__", home) in {home, "builtins"}

    def test_it_is_documented(self, package: str, name: str, home: str) -> None:
        assert (inspect.getdoc(getattr(import_module(package), name)) or "").strip()

    def test_no_module_beside_it_has_its_name(self, package: str, name: str, home: str) -> None:
        # The import of such a module would hide the name.
        assert find_spec(f"{package}.{name}") is None


def test_every_public_name_is_in_one_place() -> None:
    names = [name for _, name, _ in PUBLIC_NAMES]
    assert len(set(names)) == len(names)


def test_the_root_holds_the_names_of_the_three_jobs() -> None:
    assert len([name for package, name, _ in PUBLIC_NAMES if package == "sightline"]) <= 40


@pytest.mark.parametrize("package", PUBLISHERS)
def test_the_stub_is_read_as_python_reads_it(package: str) -> None:
    stub = SOURCE.joinpath(*package.split(".")[1:], "__init__.pyi")
    imported = {
        alias.asname: node.module
        for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == homes(package)
    assert set(imported) == set(dir(import_module(package))) == set(import_module(package).__all__)


def test_rooms_with_a_stub_are_at_the_root() -> None:
    stubs = [".".join(path.relative_to(SOURCE.parent).parent.parts) for path in SOURCE.rglob("*.pyi")]
    assert sorted(stubs) == sorted(PUBLISHERS)


def test_a_module_of_any_room_can_be_imported_under_another_name() -> None:
    import sightline.jobs.audit as run

    assert sightline.audit is run.audit


def test_importing_the_package_loads_no_other_module_of_it() -> None:
    code = "import sightline, sys; print([name for name in sys.modules if name.startswith('sightline.')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "['sightline._names']"


def test_the_reference_is_made_from_the_public_names() -> None:
    assert "```{public-names}\n```" in (ROOT / "docs" / "api.md").read_text(encoding="utf-8")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Bugdet'"):
        sightline.Bugdet  # noqa: B018


def test_the_version_is_the_installed_one_and_the_one_to_cite() -> None:
    assert sightline.__version__ == version("sightline")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {sightline.__version__}\n" in citation


# ------------------------------------------------------------------ prose that agrees with the code


def test_every_page_has_a_title_of_its_own() -> None:
    pages = [path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts]
    titles = [path.read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0] for path in pages]
    assert len(set(titles)) == len(titles) > 10


def test_every_command_named_in_prose_exists() -> None:
    named = {
        (name_of(path), word)
        for path in PROSE
        for word in re.findall(
            r"(?:`|^\$ |^)sightline ([a-z][a-z-]*)", path.read_text("utf-8"), flags=re.MULTILINE
        )
    }
    assert named, "the README names at least one command"
    assert {(where, word) for where, word in named if word not in commands.commands} == set()


def test_every_make_target_named_in_prose_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    named = {
        (name_of(path), word)
        for path in PROSE
        for line in re.findall(r"(?:`|^\$ |^)make ([^`\n#]+)", path.read_text("utf-8"), flags=re.MULTILINE)
        for word in re.findall(r"(?<!\S)[a-z]+(?!\S)", line)
    }
    assert named, "the README names at least one target"
    assert {(where, word) for where, word in named if word not in targets} == set()


def test_every_phony_target_exists_and_says_what_it_does() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    described = re.findall(r"^([a-z]+):.*## \S", makefile, flags=re.MULTILINE)
    assert sorted(phony.split()) == sorted(described)


@pytest.mark.parametrize("command", sorted(commands.commands))
def test_every_help_text_has_an_example(command: str) -> None:
    assert f"Example:  sightline {command}" in (commands.commands[command].epilog or "")


@pytest.mark.parametrize("path", PROSE, ids=name_of)
def test_code_in_prose_is_either_run_or_plainly_not_python(path: Path) -> None:
    languages = re.findall(r"^ *```+ *(\S+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    run, not_python = (
        {"python"},
        {"console", "text", "toml", "yaml", "json", "{toctree}", "{public-names}", "{literalinclude}"},
    )
    assert set(languages) <= run | not_python


@pytest.mark.parametrize("path", PROSE, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def contributing(heading: str) -> str:
    """One section of CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


@pytest.mark.slow
def test_the_walk_of_one_audit_passes_through_code_that_exists() -> None:
    hops = re.findall(
        r"^\d+\. `([^`]+)`, `([^`]+)`:", contributing("The walk of one audit"), flags=re.MULTILINE
    )
    assert 5 < len(hops) <= 15
    for file, name in hops:
        tree = ast.parse((SOURCE / file).read_text(encoding="utf-8"))
        kinds = ast.FunctionDef | ast.ClassDef
        assert any(isinstance(node, kinds) and node.name == name for node in ast.walk(tree)), (
            f"{file}: {name}"
        )


def test_adding_one_thing_touches_files_which_exist() -> None:
    rows = re.findall(
        r"^\| (an? [^|]+) \| (.+) \|$", contributing("To add one thing, touch these files"), re.MULTILINE
    )
    assert len(rows) >= 7
    touched = {what: re.findall(r"`([^`]+\.py)`", files) for what, files in rows}
    assert {what for what, files in touched.items() if not files} == set()
    named = {file for files in touched.values() for file in files if "NEW" not in file}
    assert {file for file in named if not any((top / file).is_file() for top in (SOURCE, ROOT))} == set()


def test_the_picture_shows_the_numbers_of_the_demo() -> None:
    drawing = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    assert drawing["PICTURE"].read_text(encoding="utf-8") == drawing["svg"](drawing["tour"]()), (
        "run python docs/picture.py"
    )


def test_the_changelog_knows_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    assert any(version("sightline") in section.splitlines()[0] for section in sections)
    # A changed number is never hidden among features: every version says so, or says that none did.
    assert all("### Changes to reported numbers" in section for section in sections)


# ------------------------------------------------------------------ no machine, no address


@pytest.mark.slow
def test_no_file_names_a_machine_or_a_package_index() -> None:
    # Spelled in pieces, so that this file passes its own test.
    patterns = {
        "a home or work folder": r"(?<![\w.])/(?:home|root|Users|work|tmp)/\w",
        "a package index": r"https?://\S*(?:py" + r"pi|pythonhosted|/simple\b)",
        "an index option": r"--(?:extra-)?index" + r"-url|--find" + r"-links",
        "a local address": r"file" + r"://|https?://(?:localhost|127\.|10\.|192\.168\.)",
        "an unfinished merge": r"(?m)^(?:<{7}|>{7}) ",
    }
    found = [
        (name_of(path), what, match.group())
        for path, text in texts().items()
        for what, pattern in patterns.items()
        for match in re.finditer(pattern, text)
    ]
    assert found == []


@pytest.mark.parametrize("name", ["demo", "dev"])
def test_every_locked_requirement_has_a_hash(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^[a-z0-9][^\n]*==[^\n]*(?:\n +--hash=\S+[^\n]*)*", text, flags=re.MULTILINE)
    assert pins
    assert [pin.splitlines()[0] for pin in pins if "--hash=sha256:" not in pin] == []


def test_the_demo_lock_is_part_of_the_dev_lock() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        return set(re.findall(r"^[a-z0-9][^\s\\]*==[^\\\n]*", text, flags=re.MULTILINE))

    assert pins("demo") <= pins("dev")


# ------------------------------------------------------------------ the same tests every time


@pytest.mark.slow
def test_property_tests_draw_the_same_examples_whatever_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn() -> list[int]:
        numbers = []

        @settings(max_examples=300, derandomize=True, database=None)
        @given(st.integers())
        def law(number: int) -> None:
            numbers.append(number)

        law()
        return numbers

    before = drawn()
    (tmp_path / "many_constants.py").write_text(f"CONSTANTS = {list(range(1000, 90_000, 700))}\n")
    monkeypatch.syspath_prepend(tmp_path)
    import_module("many_constants")
    assert drawn() == before


def test_random_numbers_in_tests_have_a_seed() -> None:
    unseeded = re.compile(
        r"default_rng\(\)|RandomState\(\)|np\.random\.(?!default_rng|Generator|SeedSequence|Philox|PCG64)\w+\("
    )
    found = {
        name_of(path): unseeded.findall(text)
        for path, text in texts().items()
        if path.suffix == ".py" and "tests" in path.parts and path != Path(__file__)
    }
    assert {name: calls for name, calls in found.items() if calls} == {}
