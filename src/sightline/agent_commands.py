"""``sightline mcp``: a ledger as a server of the Model Context Protocol, for programs that publish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import click

from sightline.errors import MissingExtra

_SHUT = "The owner has to look at this. Nothing more is answered until they start the server again."


# Memory is bounded by addresses: pools that libraries reserve for every core would use them up.
_FRUGAL = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}


class LedgerTools:
    """The calls of one server: each in a process of its own, one by one, none after a last answer."""

    def __init__(  # many parameters: one for each option
        self, folder: Path, *, key: Path | None, may_add: bool, seconds: float, memory: int
    ) -> None:
        self._call = {
            "folder": str(folder.absolute()),
            "key": None if key is None else str(key.absolute()),
            "may_add": may_add,
            "max_memory": memory,
        }
        self._seconds, self._lock, self._shut = seconds, Lock(), False

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer to a call; an error is one line under ``error``."""
        with self._lock:
            if self._shut and tool != "what_has_been_spent":
                return {"answer": "ask the owner", "text": _SHUT}
            answer = self._answered({**self._call, "tool": tool, "arguments": arguments})
            self._shut |= bool(answer.pop("last", False))
            return answer

    def _answered(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            ended = subprocess.run(
                [sys.executable, "-m", "sightline.agent_call"],
                input=json.dumps(call),
                capture_output=True,
                text=True,
                timeout=self._seconds,
                env={**os.environ, **_FRUGAL},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"This takes longer than {self._seconds:g} seconds: ask the owner."}
        if ended.returncode:  # killed, or a defect: its traceback may name a file, and is not passed on
            return {"error": "This could not be answered within the memory of a call: ask the owner."}
        answer: dict[str, Any] = json.loads(ended.stdout)
        return answer


def server(tools: LedgerTools, *, may_add: bool) -> Any:
    """A server with the three tools, and with a fourth that publishes if it may add."""
    try:
        from mcp.server.mcpserver import MCPServer
    except ImportError:
        raise MissingExtra("expected mcp to serve agents, got none; pip install 'sightline[mcp]'") from None
    made = MCPServer(
        "sightline",
        instructions="Ask may_i_publish before any number about this table leaves it. Only yes is a yes.",
        log_level="ERROR",
    )

    @made.tool(structured_output=False)
    def may_i_publish(  # many parameters: one for each that an agent states
        sql: str, noise: float, law: str = "gaussian", times: int = 1, name: str = "", epoch: str = ""
    ) -> str:
        """Say yes, no or ask the owner: may this SELECT over `data` be published, after all that was before?

        noise is the standard deviation of gaussian and discrete-gaussian noise, and the scale of laplace and
        geometric noise, on every number. times is how often it is published. Nothing is added.
        """
        asked = {"sql": sql, "noise": noise, "law": law, "times": times, "name": name, "epoch": epoch}
        return json.dumps(tools.call("may_i_publish", **asked))

    @made.tool(structured_output=False)
    def what_would_reach_the_limit(  # many parameters: one for each that an agent states
        sql: str, noise: float, law: str = "gaussian", times: int = 1, name: str = "", epoch: str = ""
    ) -> str:
        """Say how many more releases like this one fit, or how much more noise this one needs."""
        asked = {"sql": sql, "noise": noise, "law": law, "times": times, "name": name, "epoch": epoch}
        return json.dumps(tools.call("what_would_reach_the_limit", **asked))

    @made.tool(structured_output=False)
    def what_has_been_spent() -> str:
        """Say what all releases so far have cost, and what they leave of the most exposed person."""
        return json.dumps(tools.call("what_has_been_spent"))

    def publish(  # many parameters: one for each that an agent states
        sql: str, noise: float, law: str = "gaussian", times: int = 1, name: str = "", epoch: str = ""
    ) -> str:
        """Add a release to the ledger if the answer is yes; only with an entry may its numbers go out."""
        asked = {"sql": sql, "noise": noise, "law": law, "times": times, "name": name, "epoch": epoch}
        return json.dumps(tools.call("publish", **asked))

    if may_add:
        made.tool(structured_output=False)(publish)
    return made


@click.command(epilog="Example:  sightline mcp releases --max-seconds 30")
@click.argument("folder", type=click.Path(path_type=Path), metavar="LEDGER")
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    envvar="SIGHTLINE_LEDGER_KEY",
    help="The file with the key of the people's hashes, kept elsewhere.  [env var: SIGHTLINE_LEDGER_KEY]",
)
@click.option("--may-add", is_flag=True, help="Also offer a tool that adds a release whose answer is yes.")
@click.option("--max-seconds", default=60.0, show_default=True, help="Of one call.")
@click.option("--max-memory", default=4.0, show_default=True, metavar="GB", help="Of one call.")
def mcp(folder: Path, key: Path | None, may_add: bool, max_seconds: float, max_memory: float) -> None:
    """Serve a ledger to agents over stdio: may I publish this, what was spent, what would reach the limit."""
    from sightline.ledger.book import Ledger

    Ledger.open(folder, key=key)  # a folder that is no ledger is refused before anything is served
    memory = int(max_memory * 2**30)
    tools = LedgerTools(folder, key=key, may_add=may_add, seconds=max_seconds, memory=memory)
    server(tools, may_add=may_add).run("stdio")
