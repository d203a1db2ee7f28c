"""Store finished figures on disk, under a key of their inputs; each file is written whole or not at all."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from pydantic_core import to_jsonable_python

from sightline.errors import InvalidInput
from sightline.report.files import write_new


def file_stem(label: str) -> str:
    """Return the name of a figure's files, without the ending.

    >>> file_stem("fig:app_mle_vs_L"), file_stem("fig:mle: top, analytic")
    ('fig-app_mle_vs_L', 'fig-mle-top-analytic')
    """
    words = "".join(
        letter if letter.isascii() and (letter.isalnum() or letter == "_") else " " for letter in label
    )
    return "-".join(words.split())


def key(label: str, parameters: object) -> str:
    """Hash the inputs of a result: its label, its parameters and the code of the package."""
    text = as_json({"label": label, "parameters": parameters, "code": _code()})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def as_json(value: Any) -> str:
    """Write JSON: equal bytes for equal values, and no NaN or infinity."""
    return json.dumps(to_jsonable_python(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_result(path: Path, *, key: str, result: type[Any]) -> Any | None:
    """Read the result in a figure's file; ``None`` if it was not computed from the inputs of ``key``."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(document, dict) or document.get("key") != key:
        return None
    from pydantic import TypeAdapter

    return TypeAdapter(result).validate_python(document["result"])


def writable_folder(path: Path) -> Path:
    """Make the folder and return it; ``InvalidInput`` if it cannot be written."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=path, prefix=".sightline-"):
            pass
    except OSError as error:
        raise InvalidInput(
            f"expected a folder that can be written, got {str(path)!r} ({error.strerror}); give another with "
            "--out"
        ) from None
    return path


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    write_new(path, text.encode("utf-8"), force=True)


@cache
def _code() -> str:
    """Hash every module and data file of the package."""
    digest = hashlib.sha256()
    for name, content in sorted(_contents(files("sightline"), "")):
        digest.update(name.encode() + b"\0" + content + b"\0")
    return digest.hexdigest()


def _contents(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    contents = []
    for entry in folder.iterdir():
        if entry.is_dir():
            if entry.name != "__pycache__":
                contents += _contents(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith((".py", ".json", ".csv")):
            contents.append((prefix + entry.name, entry.read_bytes()))
    return contents
