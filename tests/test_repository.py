"""The repository keeps its own promises: one-way imports, documented names, prose that agrees with code."""

from __future__ import annotations

import ast
import inspect
import re
import runpy
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

import sightline
from sightline._names import homes
from sightline.cli import commands
from sightline.demo import tour

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sightline"
MODULES = sorted(SOURCE.rglob("*.py"))

# The path plan -> report; a module may import only from rooms before its own, and from its own.
ROOMS = (
    *("_names", "errors", "arrays", "progress", "display", "numerics"),
    *("privacy", "releases", "noise", "geometry"),
    *("labeled", "multiset", "attacks"),
    *("tables", "auditing", "report", "paper"),
    *("examples", "demo", "cli"),
)
POSITION = {room: position for position, room in enumerate(ROOMS)}


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


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a module imports from, at its top or inside a function."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: a relative import hides which room it reaches into"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        rooms |= {name.split(".")[1] for name in names if name.startswith("sightline.")}
    return rooms


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.parent != SOURCE or p.stem != "__init__"], ids=name_of
)
def test_imports_point_one_way(path: Path) -> None:
    assert room_of(path) in POSITION, f"give {room_of(path)} its place in ROOMS"
    later = {room for room in imported_rooms(path) if POSITION[room] > POSITION[room_of(path)]}
    assert not later


@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.name == "__init__.py" and p.parent != SOURCE], ids=name_of
)
def test_a_room_opens_without_importing_anything(path: Path) -> None:
    body = ast.parse(path.read_text(encoding="utf-8")).body
    if path.with_suffix(".pyi").exists():  # publishes names
        assert (
            "\n".join(map(ast.unparse, body[1:]))
            == "from sightline._names import lazy\n__getattr__, __dir__ = lazy(__name__)"
        )
    else:
        assert [type(statement) for statement in body] == [ast.Expr], "a docstring and nothing else"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_file_holds_one_idea(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500
    assert path.stem not in {"utils", "common", "helpers"}


# ------------------------------------------------------------------ public names


PUBLISHERS = [
    "sightline",
    *(f"sightline.{name}" for name, home in homes("sightline").items() if home == "sightline"),
]
PUBLIC_NAMES = [
    (package, name, home)
    for package in PUBLISHERS
    for name, home in homes(package).items()
    if home != package  # a room
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
    assert len([name for package, name, _ in PUBLIC_NAMES if package == "sightline"]) < 40


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
    import sightline.auditing.run as run

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


def test_the_version_is_the_installed_one() -> None:
    assert sightline.__version__ == version("sightline")


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
        {"console", "text", "toml", "{toctree}", "{public-names}"},
    )
    assert set(languages) <= run | not_python


@pytest.mark.parametrize("path", PROSE, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_picture_shows_the_numbers_of_the_demo() -> None:
    drawing = runpy.run_path(str(ROOT / "docs" / "picture.py"))
    assert drawing["PICTURE"].read_text(encoding="utf-8") == drawing["svg"](tour()), (
        "run python docs/picture.py"
    )


def test_the_changelog_knows_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]
    assert any(version("sightline") in section.splitlines()[0] for section in sections)
    # A changed number is never hidden among features: every version says so, or says that none did.
    assert all("### Changes to reported numbers" in section for section in sections)


# ------------------------------------------------------------------ no machine, no address


def test_no_file_names_a_machine_or_a_package_index() -> None:
    # Spelled in pieces, so that this file passes its own test.
    patterns = {
        "a home or work folder": r"(?<![\w.])/(?:home|root|Users|work|tmp)/\w",
        "a package index": r"https?://\S*(?:py" + r"pi|pythonhosted|/simple\b)",
        "an index option": r"--(?:extra-)?index" + r"-url|--find" + r"-links",
        "a local address": r"file" + r"://|https?://(?:localhost|127\.|10\.|192\.168\.)",
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
