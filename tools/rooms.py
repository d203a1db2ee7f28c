"""`make rooms`: how large the house is, and which rooms and modules import which.

The exit status is 1 if any law of imports is broken. An import counts wherever it stands: at the top of a
module, inside a function, under ``TYPE_CHECKING``, in the name table of an ``__init__.py``, or as a string
that is given to ``import_module``. The script uses only the standard library, so it runs without an
environment; only the walk of the demo (``tools/walk.py``) needs one.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sightline"

# A module imports from its own room and from rooms to its left. `root` is `sightline/__init__.py`.
ROOMS = (
    *("_names", "errors", "values", "arrays", "checked_numbers", "progress", "format", "display", "numerics"),
    *("privacy", "noise", "units", "bounds"),
    *("tables", "auditing", "advising", "rehearsing", "records", "report", "jobs", "ledger"),
    "theory",
    *("testing", "examples", "study_commands", "ledger_commands", "agent_call", "agent_commands"),
    *("cli", "root"),
)
# The paper's wing, from left to right.
THEORY = ("releases", "geometry", "labeled", "multiset", "attacks", "notebook", "paper")
# What may import the paper: the command line, and the package, whose public names are of both wings.
BOTH_WINGS = ("theory", "study_commands", "cli", "root")

Graph = Mapping[str, frozenset[str]]


def module_name(path: Path) -> str:
    """The dotted name of a file of the package."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def module_files() -> dict[str, Path]:
    """Every module of the package, by dotted name."""
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def room_of(module: str) -> str:
    """The room that a module belongs to: the first name below the package."""
    return module.split(".")[1] if "." in module else "root"


def import_graph() -> Graph:
    """The modules that each module imports."""
    files = module_files()
    return {module: frozenset(imported(path, files.keys())) - {module} for module, path in files.items()}


def with_the_package(graph: Graph) -> Graph:
    """The same graph, where ``from sightline import jobs`` counts as an import of ``sightline`` as well."""
    return {
        module: graph[module] | ({"sightline"} if names_the_package(path) else set())
        for module, path in module_files().items()
    }


def names_the_package(path: Path) -> bool:
    """Whether a file imports from the package itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(isinstance(node, ast.ImportFrom) and node.module == "sightline" for node in ast.walk(tree))


def cycles(graph: Graph) -> list[list[str]]:
    """The largest sets of modules that all import each other, directly or through others; none is best.

    Tarjan's algorithm for strongly connected components; those of one module are left out.
    """
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        index[module] = lowest[module] = len(index)
        stack.append(module)
        for target in sorted(graph[module]):
            if target not in index:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in stack:
                lowest[module] = min(lowest[module], index[target])
        if lowest[module] == index[module]:
            start = stack.index(module)
            component = sorted(stack[start:])
            del stack[start:]
            if len(component) > 1:
                found.append(component)

    for module in sorted(graph):
        if module not in index:
            visit(module)
    return sorted(found)


def shortest_cycle(graph: Graph, component: Iterable[str]) -> list[str]:
    """One shortest way round inside a component, for the message."""
    inside = set(component)
    best: list[str] = []
    for start in sorted(inside):
        paths, seen = [[start]], {start}
        while paths:
            path = paths.pop(0)
            following = graph[path[-1]] & inside
            if start in following:
                best = path if not best or len(path) < len(best) else best
                break
            paths += [[*path, module] for module in sorted(following - seen)]
            seen |= following
    return [*best, best[0]]


def position(module: str) -> tuple[int, int]:
    """Where a module stands: its room, and inside the paper's wing the room there."""
    inside = module.split(".")[2:3] if room_of(module) == "theory" else []
    return ROOMS.index(room_of(module)), THEORY.index(inside[0]) if inside else 0


def rightward(graph: Graph) -> list[tuple[str, str]]:
    """The imports that point to a room on the right."""
    return [
        (module, target)
        for module, targets in sorted(graph.items())
        for target in sorted(targets)
        if position(target) > position(module)
    ]


def into_the_theory(graph: Graph) -> list[tuple[str, str]]:
    """The imports of the paper's wing by the audit's, which must not need it."""
    return [
        (module, target)
        for module, targets in sorted(graph.items())
        for target in sorted(targets)
        if room_of(target) == "theory" and room_of(module) not in BOTH_WINGS
    ]


def lines_per_room() -> dict[str, int]:
    """Lines of Python source in each room."""
    counts: Counter[str] = Counter()
    for module, path in module_files().items():
        counts[room_of(module)] += len(path.read_text(encoding="utf-8").splitlines())
    return {room: counts[room] for room in ROOMS if counts[room]}


def imported(path: Path, modules: Iterable[str]) -> Iterator[str]:
    """The modules of the package that one file imports."""
    known = set(modules)
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    prefixes = {""} | ({"sightline."} if path.name == "__init__.py" else set())
    for node in nodes:
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases if alias.name in known)
            case ast.ImportFrom(module=str(base), names=aliases, level=0):
                for alias in aliases:
                    name = f"{base}.{alias.name}"
                    yield from {name if name in known else base} & known
            case ast.ImportFrom():
                raise SystemExit(f"{path}: a relative import hides which room it reaches into")
            case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) if start.startswith("sightline."):
                prefixes.add(start)  # import_module(f"sightline.{home}")
    yield from ({prefix + text for prefix in prefixes for text in texts} & known) - {"sightline"}


def plan_fields() -> int:
    """Fields that a plan can have, in all its tables."""
    schema = json.loads((ROOT / "docs" / "plan.schema.json").read_text(encoding="utf-8"))
    return sum(len(table.get("properties", ())) for table in (schema, *schema["$defs"].values()))


def root_names() -> int:
    """Names that ``import sightline`` offers: the lines of its stub."""
    stub = (SOURCE / "__init__.pyi").read_text(encoding="utf-8")
    return sum(line.startswith("from ") for line in stub.splitlines())


def words_of_docs() -> int:
    """Words of the pages under ``docs/``, those of their code blocks too."""
    return sum(len(page.read_text(encoding="utf-8").split()) for page in (ROOT / "docs").rglob("*.md"))


def walk_of_the_demo() -> list[str]:
    """What ``tools/walk.py`` counts in one run of the demo: files entered, functions, assessments."""
    script = ROOT / "tools" / "walk.py"
    if not script.is_file():
        return []
    installed = ROOT / ".venv" / "bin" / "python"
    python = str(installed) if installed.is_file() else sys.executable
    walk = subprocess.run([python, str(script)], capture_output=True, text=True, timeout=120, check=False)
    return (
        walk.stdout.splitlines() if walk.returncode == 0 else ["the demo did not run: make demo installs it"]
    )


def main() -> int:
    """Print the sizes, the rooms, the modules with what they import, and the laws that are broken."""
    graph, lines = import_graph(), lines_per_room()
    theory = lines.get("theory", 0)
    print("The house\n")
    for name, count in (
        ("lines of the audit's wing", sum(lines.values()) - theory),
        ("lines of the theory's wing", theory),
        ("modules", len(graph)),
        ("fields of a plan", plan_fields()),
        ("root names", root_names()),
        ("words of docs", words_of_docs()),
    ):
        print(f"  {name:<52}{count:>8,}")
    print(*(f"  {line}" for line in walk_of_the_demo()), "", sep="\n")
    between: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        between[room_of(module)] |= {room_of(target) for target in targets} - {room_of(module)}
    print("Rooms, from left to right: lines of source, and the rooms that they import\n")
    for room, count in lines.items():
        imports = [other for other in ROOMS if other in between[room]]
        print(f"  {room:<10}{count:>7}  {', '.join(imports)}")
    print("\nModules and the modules that they import")
    for module in sorted(graph, key=lambda name: (position(name), name)):
        print(f"\n  {module.removeprefix('sightline.')}")
        if module != "sightline":
            for target in sorted(graph[module], key=lambda name: (position(name), name)):
                print(f"    {target.removeprefix('sightline.')}")
    circular = cycles(graph)
    print(f"\nCycles of modules: {len(circular)}")
    for component in circular:
        print(
            f"  {len(component)} modules: {', '.join(name.removeprefix('sightline.') for name in component)}"
        )
        print(f"    for example {' -> '.join(shortest_cycle(graph, component))}")
    broken = {
        "Imports that point to the right": rightward(graph),
        "Imports of the theory by the audit": into_the_theory(graph),
    }
    for law, imports_against_it in broken.items():
        print(f"\n{law}: {len(imports_against_it)}")
        for module, target in imports_against_it:
            print(f"  {module} -> {target}")
    return 1 if circular or any(broken.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
