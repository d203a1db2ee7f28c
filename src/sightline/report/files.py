"""Write files: each whole or not at all; over an existing file only if asked to, never over an input."""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from sightline.errors import InvalidInput

_NO_HARD_LINKS = (
    errno.EPERM,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
)  # as some file systems of memory sticks report
# Who may read and write a new file: its owner, or whoever the umask lets.
OWNER_MODE = stat.S_IRUSR | stat.S_IWUSR
_BY_UMASK = OWNER_MODE | stat.S_IRGRP | stat.S_IWGRP | stat.S_IROTH | stat.S_IWOTH
begun: list[Path] = []  # the files of this command: what Ctrl-C leaves of each is whole, or as it was


def check_new(path: Path, *, force: bool) -> None:
    """Refuse a file that exists or whose folder does not; call it before computing the content."""
    try:
        if path.is_symlink() and (path.is_file() or not path.exists()):
            raise InvalidInput(
                f"expected a file of its own, got {str(path)!r}, which is a link; name the file itself"
            )
        if path.is_dir():
            raise InvalidInput(f"expected the name of a file, got the directory {str(path)!r}")
        if path.is_file() and not force:
            raise InvalidInput(
                f"expected a new file, got {str(path)!r}, which exists; give another name, or --force"
            )
        if not path.parent.is_dir():
            raise InvalidInput(
                f"expected a place to write {str(path)!r}, got no such directory; make it first"
            )
    except OSError as error:
        raise _unwritable(path, error) from None


def check_apart(paths: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read; call it before the work."""
    existing = [path for path in paths if path.is_file()]
    for path, read in itertools.product(existing, inputs):
        if read.is_file() and path.samefile(read):
            raise InvalidInput(
                f"expected a file that is not read, got {str(path)!r}, which is an input; give another name"
            )


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"expected a folder to write to, got {str(path)!r}: {_reason(error)}") from None


def write_new(path: Path, content: bytes, *, force: bool, owner_only: bool = False) -> None:
    """Write a file; replace an existing one only if forced.

    With ``owner_only`` only the owner of the file can read it (mode 0600); otherwise the umask decides. A
    device or a pipe is written directly.
    """
    check_new(path, force=force)
    begun.append(path)
    try:
        if path.exists() and not path.is_file():
            _write_directly(path, content)
        else:
            # A link that appeared by now is replaced, not followed.
            target = path.parent.resolve() / path.name
            _write_whole(target, content, replace=force, mode=OWNER_MODE if owner_only else _BY_UMASK)
    except OSError as error:
        raise _unwritable(path, error) from None


def _write_directly(path: Path, content: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        remaining = memoryview(content)
        while remaining:
            remaining = remaining[file.write(remaining) or 0 :]


def _write_whole(path: Path, content: bytes, *, replace: bool, mode: int) -> None:
    """Write under another name in the same folder, and rename when all bytes are on disk."""
    draft = path.parent / f".sightline-{secrets.token_hex(8)}"
    try:
        write_flushed(draft, content, mode)
        if replace:
            draft.replace(path)
        else:
            _rename_new(draft, path)
        _flush(path.parent)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def write_flushed(path: Path, content: bytes, mode: int) -> None:
    """Write a file that is new; its bytes are on disk afterwards."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush(folder: Path) -> None:
    """Flush a folder, so that the names of its files survive a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _rename_new(draft: Path, path: Path) -> None:
    """Rename the draft; fail if the path exists by now."""
    try:
        path.hardlink_to(draft)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS or path.exists():
            raise
        draft.replace(path)


def _unwritable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"expected a place to write {str(path)!r}, got: {_reason(error)}")


def _reason(error: OSError) -> str:
    return (error.strerror or "it cannot be written").lower()
