"""Print JSON to standard output, whatever its encoding."""

from __future__ import annotations

import codecs
import sys
from typing import Any

from sightline.format import json_text


def print_json(document: Any) -> None:
    """Print a document; characters outside ASCII are escaped if the output is not in UTF-8."""
    utf8 = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    print(json_text(document, ascii_only=not utf8))
