"""Writing what people will keep: at once or not at all, and never over something that is already there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from sightline.errors import InvalidInput


def check_new(path: Path, *, force: bool) -> None:
    """Refuse a file that exists, or whose folder does not, before anything is computed for it."""
    if path.is_dir():
        raise InvalidInput(f"expected the name of a file, got the directory {str(path)!r}")
    if path.exists() and not force:
        raise InvalidInput(
            f"expected a new file, got {str(path)!r}, which exists; give another name, or --force"
        )
    if not path.parent.is_dir():
        raise InvalidInput(f"expected a place to write {str(path)!r}, got no such directory; make it first")


def write_new(path: Path, content: bytes, *, force: bool) -> None:
    """Write a file; an existing one is only replaced if forced."""
    check_new(path, force=force)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".sightline-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(name).chmod(0o644)
            if force:
                Path(name).replace(path)
            else:
                path.hardlink_to(name)  # fails if the path exists, whoever made it meanwhile
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or "it cannot be written").lower()
        raise InvalidInput(f"expected a place to write {str(path)!r}, got: {reason}") from None
