"""Agents at a ledger's door: the real client over stdio, answers that depend on no value, bounded calls."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.agent_commands import LedgerTools, server
from sightline.cli import main
from sightline.errors import InvalidInput, MissingExtra
from sightline.format import number
from sightline.ledger.agent_answers import Answer, answered, asked_release, may_publish

GB = 2**30
RUN = "from sightline.cli import run; run()"


def ledger_of(folder: Path, *, values: list[float] | None = None) -> sl.Ledger:
    """Ten homes on two feeders, and a ledger that nothing was added to."""
    loads = values or [400.0 + 97.0 * home for home in range(10)]
    lines = [f"{home},{'ab'[home % 2]},{load}" for home, load in enumerate(loads)]
    (folder / "homes.csv").write_text("\n".join(["home,feeder,watts", *lines]) + "\n")
    secret = 'record = "home", secret = "watts", bounds = [0, 2000], public = ["feeder"]'
    return started(folder, f'source = "homes.csv", {secret}')


def people_of(folder: Path, *, ill: list[bool] | None = None) -> sl.Ledger:
    """Ten people who are ill or not, or others."""
    answers = ill or [person % 3 == 0 for person in range(10)]
    lines = [f"{person},{'ab'[person % 2]},{answer}" for person, answer in enumerate(answers)]
    (folder / "people.csv").write_text("\n".join(["person,ward,ill", *lines]) + "\n")
    secret = 'record = "person", secret = "ill", kind = "boolean", public = ["ward"]'
    return started(folder, f'source = "people.csv", {secret}')


def started(folder: Path, data: str) -> sl.Ledger:
    (folder / "head.toml").write_text(f"data = {{ {data} }}\nlimits = {{ remaining_uncertainty = 0.5 }}\n")
    return sl.Ledger.start(folder / "releases", head=folder / "head.toml", values="one")


def total(noise: float, where: str = "") -> dict[str, Any]:
    return {"sql": f"SELECT SUM(watts) FROM data{where}", "noise": noise}


def one_person(noise: float) -> dict[str, Any]:
    """A count of one person, who is ill or not."""
    return {"sql": "SELECT COUNT(*) FILTER (WHERE ill) FROM data WHERE person = 3", "noise": noise}


def ill(about: int) -> dict[str, Any]:
    """Nine blunt counts, and a tenth that is sharper."""
    return one_person(math.sqrt(1 / 1.5 if about == 9 else 9 / 2.5))


def asked(ledger: sl.Ledger, **release: Any) -> dict[str, Any]:
    return answered(ledger, "may_i_publish", **release)


def publish(ledger: sl.Ledger, **release: Any) -> dict[str, Any]:
    return answered(ledger, "publish", may_add=True, **release)


@pytest.fixture
def homes(tmp_path: Path) -> sl.Ledger:
    return ledger_of(tmp_path)


@pytest.fixture
def ledger(tmp_path: Path) -> sl.Ledger:
    return people_of(tmp_path)


# ------------------------------------------------------------------ the answers


@pytest.mark.slow
def test_each_is_harmless_alone_and_the_tenth_is_refused(ledger: sl.Ledger) -> None:
    """Nine counts move a person by S = 2.5 in all, and one more by 1.5.

    The noise alone leaves exp(-S/4), at least a half up to S = 4 ln 2 = 2.77. With S = 4 an even yes or no
    keeps 45 %, by quadrature.
    """
    queries = [ill(about) for about in range(10)]
    assert {asked(ledger, **query)["answer"] for query in queries} == {"yes"}
    answers = [publish(ledger, **query) for query in queries]
    assert [one["answer"] for one in answers] == ["yes"] * 9 + ["no"]
    assert [one["entry"] for one in answers] == [*range(1, 10), None]
    y = np.linspace(-12, 14, 100_001)
    yes, no = (np.exp(-np.square(y - at) / 2) / math.sqrt(2 * math.pi) for at in (2.0, 0.0))
    left = np.sum(2 * yes * no / (yes + no)) * (y[1] - y[0])
    kept = ledger.check(asked_release(**queries[9])).after.least
    assert kept is not None
    assert left == pytest.approx(0.4496, abs=1e-4)
    assert kept.lower - 1e-3 <= left <= kept.upper + 1e-3


def test_what_the_noise_does_not_guarantee_is_for_the_owner(ledger: sl.Ledger) -> None:
    """S just above 4 ln 2, where half of an even yes or no is still left."""
    sharp, blunt = (math.sqrt(1 / (factor * 4 * math.log(2))) for factor in (1.01, 0.99))
    assert asked(ledger, **one_person(sharp))["answer"] == "ask the owner"
    assert asked(ledger, **one_person(blunt))["answer"] == "yes"


def test_a_repeated_difference_is_no(homes: sl.Ledger) -> None:
    assert publish(homes, **total(12_000.0))["answer"] == "yes"
    answer = asked(homes, **total(300.0, " WHERE home = 3"))
    assert answer["answer"] == "no"
    assert "Somebody may be below the limit of 50 %." in answer["text"]


def test_the_change_that_is_named_is_a_yes(homes: sl.Ledger) -> None:
    text = answered(homes, "what_would_reach_the_limit", **total(300.0, " WHERE home = 3"))["text"]
    factor = float(text.removeprefix("With ").split(" times")[0].replace(",", ""))
    assert asked(homes, **total(300.0 * factor, " WHERE home = 3"))["answer"] == "yes"
    assert asked(homes, **total(300.0 * factor * 0.97, " WHERE home = 3"))["answer"] != "yes"


def test_as_many_more_fit_as_it_says(homes: sl.Ledger) -> None:
    query = total(5_900.0)
    text = answered(homes, "what_would_reach_the_limit", **query)["text"]
    more = int(text.split(" more ")[0])
    assert asked(homes, **query, times=1 + more)["answer"] == "yes"
    assert asked(homes, **query, times=2 + more)["answer"] != "yes"


def test_what_was_spent(homes: sl.Ledger) -> None:
    assert answered(homes, "what_has_been_spent") == {"text": "Nothing has been published."}
    publish(homes, **total(12_000.0))
    text = answered(homes, "what_has_been_spent")["text"]
    assert text.startswith("1 release so far: ")
    assert " is left of the uncertainty about the most exposed person" in text
    epsilon = min(homes.check({"name": "n", **_noisy(1e9)}).before.epsilon.values())
    whom = "for the kinds of people in this table, and no others"
    assert text.endswith(f"epsilon = {number(epsilon, 3)} {whom}.")


def _noisy(noise: float) -> dict[str, Any]:
    return {"sql": "SELECT SUM(watts) FROM data", "noise_stddev": noise}


@pytest.mark.slow
@pytest.mark.parametrize("where", ["", " WHERE home = 3", " WHERE feeder = 'a'"])
@pytest.mark.parametrize("noise", [10.0, 1_500.0, 20_000.0])
def test_no_answer_depends_on_a_value(where: str, noise: float, tmp_path: Path) -> None:
    """Tables with the same people and other values, all alike or far apart, get the same words."""
    tables = ([0.0] * 10, [2000.0] * 10, [0.0, 2000.0] * 5, [3.0 * home for home in range(10)])
    said = set()
    for place, values in enumerate(tables):
        (tmp_path / str(place)).mkdir()
        own = ledger_of(tmp_path / str(place), values=list(values))
        for tool in ("may_i_publish", "what_would_reach_the_limit"):
            said.add((tool, json.dumps(answered(own, tool, **total(noise, where)))))
    assert len(said) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, ill, COUNT(*) FROM data GROUP BY ward, ill",
        "SELECT ward, AVG(CAST(ill AS INT)) FROM data GROUP BY ward",
        "SELECT ward, COUNT(*) FILTER (WHERE ill) FROM data GROUP BY ward HAVING COUNT(*) >= 5",
    ],
)
@pytest.mark.parametrize("noise", [0.5, 30.0])
def test_what_depends_on_values_is_said_once(sql: str, noise: float, tmp_path: Path) -> None:
    """Groups without one of the answers, wards as good as the answer: only last answers differ."""
    tables = ([person < 10 for person in range(20)], [True] * 20, [person % 2 == 0 for person in range(20)])
    said = set()
    for place, answers in enumerate(tables):
        (tmp_path / str(place)).mkdir()
        answer = asked(people_of(tmp_path / str(place), ill=answers), sql=sql, noise=noise)
        said |= set() if answer["last"] else {json.dumps(answer)}
    assert len(said) == 1


@pytest.mark.slow
def test_an_answer_that_depends_on_values_is_the_last(tmp_path: Path) -> None:
    ledger_of(tmp_path, values=[9_999.0, *[100.0] * 9])  # outside the bounds
    tools = LedgerTools(tmp_path / "releases", key=None, may_add=False, seconds=60, memory=4 * GB)
    first = tools.call("may_i_publish", **total(20_000.0))
    assert first["answer"] == "ask the owner"
    assert first == tools.call("may_i_publish", **total(20_000.0, " WHERE home > 0"))
    assert tools.call("what_has_been_spent") == {"text": "Nothing has been published."}


def test_without_a_limit_and_of_powers_the_owner_decides(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    power = ledger.check(asked_release(sql="SELECT AVG(watts * watts) FROM data", noise=1e9))
    assert may_publish(power).answer is Answer.OWNER


def test_nobody_is_named(homes: sl.Ledger) -> None:
    answer = asked(homes, **total(300.0, " WHERE home = 3"))
    assert set(answer) == {"answer", "text", "last"}
    owner = homes.check(asked_release(**total(300.0, " WHERE home = 3")))
    assert owner.newly_below[0].record == "3"
    assert "3 " not in answer["text"].replace("0.3 ", "").split("With it")[0]


# ------------------------------------------------------------------ what may be asked


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"sql": "queries/total.sql"}, "a query as text"),
        ({"sql": "SELECT 1 " + " " * 30_000}, "a query as text"),
        ({"law": "none"}, "a law of noise"),
        ({"law": "cell-key"}, "a law of noise"),
        ({"noise": 0.0}, "noise above 0"),
        ({"noise": float("nan")}, "noise above 0"),
        ({"name": "n" * 81}, "a name of at most 80"),
    ],
)
def test_other_questions_are_refused(changed: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidInput, match=expected):
        asked_release(**{**total(10.0), **changed})


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM 'head.toml'",
        "SELECT COUNT(*) FROM read_csv('homes.csv')",
        "SELECT COUNT(*) FROM read_text('releases/head.toml')",
        "COPY data TO 'stolen.csv'",
        "SELECT SUM(watts) FROM data; DROP TABLE data",
    ],
)
def test_no_other_file_is_read_or_written(
    sql: str, tmp_path: Path, homes: sl.Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(sl.SightlineError):
        asked(homes, sql=sql, noise=1e6)
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_nothing_is_added_unless_it_may_be(homes: sl.Ledger) -> None:
    entries = len(homes.log())
    asked(homes, **total(20_000.0))
    with pytest.raises(InvalidInput, match="a tool of this server, got 'publish'"):
        answered(homes, "publish", **total(20_000.0))
    assert len(homes.log()) == entries


def test_a_folder_that_is_no_ledger_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", str(tmp_path)]) in {1, 3}
    assert capsys.readouterr().err.count("\n") == 1


def test_without_the_extra_the_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    tools = LedgerTools(tmp_path, key=None, may_add=False, seconds=1, memory=GB)
    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[mcp\]'"):
        server(tools, may_add=False)


# ------------------------------------------------------------------ calls are bounded


@pytest.mark.slow
def test_a_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    ledger_of(tmp_path)
    tools = LedgerTools(tmp_path / "releases", key=None, may_add=False, seconds=0.01, memory=4 * GB)
    assert tools.call("what_has_been_spent") == {
        "error": "This takes longer than 0.01 seconds: ask the owner."
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="memory is not bounded there")
def test_a_call_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    ledger_of(tmp_path)
    tools = LedgerTools(tmp_path / "releases", key=None, may_add=False, seconds=60, memory=64 * 2**20)
    assert "memory" in tools.call("may_i_publish", **total(20_000.0))["error"]


@pytest.mark.slow
def test_a_damaged_ledger_is_one_line(tmp_path: Path) -> None:
    ledger = ledger_of(tmp_path)
    publish(ledger, **total(20_000.0))
    entry = next((tmp_path / "releases").glob("*1.json"))
    entry.write_bytes(entry.read_bytes() + b" ")
    tools = LedgerTools(tmp_path / "releases", key=None, may_add=False, seconds=60, memory=4 * GB)
    assert "error" in tools.call("what_has_been_spent")


# ------------------------------------------------------------------ the real client


@pytest.mark.thorough
def test_the_real_client_over_stdio(tmp_path: Path) -> None:
    """Ten counts, each harmless alone: nine are added, the tenth is refused."""
    pytest.importorskip("mcp")
    import anyio
    from mcp import Client, StdioServerParameters

    ledger = people_of(tmp_path)
    command = StdioServerParameters(
        command=sys.executable,
        args=["-c", RUN, "mcp", str(tmp_path / "releases"), "--may-add"],
    )

    async def session() -> list[dict[str, Any]]:
        answers = []
        async with Client(command) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"may_i_publish", "what_would_reach_the_limit", "what_has_been_spent", "publish"}
            for about in range(10):
                query = ill(about)
                if about in (0, 9):
                    alone = await client.call_tool("may_i_publish", query)
                    answers.append(json.loads(alone.content[0].text))
                answer = await client.call_tool("publish", query)
                answers.append(json.loads(answer.content[0].text))
            spent = await client.call_tool("what_has_been_spent", {})
            answers.append(json.loads(spent.content[0].text))
        return answers

    first, *published, asked_last, last, spent = anyio.run(session)
    assert first["answer"] == "yes"
    assert [one["answer"] for one in published] == ["yes"] * 9
    assert asked_last["answer"] == "no"
    assert (last["answer"], last["entry"]) == ("no", None)
    assert spent["text"].startswith("9 releases so far:")
    assert len(ledger.log()) == 10
