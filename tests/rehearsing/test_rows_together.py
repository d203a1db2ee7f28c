"""Records with several rows are attacked as the audit judges them: by the combination of rows seen best."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow
import pytest

import sightline as sl
from sightline.rehearsing.result import AttackKind, Guess
from sightline.rehearsing.run import rehearse

VARIANCE = 100 / 12
OWNERS = ["A"] * 3 + ["B"] * 2 + ["C"] * 4


def plan(*releases: tuple[str, float], values: list[float] | None = None) -> dict[str, Any]:
    secrets = values or [round(float(one), 3) for one in np.random.default_rng(3).uniform(0, 10, len(OWNERS))]
    columns = {"who": OWNERS, "x": secrets, "g": [f"g{row % 2}" for row in range(len(OWNERS))]}
    data = {"source": pyarrow.table(columns), "record": "who", "secret": "x", "bounds": [0, 10]}
    return {
        "data": data | {"values": "independent", "max_rows_per_record": 4},
        "release": [
            {"name": f"r{place}", "sql": sql, "noise_stddev": noise}
            for place, (sql, noise) in enumerate(releases)
        ],
    }


def together(made: dict[str, Any], **options: Any) -> dict[str, Guess]:
    result = rehearse(made, repetitions=1_000, **options)
    assert not result.surprises
    return {guess.record: guess for guess in result.guesses if guess.attack is AttackKind.TOGETHER}


def test_a_total_that_is_published_is_guessed_although_no_row_is() -> None:
    made = plan(("SELECT who, SUM(x) AS n FROM data GROUP BY who", 0.1))
    guesses, secrets = together(made), made["data"]["source"]["x"].to_pylist()
    assert set(guesses) == {"A", "B", "C"}
    for who, guess in guesses.items():
        own = [x for name, x in zip(OWNERS, secrets, strict=True) if name == who]
        assert guess.what == f"total of {len(own)} rows of x"
        assert guess.truth == pytest.approx(sum(own), rel=1e-12)
        assert abs(guess.guess - sum(own)) < 0.6
        expected = 1 / (1 / (len(own) * VARIANCE) + 1 / 0.1**2)  # of the best linear attack
        assert guess.stated_mse == pytest.approx(expected, rel=1e-9)
        assert guess.mse == pytest.approx(expected, rel=0.2)
    rows = [one for one in rehearse(made, repetitions=100).guesses if one.attack is AttackKind.LINEAR]
    assert min(one.stated_mse or 0.0 for one in rows) > 0.4 * VARIANCE, "a single row stays hidden"


def test_it_is_the_bracket_of_the_audit() -> None:
    made = plan(
        ("SELECT g, SUM(x) AS n FROM data GROUP BY g", 2.0),
        ("SELECT who, SUM(x) AS n FROM data WHERE who <> 'B' GROUP BY who", 3.0),
    )
    audit = sl.audit(made, limit=0.999, names=True)
    shares = {one.record: one.remaining_uncertainty for one in audit.exposed}
    for who, guess in together(made).items():
        share, norm = shares[who], guess.bracket
        assert share is not None
        assert norm is not None
        assert norm[1] / norm[0] == pytest.approx(share.upper / share.lower, rel=1e-6)
        assert guess.stated_mse == pytest.approx(norm[1], rel=1e-6), "the upper end is this attack's"


def test_several_people_alike_are_one_guess_at_one_of_them() -> None:
    made = plan(("SELECT SUM(x) AS n FROM data", 1.0))
    guesses = together(made)
    assert all(guess.alike == 1 for guess in guesses.values()), "they have different numbers of rows"
    assert all(guess.bracket and guess.bracket[0] <= (guess.stated_mse or 0) for guess in guesses.values())
