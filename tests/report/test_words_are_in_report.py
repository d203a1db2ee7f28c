"""Rooms left of ``report`` find names and numbers; every sentence of a result is in ``report``, once.

What stays in them as text is not of a result: refusals, the stages that a progress bar names, SQL, the
descriptions of a plan's fields, and the text of files that are written for people to edit.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from sightline.advising.accuracy import Error
from sightline.advising.noise_slack import Slack
from sightline.advising.remedies import Do, Price, Regrouping, Then, WhyUntried
from sightline.advising.what_if import NoWhatIf, Worst
from sightline.auditing.assumptions import Case
from sightline.auditing.budget import Proof
from sightline.auditing.declared_and_found import HowComputed, Odd
from sightline.auditing.homogeneous import Alike
from sightline.auditing.releases import LeftOut, Note
from sightline.auditing.rests_on import Basis
from sightline.auditing.rules import Broken
from sightline.auditing.secret_prior import Expected
from sightline.auditing.small_counts import Few
from sightline.auditing.verdict import Said, View
from sightline.privacy.law import Law
from sightline.report import advice, basis, beliefs, judgement, reasons, told, what_if

SOURCE = Path(__file__).resolve().parents[2] / "src" / "sightline"
ROOMS = ("units", "bounds", "auditing", "advising")
FEW_WORDS = 4

# Calls whose texts are refusals, stages of a progress bar, or descriptions of a plan's fields.
NOT_OF_A_RESULT = ("require", "refuse", "report", "progress", "Field", "in_turn")
# Files that are no more than refusals and their advice, or the text of a plan that somebody edits.
FILES = {
    "auditing/reading.py": "refusals of a plan's text, with what to write",
    "auditing/release_noise.py": "descriptions of fields, and refusals",
    "auditing/starter.py": "the text of a first plan",
    "auditing/query_files.py": "the text of a plan from SQL files, and refusals",
    "auditing/dbt.py": "the text of a plan from a dbt project, and refusals",
    "auditing/work.py": "refusals of too much work",
}
# Single texts, each with why it is none of a result's sentences.
TEXTS = {
    "auditing/certain_people.py: by all counts together, in whole numbers": "stands for a formula",
    "auditing/recipes.py:  (the recipe with the least error has {} numbers)": "stands in a formula",
    "auditing/questions.py: {} {} {} {} {}": "SQL",
    "auditing/stated_noise.py: write the values of its group": "a refusal's advice",
    "auditing/session.py: whose rows have none": "a refusal's reason",
    "auditing/session.py: which no row is about": "a refusal's reason",
    "auditing/session.py: only DuckDB and Spark can": "a refusal's reason",
    "auditing/session.py: releases are computed from the fit": "a refusal's reason",
    "auditing/published_fit.py: independent noise on every number": "a refusal's expectation",
    "auditing/published_fit.py: running sums or a mechanism": "a refusal's expectation",
    "auditing/published_fit.py: whole = true with": "a refusal's expectation",
    "auditing/assumption_facts.py: the plan and the memberships": "what an enum's member means",
    "auditing/assumption_facts.py: the table and the SQL of a release": "what an enum's member means",
    "units/sparse_row_solver.py: a dense factor is faster": "a refusal's reason",
    "units/sparse_row_solver.py: a sparse factor has {} entries": "a refusal's reason",
}
SQL = ("SELECT ", "CASE ", "FLOOR(")

WORDS: dict[type[StrEnum], object] = {
    Case: reasons.REASONS,
    Said: judgement.SENTENCES,
    View: judgement.VIEWS,
    Basis: basis.SENTENCES,
    HowComputed: basis.SENTENCES,
    Odd: basis.SENTENCES,
    LeftOut: basis.SENTENCES,
    Alike: told.WORDS,
    Few: told.WORDS,
    Broken: told.WORDS,
    Note: told.WORDS,
    Proof: told.WORDS,
    Slack: advice.WORDS,
    Do: advice.WORDS,
    Regrouping: advice.WORDS,
    Then: advice.WORDS,
    Price: advice.WORDS,
    WhyUntried: advice.WORDS,
    Error: advice.WORDS,
    NoWhatIf: what_if.WORDS,
    Worst: what_if.WORDS,
    Expected: beliefs.WORDS,
    Law: basis.OF_LAWS,
}


@pytest.mark.parametrize("names", WORDS, ids=lambda one: one.__name__)
def test_every_fact_has_words(names: type[StrEnum]) -> None:
    words = WORDS[names]
    assert isinstance(words, dict)
    assert set(names) <= set(words)


def test_no_two_facts_of_one_page_have_one_name() -> None:
    """Words are looked up by name: a name of two kinds of facts would say the wrong sentence."""
    pages = {id(words): words for words in WORDS.values()}
    for place in pages:
        kinds = [kind for kind, words in WORDS.items() if id(words) == place]
        members = [member.value for kind in kinds for member in kind]
        assert len(members) == len(set(members)), kinds
    # A verdict says cases of assumptions, too.
    assert not {one.value for one in Said} & {one.value for one in Case}


def prose(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Texts of more than a few words that are in no docstring, refusal, progress bar, field, enum or SQL."""
    left_out: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.Assert():
                left_out |= {id(one) for one in ast.walk(node)}
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if of_no_result(name):
                left_out |= {id(one) for one in ast.walk(node)}
            case ast.FunctionDef(name="__repr__" | "__str__"):
                left_out |= {id(one) for one in ast.walk(node)}
            case ast.Expr(value=ast.Constant()):  # a docstring
                left_out.add(id(node.value))
            case ast.ClassDef(bases=[ast.Name(id="StrEnum")]):  # names, not sentences
                left_out |= {id(one) for one in ast.walk(node)}
            case ast.Subscript() | ast.AnnAssign(annotation=ast.Constant()):  # types
                left_out |= {id(one) for one in ast.walk(node) if isinstance(node, ast.Subscript)}
            case ast.Assign(targets=[ast.Name(id="__all__")]):
                left_out |= {id(one) for one in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in left_out:
            continue
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(one) for one in ast.walk(node)}
            texts = [one.value if isinstance(one, ast.Constant) else "{}" for one in node.values]
            text = "".join(map(str, texts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if len(text.split()) > FEW_WORDS and not text.startswith(SQL) and " | " not in text:
            yield node.lineno, text


def of_no_result(name: str) -> bool:
    """Whether a call is a refusal, or names a stage or a field."""
    return name.startswith(NOT_OF_A_RESULT) or name.endswith(("Error", "Input", "Plan", "Noise", "Work"))


@pytest.mark.parametrize("room", ROOMS)
def test_no_sentence_is_said_left_of_the_report(room: str) -> None:
    told = []
    for path in sorted((SOURCE / room).rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in FILES:
            continue
        for line, text in prose(ast.parse(path.read_text(encoding="utf-8"))):
            if not any(f"{name}: {text}".startswith(one) for one in TEXTS):
                told.append(f"{name}:{line}: {text}")
    assert not told, "say it in a module of report, of a fact: " + "\n".join(told)


def test_every_exception_is_still_there() -> None:
    texts = [
        f"{path.relative_to(SOURCE).as_posix()}: {text}"
        for room in ROOMS
        for path in (SOURCE / room).rglob("*.py")
        for _, text in prose(ast.parse(path.read_text(encoding="utf-8")))
    ]
    for one in TEXTS:
        assert any(text.startswith(one) for text in texts), one
    for file in FILES:
        assert any(text.startswith(f"{file}: ") for text in texts), file


SENTENCE = "the noise alone leaves at least half of it"


@pytest.mark.parametrize(
    "code",
    [
        f'TEXT = "{SENTENCE}"',
        f'def why(x):\n    return f"{SENTENCE} {{x}}"',
        f'NAMES = {{"a": ("{SENTENCE}",)}}',
        f'def why(x):\n    return Verdict(text="{SENTENCE}")',
        f'def why(x):\n    yield count(x, "{SENTENCE}")',
    ],
)
def test_a_sentence_would_be_found(code: str) -> None:
    assert [text.removesuffix(" {}") for _, text in prose(ast.parse(code))] == [SENTENCE]


@pytest.mark.parametrize(
    "code",
    [
        f'"""{SENTENCE}."""',
        f'require(x, "{SENTENCE}", got=1)',
        f'raise InvalidPlan("{SENTENCE}")',
        f'report("{SENTENCE}", 0.0)',
        f'x = Field(description="{SENTENCE}")',
        'QUERY = "SELECT a, b FROM c WHERE d IS NOT NULL"',
    ],
)
def test_what_is_not_of_a_result_is_left_alone(code: str) -> None:
    assert not list(prose(ast.parse(code)))
