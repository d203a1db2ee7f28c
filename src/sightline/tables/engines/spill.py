"""A private folder for an engine's temporary files. The next run removes it if this one was killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from pathlib import Path

_PREFIX = "sightline-spill-"


def private_folder() -> Path:
    """Make a folder that only this user can read; first remove folders of processes that have ended."""
    place = Path(tempfile.gettempdir())
    for folder in place.glob(f"{_PREFIX}*"):
        owner = re.match(rf"{_PREFIX}(\d+)-", folder.name)
        with contextlib.suppress(OSError):
            ours = folder.lstat().st_uid == os.getuid() and folder.is_dir() and not folder.is_symlink()
            if owner is not None and ours and not _is_running(int(owner.group(1))):
                remove_folder(folder)
    return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))  # mode 0700


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours, if it still exists."""
    shutil.rmtree(folder, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
