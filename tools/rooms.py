"""`make rooms`: which rooms and modules import which. The exit status is 1 if any law of imports is broken.

An import counts wherever it stands: at the top of a module, inside a function, under ``TYPE_CHECKING``, in
the name table of an ``__init__.py``, or as a string that is given to ``import_module``. The script uses only
the standard library, so it runs without an environment.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sightline"

# A module imports from its own room and from rooms to its left. `root` is `sightline/__init__.py`.
ROOMS = (
    *("_names", "errors", "arrays", "progress", "format", "display", "numerics"),
    *("privacy", "releases", "noise"),
    *("labeled", "geometry", "multiset", "attacks"),
    *("tables", "auditing", "rehearsing", "designing", "jobs", "report", "paper"),
    *("testing", "examples", "demo", "check_command", "rehearse_command", "cli", "root"),
)

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


def rightward(graph: Graph) -> list[tuple[str, str]]:
    """The imports that point to a room on the right."""
    place = {room: position for position, room in enumerate(ROOMS)}
    return [
        (module, target)
        for module, targets in sorted(graph.items())
        for target in sorted(targets)
        if place[room_of(target)] > place[room_of(module)]
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    texts = {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    prefixes = {""} | ({"sightline."} if path.name == "__init__.py" else set())
    for node in ast.walk(tree):
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


def main() -> int:
    """Print the rooms with what they import, the modules, the cycles, and the imports to the right."""
    graph = import_graph()
    between: dict[str, set[str]] = defaultdict(set)
    for module, targets in graph.items():
        between[room_of(module)] |= {room_of(target) for target in targets} - {room_of(module)}
    lines = lines_per_room()
    print("Rooms, from left to right: lines of source, and the rooms that they import\n")
    for room, count in lines.items():
        imports = [other for other in ROOMS if other in between[room]]
        print(f"  {room:<10}{count:>7}  {', '.join(imports)}")
    print(f"  {'all':<10}{sum(lines.values()):>7}  {len(graph)} modules")
    print("\nModules and the modules that they import")
    for module in sorted(graph, key=lambda name: (ROOMS.index(room_of(name)), name)):
        print(f"\n  {module.removeprefix('sightline.')}")
        if module != "sightline":
            for target in sorted(graph[module], key=lambda name: (ROOMS.index(room_of(name)), name)):
                print(f"    {target.removeprefix('sightline.')}")
    found = cycles(graph)
    print(f"\nCycles of modules: {len(found)}")
    for component in found:
        print(
            f"  {len(component)} modules: {', '.join(name.removeprefix('sightline.') for name in component)}"
        )
        print(f"    for example {' -> '.join(shortest_cycle(graph, component))}")
    right = rightward(graph)
    print(f"\nImports that point to the right: {len(right)}")
    for module, target in right:
        print(f"  {module} -> {target}")
    return 1 if found or right else 0


if __name__ == "__main__":
    sys.exit(main())
