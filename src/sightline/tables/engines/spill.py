"""A private folder for what an engine writes to disk when memory is short: removed, also after a kill."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

_PREFIX = "sightline-spill-"


def private_folder() -> Path:
    """A new folder that only this user can read; folders of processes that have ended are removed first."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_PREFIX}*"):
        owner = re.match(rf"{_PREFIX}(\d+)-", left.name)
        with contextlib.suppress(OSError):
            mine = left.lstat().st_uid == os.getuid() and left.is_dir() and not left.is_symlink()
            if owner is not None and mine and not _runs(int(owner.group(1))):
                remove_folder(left)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))  # mode 0700


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours; it is no error if it is gone."""
    shutil.rmtree(folder, ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
