"""Plans that publish the least-squares fit: the audit stays that of the noisy numbers, the tables add up.

The second computation has a column for every person, made in Python from the rows of the table.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sightline as sl
from sightline.arrays import FloatArray
from sightline.cli import main
from sightline.errors import InvalidInput, InvalidPlan, SightlineError
from sightline.jobs.fit import fit, fit_task, fitted_tables, noisy_file

PEOPLE = 60
CATEGORIES = ["a", "b", "c"]


def table(folder: Path, *, secrets: int = 0, name: str = "t.csv", **changes: Any) -> list[dict[str, Any]]:
    """People with public columns; their secrets are drawn by another seed."""
    public, secret = np.random.default_rng(1), np.random.default_rng(100 + secrets)
    rows = [
        {
            "id": place,
            "region": "nsew"[public.integers(4)],
            "age": int(public.integers(20, 24)),
            "pay": int(secret.integers(0, 101)),
            "ill": bool(secret.integers(2)),
            "state": CATEGORIES[secret.integers(3)],
            **changes.get(str(place), {}),
        }
        for place in range(PEOPLE)
    ]
    with (folder / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return rows


def plan(
    folder: Path, secret: str = "pay", publish: dict[str, bool] | None = None, **changes: Any
) -> dict[str, Any]:
    domain = {
        "pay": {"bounds": [0, 100]},
        "ill": {"kind": "boolean"},
        "state": {"categories": CATEGORIES},
    }[secret]
    select = {"pay": "SUM(pay)", "ill": "COUNT(*) FILTER (WHERE ill)", "state": "state, COUNT(*)"}[secret]
    extra = ", state" if secret == "state" else ""
    last = {"pay": "AVG(pay)", "ill": "COUNT(*) FILTER (WHERE NOT ill)", "state": "state, COUNT(*)"}[secret]
    return {
        "data": {
            "source": str(folder / "t.csv"),
            "record": "id",
            "secret": secret,
            "public": ["region", "age"],
            **domain,
        },
        "publish": {"consistent": True} if publish is None else publish,
        "release": [
            {
                "name": "cells",
                "sql": f"SELECT region, age, {select} FROM data GROUP BY region, age{extra}",
                "noise_stddev": 30.0,
            },
            {
                "name": "By region!",
                "sql": f"SELECT region, {select} FROM data GROUP BY region{extra}",
                "noise_stddev": 20.0,
                "times": 3,
            },
            {
                "name": "by age",
                "sql": f"SELECT age, {last} FROM data GROUP BY age{extra}",
                "noise_stddev": 2.0,
            },
        ],
        **changes,
    }


def truth(
    rows: list[dict[str, Any]], secret: str, name: tuple[str, ...], column: str
) -> tuple[FloatArray, float, float]:
    """One number as weights on each person's values, an offset, and what it is divided by."""
    release, label, *key = name
    groups = {"cells": ("region", "age"), "By region!": ("region",), "by age": ("age",)}[release]
    inside = np.array(
        [[str(row[group]) for group in groups] == key[: len(groups)] for row in rows], dtype=float
    )
    if secret == "state":
        chosen = key[-1] if len(key) > len(groups) else label.split(" ")[-1]
        return np.kron(inside, np.array([one == chosen for one in CATEGORIES], dtype=float)), 0.0, 1.0
    if release == "by age":
        return (inside, 0.0, float(inside.sum())) if secret == "pay" else (-inside, float(inside.sum()), 1.0)
    return inside, 0.0, 1.0


@pytest.mark.parametrize("secret", ["pay", "ill", "state"])
def test_the_fit_is_that_of_a_column_for_every_person(secret: str, tmp_path: Path) -> None:
    rows = table(tmp_path)
    task = fit_task(plan(tmp_path, secret))
    weights = [truth(rows, secret, name, secret) for name in task.names()]
    A = np.array([line / size for line, _, size in weights])
    offset = np.array([extra for _, extra, _ in weights])
    stddev = np.array(
        [{"cells": 30.0, "By region!": 20.0 / math.sqrt(3), "by age": 2.0}[one[0]] for one in task.names()]
    )
    noisy = np.random.default_rng(7).normal(40, 30, len(A))
    made = fitted_tables(task, noisy, covariance=True)
    if secret == "state":  # every person has one state: the last follows
        last = A[:, 2::3]
        offset, A = (
            last.sum(axis=1),
            np.stack([A[:, 0::3] - last, A[:, 1::3] - last], axis=2).reshape(len(A), -1),
        )
    white = A / stddev[:, None]
    solved = np.linalg.lstsq(white, (noisy - offset) / stddev, rcond=1e-10)[0]
    np.testing.assert_allclose(made.values, A @ solved + offset, rtol=1e-9, atol=1e-9)
    covariance = A @ np.linalg.pinv(white.T @ white, rcond=1e-10) @ A.T
    np.testing.assert_allclose(made.covariance, covariance, atol=1e-8)
    np.testing.assert_allclose(made.stddevs, np.sqrt(np.diagonal(covariance)), atol=1e-8)
    assert made.conditions == len(A) - np.linalg.matrix_rank(A)
    left = (noisy - A @ solved - offset) / stddev
    assert made.misfit == pytest.approx(left @ left)


@pytest.mark.parametrize("secret", ["pay", "ill", "state"])
@pytest.mark.parametrize(
    "publish", [{"non_negative": True}, {"whole": True}, {"non_negative": True, "whole": True}]
)
def test_numbers_that_are_not_negative_or_whole_still_add_up(
    secret: str, publish: dict[str, bool], tmp_path: Path
) -> None:
    table(tmp_path)
    content = plan(tmp_path, secret, {"consistent": True, **publish})
    if "whole" in publish:
        content["release"] = content["release"][:2]  # no mean
    task = fit_task(content)
    noisy = np.random.default_rng(7).normal(3, 30, len(task.names()))
    values = dict(zip(task.names(), fitted_tables(task, noisy).values.tolist(), strict=True))
    assert not publish.get("whole") or all(value == int(value) for value in values.values())
    assert not publish.get("non_negative") or min(values.values()) >= 0
    for name, value in values.items():
        if name[0] == "By region!":
            inside = [
                v
                for n, v in values.items()
                if n[0] == "cells" and n[2] == name[2] and n[1][-1:] == name[1][-1:]
            ]
            assert sum(inside) == pytest.approx(value, abs=1e-6)
    if secret == "state":  # sizes of groups are public, and kept
        everybody = sum(value for name, value in values.items() if name[0] == "By region!")
        assert everybody == pytest.approx(PEOPLE, abs=1e-6)


def test_the_audit_is_that_of_the_noisy_numbers_and_says_the_error_of_the_fit(tmp_path: Path) -> None:
    table(tmp_path)
    raw, fitted = (sl.audit(plan(tmp_path, publish={"consistent": yes}), limit=0.2) for yes in (False, True))
    for section in ("verdict", "exposed", "least_remaining_uncertainty", "budget"):
        assert getattr(raw, section) == getattr(fitted, section)
    assert raw.releases[0].largest_fit_stddev is None
    task = fit_task(plan(tmp_path))
    stddevs = fitted_tables(task, np.zeros(len(task.names()))).stddevs
    own = stddevs[[name[0] == "cells" for name in task.names()]]
    report = fitted.releases[0]
    assert (report.smallest_fit_stddev, report.largest_fit_stddev) == pytest.approx(
        (own.min(), own.max()), rel=1e-12
    )
    assert report.largest_fit_stddev is not None
    assert report.largest_fit_stddev < 30


def filled(task: Any, values: FloatArray) -> str:
    lines = list(csv.reader(io.StringIO(noisy_file(task).decode())))
    body = [[*line[:-1], repr(float(value))] for line, value in zip(lines[1:], values, strict=True)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows([lines[0], *body])
    return text.getvalue()


def written_plan(folder: Path, text: str = "") -> Path:
    path = folder / "plan.toml"
    path.write_text(
        '[data]\nsource = "t.csv"\nrecord = "id"\nsecret = "pay"\nbounds = [0, 100]\n'
        'public = ["region", "age"]\n[publish]\nconsistent = true\n'
        '[[release]]\nname = "cells"\nsql = "SELECT region, age, SUM(pay) FROM data GROUP BY region, age"\n'
        'noise_stddev = 30\n[[release]]\nname = "By region!"\n'
        f'sql = "SELECT region, SUM(pay) FROM data GROUP BY region"\nnoise_stddev = 20\ntimes = 2\n{text}'
    )
    return path


def test_the_command_makes_tables_from_the_file_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other secrets in the table, the same groups: not a byte of the tables changes."""
    table(tmp_path)
    path = written_plan(tmp_path)
    assert main(["fit", str(path), "--template", str(tmp_path / "noisy.csv")]) == 0
    task = fit_task(path)
    count = int(task.copies.sum())
    noisy = tmp_path / "noisy.csv"
    noisy.write_text(filled(task, np.random.default_rng(3).normal(500, 30, count)))
    made = []
    for seed in (0, 1):
        table(tmp_path, secrets=seed)
        assert (
            main(["fit", str(path), str(noisy), "--out", str(tmp_path / f"tables{seed}"), "--covariance"])
            == 0
        )
        made.append({file.name: file.read_bytes() for file in sorted((tmp_path / f"tables{seed}").iterdir())})
    assert made[0] == made[1]
    assert sorted(made[0]) == ["by-region.csv", "cells.csv", "covariance.csv"]
    printed = capsys.readouterr().out
    assert "of which 4 follow from the others" in printed
    assert "Error of a typical number: from ± 30" in printed
    assert "contradict each other" in printed  # 500 for every number, of sums and of totals
    cells = list(csv.DictReader(io.StringIO(made[0]["cells.csv"].decode())))
    regions = list(csv.DictReader(io.StringIO(made[0]["by-region.csv"].decode())))
    for region in regions:
        own = sum(float(cell["value"]) for cell in cells if cell["region"] == region["region"])
        assert own == pytest.approx(float(region["value"]), rel=1e-12)
    covariance = list(csv.reader(io.StringIO(made[0]["covariance.csv"].decode())))
    assert len(covariance) == 1 + len(task.names())
    place = covariance[0].index("By region!: n")
    stddev = next(float(region["stddev"]) for region in regions if region["region"] == "n")
    assert float(covariance[place][place]) == pytest.approx(stddev**2, rel=1e-12)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (lambda lines: lines[:-1], "1 missing, the first in release 'By region!'"),
        (lambda lines: [*lines, lines[-1]], "line 26: every number once, got one that an earlier line has"),
        (
            lambda lines: [*lines, lines[-1].replace("By region!", "By town")],
            "a release, label or group that it has not",
        ),
        (
            lambda lines: [*lines[:-1], lines[-1].replace(",w,", ",q,")],
            "a release, label or group that it has not",
        ),
        (
            lambda lines: [*lines[:-1], ",".join([*lines[-1].split(",")[:-1], "nan"])],
            "a finite number, got something else",
        ),
        (
            lambda lines: [*lines[:-1], ",".join([*lines[-1].split(",")[:-1], ""])],
            "a finite number, got nothing",
        ),
        (lambda lines: [*lines[:-1], "0" * 16 + lines[-1][16:]], "got those of another"),
        (lambda lines: [*lines[:-1], lines[-1] + ",1"], "8 fields, got 9"),
        (
            lambda lines: [*lines[:-1], lines[-1].replace(",2,20.0,", ",3,20.0,")],
            "a copy from 1 to 2, got another",
        ),
        (lambda lines: [lines[0].replace("value", "number"), *lines[1:]], "a header without value"),
        (lambda lines: [], "an empty file"),
    ],
)
def test_a_file_that_is_not_of_this_plan_is_one_line_and_writes_nothing(
    broken: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    path = written_plan(tmp_path)
    task = fit_task(path)
    lines = filled(task, np.zeros(int(task.copies.sum()))).splitlines()
    (tmp_path / "noisy.csv").write_text("\n".join(broken(lines)) + "\n")
    assert main(["fit", str(path), str(tmp_path / "noisy.csv"), "--out", str(tmp_path / "tables")]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "tables").exists()


def test_the_digest_changes_with_the_noise_and_with_groups_and_not_with_secrets_or_limits(
    tmp_path: Path,
) -> None:
    table(tmp_path)
    digest = fit_task(plan(tmp_path)).digest
    table(tmp_path, secrets=5)
    assert fit_task(plan(tmp_path, limits={"remaining_uncertainty": 0.1})).digest == digest
    other = plan(tmp_path)
    other["release"][0]["noise_stddev"] = 31.0
    assert fit_task(other).digest != digest
    table(tmp_path, **{"3": {"age": 23}, "4": {"age": 20}})
    assert fit_task(plan(tmp_path)).digest != digest


def test_files_that_exist_stay_and_the_input_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(tmp_path)
    path = written_plan(tmp_path)
    task = fit_task(path)
    noisy = tmp_path / "cells.csv"
    noisy.write_text(filled(task, np.zeros(int(task.copies.sum()))))
    before = noisy.read_bytes()
    assert main(["fit", str(path), str(noisy), "--out", str(tmp_path), "--force"]) == 1
    assert "which is an input" in capsys.readouterr().err
    assert noisy.read_bytes() == before
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "by-region.csv").write_text("mine")
    assert main(["fit", str(path), str(noisy), "--out", str(tmp_path / "tables")]) == 1
    assert [file.name for file in (tmp_path / "tables").iterdir()] == ["by-region.csv"]
    assert main(["fit", str(path), str(noisy)]) == 1
    assert main(["fit", str(path), str(noisy), "--template", str(tmp_path / "new.csv")]) == 1


def changed(content: dict[str, Any], release: dict[str, Any], **data: Any) -> dict[str, Any]:
    first = {
        key: value
        for key, value in content["release"][0].items()
        if key != "noise_stddev" or "noise" not in release
    }
    return {
        **content,
        "data": {**content["data"], **data},
        "release": [{**first, **release}, *content["release"][1:]],
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: {**one, "publish": {"whole": True}}, "with consistent = true, got consistent = false"),
        (
            lambda one: {
                **one,
                "publish": {"consistent": True, "non_negative": True},
                "data": {**one["data"], "bounds": [-1, 100]},
            },
            "never negative, got bounds from -1",
        ),
        (lambda one: changed(one, {"noise": {"law": "none"}}), "numbers without noise in release 'cells'"),
        (
            lambda one: changed(one, {"sql": "SELECT SUM(pay) / 4 FROM data"}),
            "computed with one in release 'cells'",
        ),
        (
            lambda one: {**one, "publish": {"consistent": True, "whole": True}},
            "got a mean in release 'by age'",
        ),
        (lambda one: {**one, "publish": {}}, "consistent = true, got none"),
        (lambda one: {**one, "secret": [{"column": "ill", "kind": "boolean"}]}, "for a fit, got several"),
    ],
)
def test_a_plan_whose_fit_cannot_be_published_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    table(tmp_path)
    with pytest.raises(InvalidPlan, match=message):
        fit_task(change(plan(tmp_path)))


def test_rows_without_a_secret_and_presence_without_a_frame_would_tell_who_has_one(tmp_path: Path) -> None:
    table(tmp_path, **{"3": {"pay": ""}})
    for door in (fit_task, sl.audit):
        with pytest.raises(InvalidPlan, match="got 1 rows without; a fit uses"):
            door(plan(tmp_path))
    assert len(fit_task(plan(tmp_path, limits={"accept": ["dropped"]})).names()) == 24
    content = plan(
        tmp_path,
        release=[
            {"name": "n", "sql": "SELECT region, COUNT(*) FROM data GROUP BY region", "noise_stddev": 3.0}
        ],
    )
    content["data"] = {"source": str(tmp_path / "t.csv"), "record": "id", "secret": "presence"}
    for door in (fit_task, sl.audit):
        with pytest.raises(InvalidPlan, match="would tell who is in the table"):
            door(content)
    table(tmp_path)
    rows = table(tmp_path, name="frame.csv")
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows[::2])
    content["data"]["frame"] = str(tmp_path / "frame.csv")
    once = fit_task(content)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows[1::2])  # others are in the table: the fit is the same
    assert fit_task(content).digest == once.digest


def test_numbers_that_share_noise_are_refused(tmp_path: Path) -> None:
    table(tmp_path)
    running = {"over": "age", "from": 20, "to": 23}
    release = {
        "name": "r",
        "sql": "SELECT age, SUM(pay) FROM data GROUP BY age",
        "running": running,
        "noise": {"mechanism": "tree", "stddev": 9.0},
    }
    with pytest.raises(InvalidPlan, match="running sums or a mechanism in release 'r'"):
        fit_task(plan(tmp_path, release=[release]))


def test_a_covariance_of_too_many_numbers_is_refused_before_anything_is_fitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table(tmp_path)
    path = written_plan(tmp_path)
    task = fit_task(path)
    (tmp_path / "noisy.csv").write_text(filled(task, np.zeros(int(task.copies.sum()))))
    monkeypatch.setattr("sightline.jobs.fit._MOST_COVARIANCES", 3)
    with pytest.raises(InvalidInput, match="a covariance of at most 3 numbers, got 20"):
        fit(path, tmp_path / "noisy.csv", covariance=True)


def test_errors_of_the_noise_are_those_of_draws(tmp_path: Path) -> None:
    """Noise drawn 2,000 times: each number's squared error is its stated variance, but for chance."""
    rows = table(tmp_path)
    task = fit_task(plan(tmp_path))
    exact = np.array(
        [
            line @ np.array([row["pay"] for row in rows]) / size
            for line, _, size in (truth(rows, "pay", one, "") for one in task.names())
        ]
    )
    generator, draws = np.random.default_rng(11), 2000
    noise = generator.standard_normal((draws, exact.size)) * np.sqrt(task.fit.variances)
    errors = np.array([task.fit.fitted(exact + one) - exact for one in noise])
    ratio = np.mean(errors**2, axis=0) / fitted_tables(task, exact).stddevs ** 2
    assert np.all(np.abs(ratio - 1) < 5 * math.sqrt(2 / draws))
    assert np.allclose(task.fit.fitted(exact), exact, rtol=1e-12)


def test_a_mistake_is_never_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(SightlineError):
        fit(tmp_path / "none.toml", tmp_path / "none.csv")
