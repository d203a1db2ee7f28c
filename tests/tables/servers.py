"""A real Postgres server on loopback, owned by an unprivileged user, and Spark in one process."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PLACES = [Path(place) for place in sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)]


def binaries() -> Path | None:
    """Where Postgres' server programs are, if anywhere."""
    found = shutil.which("initdb")
    return (
        Path(found).parent
        if found
        else next((place for place in PLACES if (place / "initdb").exists()), None)
    )


@contextmanager
def running_postgres(programs: Path) -> Iterator[str]:
    """The address of an empty database, on a free port of the loopback interface."""
    with tempfile.TemporaryDirectory(prefix="sightline-postgres-") as name, socket.socket() as probe:
        folder = Path(name)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        prefix: list[str] = []
        if os.geteuid() == 0:  # initdb refuses to run as root
            owner = next(entry for entry in map(_entry, ("postgres", "nobody")) if entry is not None)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
            prefix = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        data = folder / "data"
        quiet: dict[str, Any] = {
            "check": True,
            "stdout": subprocess.DEVNULL,
            "stderr": subprocess.DEVNULL,
            "cwd": "/",
        }
        # A collation that does not sort by code point, as most databases have.
        locale = ["--locale=C.UTF-8", "--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en"]
        subprocess.run(
            [*prefix, programs / "initdb", "-D", data, "-U", "tester", "--auth=trust", "--no-sync", *locale],
            **quiet,
        )
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories= -c fsync=off"
        server: list[str | Path] = [*prefix, programs / "pg_ctl", "-D", data, "-l", folder / "log"]
        subprocess.run([*server, "-o", options, "-w", "-t", "60", "start"], **quiet)
        try:
            yield f"postgresql://tester@127.0.0.1:{port}/postgres"
        finally:
            subprocess.run([*server, "-m", "immediate", "stop"], **quiet)


def has_java() -> bool:
    """Whether Java is installed, which Spark runs on."""
    return shutil.which("java") is not None or "JAVA_HOME" in os.environ


@contextmanager
def running_spark(warehouse: Path) -> Iterator[Any]:
    """A session with one core, which tries a task four times; stopped afterwards, if it was started here."""
    from pyspark.sql import SparkSession

    # A process has one context: who shares it must not stop it for the tests that started it.
    if (running := SparkSession.getActiveSession()) is not None:
        yield running
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for the workers
    builder: Any = SparkSession.builder.master("local[1,4]").appName("sightline tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        # Tiny tables: compiling and re-planning every query would take longer than running it.
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(warehouse),
    }.items():
        builder = builder.config(name, value)
    interrupted = signal.getsignal(signal.SIGINT)  # which Spark replaces, and does not give back
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        signal.signal(signal.SIGINT, interrupted)


def _entry(name: str) -> Any:
    """The user of that name, or None."""
    import pwd  # which Windows does not have

    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
