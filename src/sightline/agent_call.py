"""One call of an agent's tool, in a process of its own: its time and memory end with it.

``python -m sightline.agent_call`` reads the call as JSON from its input and prints the answer as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def bound_memory(size: int) -> None:
    """No more than so many bytes for this process, where the system can say so."""
    try:
        import resource
    except ImportError:  # pragma: no cover - on Windows time alone is bounded
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))


def answer(call: dict[str, Any]) -> dict[str, Any]:
    """The answer to a call, or an error in one line."""
    from sightline.errors import DamagedLedger, SightlineError
    from sightline.ledger.agent_answers import answered
    from sightline.ledger.book import Ledger

    try:
        ledger = Ledger.open(call["folder"], key=call["key"])
        return answered(ledger, call["tool"], may_add=call["may_add"], **call["arguments"])
    except DamagedLedger:
        return {"error": "The ledger is damaged: ask its owner."}
    except SightlineError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "This takes more memory than a call may have: ask the owner."}


def main() -> None:
    """Read a call, answer it."""
    call = json.load(sys.stdin)
    bound_memory(call["max_memory"])
    print(json.dumps(answer(call)))


if __name__ == "__main__":
    main()
