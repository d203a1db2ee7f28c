"""The terminal: the verdict first, every number once, plain text in a pipe, colours in a terminal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

import sightline as sl
from sightline.bounds.assessment import Bound
from sightline.examples.shipped import example_plan
from sightline.privacy.registry import ACCOUNTANTS
from sightline.report import terminal
from sightline.report.page import report_html
from sightline.report.streams import console


@pytest.fixture(scope="module")
def result() -> sl.AuditResult:
    return sl.audit(example_plan("microgrid"), names=True, full=True)


def printed(result: sl.AuditResult, *, full: bool = True, **options: object) -> str:
    out = io.StringIO()
    screen = Console(file=out, width=118, highlight=False, **options)  # type: ignore[arg-type]
    terminal.print_result(result, screen, full=full)
    return out.getvalue()


def test_the_default_has_what_reaches_the_limit_and_says_where_more_is(result: sl.AuditResult) -> None:
    of_first_screen = sl.audit(example_plan("microgrid"), names=True)
    text, everything = printed(of_first_screen, full=False), printed(result)
    assert len(text.splitlines()) < len(everything.splitlines()) - len(result.releases)
    assert "multiply all noise" in text
    assert "raise the noise of 11 of 11 numbers" not in text
    assert "More: --full" in text
    assert "raise the noise of 11 of 11 numbers" in everything
    assert "More: --full" not in everything


@pytest.mark.slow
def test_the_verdict_comes_before_the_details(result: sl.AuditResult) -> None:
    text = printed(result)
    places = [
        text.index(words)
        for words in (
            "BELOW THE LIMIT",
            "± 123–146",
            "± 577",
            "Most exposed of 9, known to, and how",
            "What to change",
            "In full",
            "homes.csv: secret evening_watts, a number from 0 to 2,000; each home is a record",
            "Shortfall  It needs 8.57 times the noise on every number.",
            "Every change that reaches the limit",
            "Most exposed\n",
            "Releases, in order of publication",
            "Budget at delta = 1e-05",
            "What this rests on",
        )
    ]
    assert places == sorted(places)


def test_each_exposed_record_has_a_line_with_its_numbers(result: sl.AuditResult) -> None:
    lines = printed(result).splitlines()
    for one in result.exposed:
        (line,) = [line for line in lines if line.startswith(f"{one.record} ")]
        assert str(one.remaining_uncertainty) in line
        if one.rmse is not None and one.shortest is not None:
            assert f"{one.rmse:,.4g}" in line
            assert one.shortest.text in line
        else:
            assert one.attack is not None
            assert one.attack.together is not None
            assert f"with {', '.join(one.attack.together.records)}, their sum is known to ±" in line


def test_each_release_and_each_change_has_a_line(result: sl.AuditResult) -> None:
    text = printed(result)
    for release in result.releases:
        assert any(line.startswith(f"{release.name} ") for line in text.splitlines())
    for number, change in enumerate(result.what_to_change, start=1):
        assert f"  {number}. {change.text} (cost: {change.cost})\n" in text


def test_a_pipe_gets_no_colours_and_a_terminal_does(
    result: sl.AuditResult, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.print_result(result, console())
    assert "\x1b" not in capsys.readouterr().out
    assert "\x1b[" in printed(result, force_terminal=True, color_system="standard")


def test_square_brackets_in_names_are_not_markup(result: sl.AuditResult) -> None:
    odd = result.model_copy(
        update={
            "releases": (result.releases[0].model_copy(update={"name": "[bold]mean[/]"}),),
            "exposed": (result.exposed[0].model_copy(update={"record": "[red]H13[/red]"}),),
        }
    )
    assert "[bold]mean[/]" in printed(odd)
    assert "[red]H13[/red]" in printed(odd)


def test_counts_that_are_cut_say_so(result: sl.AuditResult) -> None:
    cut = result.model_copy(update={"exposed": result.exposed[:2]})
    assert "The 2 most exposed of 9" in printed(cut)


@pytest.mark.thorough
def test_a_survey_under_a_budget() -> None:
    text = printed(sl.audit(example_plan("health_survey")))
    assert "PASSED" in text
    assert (
        "Budget: epsilon = 10 under zcdp at delta = 1e-06, for every conceivable person; the accountant"
        in text
    )
    assert "90 rows are left out, without a secret or a key (for the owner only)" in text
    assert "3 values are outside the bounds: clipped to them (for the owner only)" in text
    assert "age 69, education" in text, "named by public attributes"
    assert "it holds up to epsilon = 40; 34 % of this noise would be enough." in " ".join(text.split())
    table = text[text.index("accountant  ") :].splitlines()
    names = {line.split()[0] for line in table[1 : 1 + len(ACCOUNTANTS)]}
    assert names == set(ACCOUNTANTS)


@pytest.mark.slow
def test_the_words_of_what_is_not_linear(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("local")
    (folder / "t.csv").write_text("id,x\na,0.1\nb,0.6\nc,0.9\n")
    plan = {
        "data": {"source": str(folder / "t.csv"), "record": "id", "secret": "x", "bounds": [0, 1]},
        "privacy": {"epsilon": 1.0},
        "release": [
            {"name": "mean", "sql": "SELECT AVG(x) FROM data", "noise_stddev": 0.1},
            {"name": "square", "sql": "SELECT AVG(x * x) FROM data", "noise_stddev": 0.1},
            {"name": "cube", "sql": "SELECT AVG(x * x * x) FROM data", "noise_stddev": 0.1},
            {"name": "count", "sql": "SELECT COUNT(*) FROM data", "noise_stddev": 0.1},
        ],
        "attacker": {"knows": ["id = 'z'"]},
    }
    result = sl.audit(plan)
    text = " ".join(printed(result).split())
    assert "Near their true values 3 values of 3 can be seen as one of a set" in text
    assert "seen near its true value (for the owner only)" in text
    assert "None" not in text
    assert "costs nothing" in text
    assert "no release takes a share of the budget" in text
    assert "(the default, since the plan gives none)" in text


def small(folder: Path, secret: str, **data: object) -> sl.AuditResult:
    (folder / "t.csv").write_text("id,g,x,ill,blood\na,1,5e8,true,A\nb,1,2e9,false,B\nc,2,1e9,true,0\n")
    what = {
        "x": "AVG(x)",
        "ill": "COUNT(*) FILTER (WHERE ill)",
        "blood": "COUNT(*) FILTER (WHERE blood = 'A')",
    }
    return sl.audit(
        {
            "data": {"source": str(folder / "t.csv"), "record": "id", "secret": secret, **data},
            "privacy": {"epsilon": 0.01, "delta": 1e-6},
            "release": [{"name": "all", "sql": f"SELECT {what[secret]} FROM data WHERE id = 'a'"}],
        },
        full=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("secret", "data", "domain", "ranged"),
    [
        ("x", {"bounds": [0, 2e9]}, "x, a number from 0 to 2,000,000,000;", True),
        ("ill", {"kind": "boolean"}, "ill, yes or no;", False),
        ("blood", {"categories": ["A", "B", "0"]}, "blood, one of 3 categories;", False),
    ],
)
def test_only_a_number_has_a_range(
    secret: str, data: dict[str, object], domain: str, ranged: bool, tmp_path: Path
) -> None:
    result = small(tmp_path, secret, **data)
    text, page = printed(result), report_html(result)
    assert domain in " ".join(text.split())  # long paths wrap the line
    assert domain.rstrip(";").partition(", ")[2] in page
    assert ("of range" in text) is ("of range</small>" in page) is ranged
    assert ("known to" in text) is (">Known to</button>" in page) is ranged
    independent = f"1 published number, 1 of them linearly independent in {secret}"
    assert f"3 records in 2 signatures; {independent}\n" in text
    assert "; the accountant counts 1 release " in " ".join(text.split())


@pytest.mark.slow
def test_large_numbers_have_no_exponent(tmp_path: Path) -> None:
    result = small(tmp_path, "x", bounds=[0, 2e9])
    (one,) = result.exposed
    assert one.rmse is not None
    table = printed(result).partition("Most exposed")[2].partition("Releases")[0]
    assert "e+" not in table
    assert f"{float(f'{one.rmse:.3e}'):,.0f}" in table


def test_a_result_of_an_earlier_version_does_not_count_its_categories(tmp_path: Path) -> None:
    result = small(tmp_path, "blood", categories=["A", "B", "0"])
    text = printed(result.model_copy(update={"category_count": None}))
    assert "one of several categories" in " ".join(text.split())  # long paths wrap the line


def test_an_explanation_says_which_proof_gives_the_lower_end() -> None:
    assert {"", "information", *(bound.text for bound in Bound)} == set(terminal._PROOFS)
    out = io.StringIO()
    explanation = sl.explain(example_plan("microgrid"), "H17")
    terminal.print_explanation(explanation, Console(file=out, width=200))
    proof = terminal._PROOFS[explanation.exposed[0].lower_by]
    assert proof
    assert f"The lower end is proved {proof}." in out.getvalue()
