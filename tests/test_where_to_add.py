"""The rows of *To add one thing, touch these files* in CONTRIBUTING.md, each tried with a dummy.

A copy of the source gets one dummy of each kind, in the files that its row names and in no other: a place
that the row forgets fails here. A process of its own then looks whether every dummy does its work.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sightline

ROOT = Path(__file__).parents[1]
SOURCE = Path(sightline.__file__).parent
Edits = dict[str, str | tuple[tuple[str, str], ...]]  # a new file; or texts that occur once, and other ones

# By row of the table, and by file.
DUMMIES: dict[str, Edits] = {
    "an accountant": {
        "privacy/NEW.py": """
from dataclasses import dataclass

from sightline.privacy.concentrated import ZeroConcentrated


@dataclass(frozen=True)
class TwiceTheVariance(ZeroConcentrated):
    def _kappa_of_counts(self, counts):
        return 2 * ZeroConcentrated._kappa_of_counts(self, counts)
""",
        "privacy/registry.py": (
            ("\nACCOUNTANTS:", "\nfrom sightline.privacy.NEW import TwiceTheVariance\n\nACCOUNTANTS:"),
            (
                "OptimalComposition, law=Law.LAPLACE),\n",
                "OptimalComposition, law=Law.LAPLACE),\n"
                '        "dummy": AccountantEntry(build=TwiceTheVariance),\n',
            ),
        ),
    },
    "a SQL form": {
        "tables/sql/aggregates.py": (("exp.Max, exp.Median,", "exp.Max, exp.Median, exp.Variance,"),),
    },
    "an engine": {
        "tables/engines/NEW.py": """
from sightline.tables.engines.duckdb_engine import DuckDBEngine


def engine(source, **settings):
    return DuckDBEngine(source.removeprefix("dummy://"), **settings)
""",
        "tables/engines/open.py": (
            (
                "        case scheme if scheme in POSTGRES_SCHEMES:",
                "        case 'dummy':\n"
                "            from sightline.tables.engines.NEW import engine\n\n"
                "            return engine(source, tables=tables, base=base, memory=memory)\n"
                "        case scheme if scheme in POSTGRES_SCHEMES:",
            ),
        ),
        "tables/engines/address.py": (
            ("if scheme not in (*POSTGRES_SCHEMES,", "if scheme not in ('dummy', *POSTGRES_SCHEMES,"),
        ),
    },
    "a prior": {
        "bounds/priors.py": (
            (
                "@dataclass(frozen=True, slots=True)\nclass CosineSquaredPrior",
                "class DummyPrior(UniformPrior):\n"
                "    name = property(lambda self: 'dummy')\n"
                "    spread = property(lambda self: 'dummy')\n\n\n"
                "@dataclass(frozen=True, slots=True)\nclass CosineSquaredPrior",
            ),
            ('{"uniform": UniformPrior,', '{"dummy": DummyPrior, "uniform": UniformPrior,'),
        ),
        "report/beliefs.py": (("\nSPREADS = {\n", "\nSPREADS = {\n    'dummy': 'like a dummy',\n"),),
        "report/page.py": (("\n_PRIORS = {\n", "\n_PRIORS = {\n    'dummy': 'believes a dummy',\n"),),
    },
    "a lower bound": {
        "bounds/assessment.py": (
            ("    INTERVALS = 9 ", "    DUMMY = 10  # nothing is lost\n    INTERVALS = 9 "),
            (
                "    found = of_few_values(found, limit=asked.limit, least=asked.least)\n",
                "    from sightline.bounds.NEW import at_least\n\n"
                "    found = found.raised(at_least(found.lower, found.upper), Bound.DUMMY)\n"
                "    found = of_few_values(found, limit=asked.limit, least=asked.least)\n",
            ),
        ),
        "report/terminal.py": (
            ('    "hidden": ', "    'dummy': 'because nothing is lost',\n    \"hidden\": "),
        ),
        "bounds/NEW.py": """
import numpy as np


def at_least(lower, upper):
    return np.maximum(lower, 0.999 * upper)
""",
    },
    "a kind of unit": {
        "auditing/beliefs.py": (
            (
                "        return (APART, LEVEL, *(",
                "        return (APART, LEVEL, Belief(name='dummy', block='dummy'), *(",
            ),
        ),
        "auditing/table_units.py": (
            (
                "    known = membership.once(ColumnsOnce).kinds\n",
                "    blocks = np.arange(column.size) % 2 if shared == 'dummy' else blocks\n"
                "    known = membership.once(ColumnsOnce).kinds\n",
            ),
            (
                "    blocks = membership.blocks[shared] if shared",
                "    blocks = membership.blocks.get(shared, np.zeros(0)) if shared",
            ),
        ),
        "auditing/result.py": (('    name: Literal["apart", ', '    name: Literal["dummy", "apart", '),),
        "report/wording.py": (
            (
                '        "level": "are alike",\n',
                '        "level": "are alike",\n        "dummy": "are a dummy",\n',
            ),
        ),
    },
    "a figure": {
        "report/figures.py": (
            (
                '    ReportFigure(\n        name="distribution",',
                "    ReportFigure(\n        name='dummy', title='A dummy', draw=draw_distribution,\n"
                "        describe=describe_distribution, drawable=lambda result: True),\n"
                '    ReportFigure(\n        name="distribution",',
            ),
        ),
        "report/assets/report.html": (
            ('{{ figure("distribution") }}', '{{ figure("dummy") }}{{ figure("distribution") }}'),
        ),
    },
    "a remedy": {
        "advising/remedies.py": (
            (
                "    return (*enough, *([common]",
                "    dummy = Change(kind=ChangeKind.DUMMY, what=fact(Do.DUMMY), reaches_limit=True)\n"
                "    return (*enough, dummy, *([common]",
            ),
            ('    LEAVE_OUT = "leave out"\n', '    LEAVE_OUT = "leave out"\n    DUMMY = "dummy"\n'),
        ),
        "report/advice.py": (
            (
                "    Do.MULTIPLY_NOISE: _multiply,\n",
                "    Do.MULTIPLY_NOISE: _multiply,\n    Do.DUMMY: lambda: 'try a dummy',\n",
            ),
        ),
        "auditing/result.py": (('    DROP = "drop" ', '    DUMMY = "dummy"\n    DROP = "drop" '),),
    },
    "a law of noise": {
        "privacy/law.py": (
            ('    CELL_KEY = "cell-key"\n', '    CELL_KEY = "cell-key"\n    DUMMY = "dummy"\n'),
            (
                "    Law.NONE: _EXACT,\n",
                "    Law.NONE: _EXACT,\n"
                "    Law.DUMMY: replace(_EXACT, cost=Cost.PURE, laplace_answers=2.0,\n"
                "        information_scale=_same, affinity_scale=_same, stddev=_same,\n"
                "        parameter_of_stddev=_same, information_at_most=_pure_information,\n"
                "        size='stddev', least_parameter=1.0),\n",
            ),
        ),
        "report/basis.py": (
            (
                "    Law.ROUNDING: ",
                "    Law.DUMMY: 'Dummy noise.',\n    Law.ROUNDING: ",
            ),
        ),
    },
    "an assumption that a pass needs": {
        "auditing/plan_sections.py": (
            ('    PRESENCE = "presence"\n', '    PRESENCE = "presence"\n    DUMMY = "dummy"\n'),
        ),
        "auditing/assumption_facts.py": (
            ("    AssumptionName.EMPTY: ", "    AssumptionName.DUMMY: _TABLE,\n    AssumptionName.EMPTY: "),
        ),
        "report/first_screen.py": (
            (
                "    AssumptionName.EMPTY: ",
                "    AssumptionName.DUMMY: 'Look at it',\n    AssumptionName.EMPTY: ",
            ),
        ),
        "auditing/assumptions.py": (
            (
                "        AssumptionCase(\n            case=Case.LEFT_OUT_BUT_PUBLISHED,",
                "        AssumptionCase(\n            case=Case.DUMMY,\n"
                "            name=AssumptionName.DUMMY,\n"
                "            count=sum(one.name == 'supposed' for one in findings.plan.releases)),\n"
                "        AssumptionCase(\n            case=Case.LEFT_OUT_BUT_PUBLISHED,",
            ),
            ('    NO_ROW = "no row"\n', '    NO_ROW = "no row"\n    DUMMY = "dummy"\n'),
        ),
        "report/reasons.py": (
            (
                "    Case.OUTSIDE: _outside,\n",
                "    Case.OUTSIDE: _outside,\n"
                "    Case.DUMMY: _both('dummy is', 'dummies are', ' not looked at'),\n",
            ),
        ),
    },
    "a field of a plan": {
        "auditing/plan_sections.py": (
            (
                "    known_to: Positive = Field(",
                "    dummy: Share = Field(default=0.0, description='A dummy of a field.')\n"
                "    known_to: Positive = Field(",
            ),
        ),
    },
    "another sentence of a result": {
        "auditing/rests_on.py": (
            ('    COPIES = "copies"\n', '    COPIES = "copies"\n    DUMMY = "dummy"\n'),
            (
                "    yield fact(Basis.GROUPS_KNOWN)\n",
                "    yield fact(Basis.GROUPS_KNOWN)\n    yield fact(Basis.DUMMY, numbers=1)\n",
            ),
        ),
        "report/basis.py": (
            (
                "    Basis.AVERAGE: _average,\n",
                "    Basis.AVERAGE: _average,\n"
                "    Basis.DUMMY: lambda numbers: f'It rests on {numbers} dummy.',\n",
            ),
        ),
    },
    "a sentence of the first screen": {
        "report/wording.py": (
            (
                "\ndef view_line(",
                "\ndef dummy_line(result):\n    return f'A dummy of {result.cells}.'\n\n\ndef view_line(",
            ),
        ),
        "report/first_screen.py": (
            (
                '    head += _wrapped(about_line(result), width, "dim")\n',
                '    head += _wrapped(about_line(result), width, "dim")\n'
                "    from sightline.report.wording import dummy_line\n\n"
                "    head += _wrapped(dummy_line(result), width)\n",
            ),
        ),
    },
}

LOOKED_AT = """
from pathlib import Path

import sightline as sl
from sightline.errors import InvalidPlan
from sightline.auditing.plan import Plan
from sightline.auditing.starter import starter_plan
from sightline.report.first_screen import first_screen
from sightline.bounds.priors import NUMBER_PRIORS
from sightline.report.page import _PRIORS, report_html
from sightline.bounds.assessment import Bound
from sightline.report.terminal import _PROOFS
from sightline.report.wording import belief_line

Path("homes.csv").write_text("home,watts,size\\na,1,2\\nb,2,1\\nc,4,3\\nd,0,5\\n")
DATA = {"source": "homes.csv", "record": "home", "secret": "watts", "bounds": [0, 4], "public": ["size"]}
TOTAL = {"name": "total", "sql": "SELECT SUM(watts) FROM data", "noise": [{"stddev": 2.0}]}
LIMITS = {"remaining_uncertainty": 0.1}


def audited(*, data={}, release={}, **others):
    release = {**TOTAL, **release}
    plan = {"data": DATA | data, "limits": LIMITS, "release": [release], **others}
    return sl.audit(Plan.model_validate(plan), full=True)


plain = audited()
assert plain.verdict.passed is True

# an accountant
budget = {"epsilon": 1.0, "delta": 1e-5, "accountant": "dummy"}
needed = audited(release={"noise": []}, privacy=budget).budget.would_need
assert abs(needed["dummy"] / needed["renyi"] - 2**0.5) < 1e-9
assert "optimal or dummy" in starter_plan("homes.csv", out=Path("plan.toml")).text

# a SQL aggregate
spread = "SELECT SUM(watts) AS total, VARIANCE(size) AS spread FROM data"
assert audited(release={"sql": spread, "noise": [{"stddev": 2.0, "label": "total"}]}).cells == 1

# an engine
same = audited(data={"source": "dummy://homes.csv"})
assert same.least_remaining_uncertainty == plain.least_remaining_uncertainty

# a prior
assert set(NUMBER_PRIORS) <= set(_PRIORS)  # for the page, which tries all others
of_prior = audited(attacker={"prior": "dummy"})
assert of_prior.verdict.passed is True
assert "values like a dummy from 0 to 4" == of_prior.prior

# a bound, which is the best of all here
assert plain.exposed[0].lower_by == "dummy", plain.exposed[0]
assert {bound.text for bound in Bound} <= set(_PROOFS)

# a law of noise: that of Laplace answers of which nobody knows which ones they are
dummy = {"law": "dummy", "stddev": 2.0}
of_law = audited(release={"noise": [dummy]})
assert of_law.verdict.passed is True, of_law.verdict
assert "Dummy noise." in of_law.assumptions
assert "Dummy noise." not in plain.assumptions
try:
    audited(release={"noise": [{**dummy, "stddev": 0.5}]})
except InvalidPlan as refused:
    assert "dummy noise of at least 1" in str(refused)
else:
    raise AssertionError("too little noise is not refused")

# an assumption: through every door
raised = audited(release={"name": "supposed"})
assert raised.verdict.status == "not shown", raised.verdict
assert [one.name for one in raised.unverified] == ["dummy"]
assert raised.unverified[0].reason == "1 dummy is not looked at"
assert "Look at it" in "\\n".join(line.plain for line in first_screen(raised, 200))
accepted = audited(release={"name": "supposed"}, limits={**LIMITS, "accept": ["dummy"]})
assert accepted.verdict.passed is True

# a kind of unit: of two rows of a person one level each, which is the worst of three beliefs
Path("stays.csv").write_text("home,watts,size\\na,1,2\\na,2,1\\nc,4,3\\nc,0,5\\n")
by_size = {"sql": "SELECT size, SUM(watts) AS watts FROM data GROUP BY size"}
several = {"source": "stays.csv", "max_rows_per_record": 2}
stays = audited(data=several, release=by_size, limits={"remaining_uncertainty": 0.99})
assert sorted(one.name for one in stays.beliefs) == ["apart", "dummy", "level"], stays.beliefs
assert "are a dummy" in belief_line(stays), belief_line(stays)

# a remedy
assert any(one.text == "try a dummy" for one in stays.what_to_change)
assert "try a dummy" in "\\n".join(line.plain for line in first_screen(stays, 200)).lower()

# a figure
assert "A dummy" in report_html(plain)

# another sentence
assert "It rests on 1 dummy." in plain.assumptions

# a field of a plan
assert Plan.model_validate({"data": DATA, "limits": {"dummy": "50%"}, "release": [TOTAL]}).limits.dummy == 0.5
assert "dummy" in str(Plan.model_json_schema()["$defs"]["Limits"])

# a sentence, on every first screen
shown = [line.plain for line in first_screen(plain, 100)]
assert "A dummy of 1." in shown, shown
"""


def rows() -> dict[str, set[str]]:
    """The table: what is added, and the files that it says to touch."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = text.partition("\n| to add | touch |\n|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {name: set(re.findall(r"`([\w/]+\.(?:py|html))`", files)) for name, files in cells}


@pytest.mark.parametrize("row", DUMMIES)
def test_a_row_names_the_files_of_its_dummy(row: str) -> None:
    assert set(DUMMIES[row]) <= rows()[row]


def test_every_row_is_tried() -> None:
    assert set(rows()) == set(DUMMIES)


@pytest.mark.thorough
def test_a_dummy_of_each_kind_does_its_work(tmp_path: Path) -> None:
    shutil.copytree(SOURCE, tmp_path / "sightline")  # with what is compiled
    for edits in DUMMIES.values():
        for name, edit in edits.items():
            file = tmp_path / "sightline" / name
            if isinstance(edit, str):
                file.write_text(file.read_text() + edit if file.exists() else edit)
                continue
            for old, new in edit:
                text = file.read_text()
                assert text.count(old) == 1, (name, old)
                file.write_text(text.replace(old, new))
    run = subprocess.run(
        [sys.executable, "-c", LOOKED_AT],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
