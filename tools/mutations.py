"""Plants faults, one at a time, in a copy of the tree, and says whether the tests catch each one.

``python -m tools.mutations`` runs, for each fault, the files of tests that are most likely to catch it, with
the examples of ``make test``. ``--tree FOLDER`` does it for another version, whose code may spell a fault in
another way; ``--only WORDS`` for the faults whose names hold these words; ``--everything`` runs all of ``make
test`` for a fault that the likely files miss. The exit status is 1 if a fault is missed, and 2 if one cannot
be planted: its spelling is to be mended here when code is rewritten.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPIED: tuple[str, ...] = (
    "src",
    "tests",
    "tools",
    "docs",
    "benchmarks",
    "conftest.py",
    "pyproject.toml",
    "Makefile",
)
COPIED += ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
LONGEST = 900.0  # seconds for one fault


@dataclass(frozen=True, slots=True)
class Spelling:
    """A fault in one version: a text that is in a file of the library once, and what replaces it."""

    file: str
    text: str
    replacement: str


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake, how each version spells it, and the tests that are likely to catch it."""

    name: str
    spellings: tuple[Spelling, ...]  # the first that a tree holds is planted
    tests: tuple[str, ...]


FAULTS: tuple[Fault, ...] = (
    Fault(
        "wrong rounding direction: the rho of a budget rounds up",
        (
            Spelling(
                "privacy/concentrated.py",
                "return rounded_down(evaluate(rho))",
                "return rounded_up(evaluate(rho))",
            ),
            Spelling(
                "privacy/zero_concentrated.py",
                "return rounded_down(evaluate(rho))",
                "return rounded_up(evaluate(rho))",
            ),
        ),
        ("tests/privacy", "tests/noise"),
    ),
    Fault(
        "variance for standard deviation: the noise multiplier is not squared under zCDP",
        (
            Spelling(
                "privacy/concentrated.py",
                "releases / (2 * Fraction(noise_multiplier) ** 2)",
                "releases / (2 * Fraction(noise_multiplier))",
            ),
            Spelling(
                "privacy/concentrated.py",
                "releases / (2 * Fraction(noise_multiplier) ** 2), self.budget.delta",
                "releases / (2 * Fraction(noise_multiplier)), self.budget.delta",
            ),
            Spelling(
                "privacy/zero_concentrated.py",
                "releases / (2 * Fraction(noise_multiplier) ** 2)",
                "releases / (2 * Fraction(noise_multiplier))",
            ),
            Spelling(
                "privacy/concentrated.py",
                "releases / (2 * Fraction(noise_multiplier) ** 2), self.budget.delta",
                "releases / (2 * Fraction(noise_multiplier)), self.budget.delta",
            ),
        ),
        ("tests/privacy",),
    ),
    Fault(
        "wrong sign: the second term of the Gaussian curve is added",
        (
            Spelling(
                "privacy/gaussian_dp.py",
                "_normal_cdf(mu / 2 - eps / mu) - eps.exp()",
                "_normal_cdf(mu / 2 - eps / mu) + eps.exp()",
            ),
            Spelling(
                "privacy/gaussian_curve.py",
                "_normal_cdf(mu / 2 - eps / mu) - eps.exp()",
                "_normal_cdf(mu / 2 - eps / mu) + eps.exp()",
            ),
        ),
        ("tests/privacy",),
    ),
    Fault(
        "off by one: one release too few shares the budget",
        (
            Spelling(
                "noise/pricing.py",
                "return accountant.kappa(releases)",
                "return accountant.kappa(max(1, releases - 1))",
            ),
        ),
        ("tests/noise", "tests/privacy", "tests/auditing/test_pricing.py"),
    ),
    Fault(
        "variance for standard deviation: Laplace noise without its root of two",
        (
            Spelling(
                "privacy/law.py",
                "np.asarray(b * math.sqrt(2))",
                "np.asarray(b * 2)",
            ),
        ),
        ("tests/auditing/noise_laws", "tests/auditing/test_pricing.py"),
    ),
    Fault(
        "the lattice share is dropped: discrete noise counts as continuous",
        (
            Spelling(
                "auditing/pricing.py",
                "max(0.0, 1 - math.fsum(fails))",
                "1.0",
            ),
        ),
        ("tests/auditing/noise_laws", "tests/auditing/test_crossed_features.py"),
    ),
    Fault(
        "a lost copy: a release that is published several times counts once",
        (
            Spelling(
                "auditing/pricing.py",
                "[plan.releases[p.query].times for p in membership.partitions]",
                "[1 for p in membership.partitions]",
            ),
        ),
        ("tests/auditing/test_pricing.py", "tests/auditing/test_budget_heading.py", "tests/golden"),
    ),
    Fault(
        "a mean is priced as a sum",
        (
            Spelling(
                "auditing/pricing.py", "np.where(mean[owner], rows, 1.0)", "np.where(mean[owner], 1.0, 1.0)"
            ),
        ),
        ("tests/auditing/test_pricing.py", "tests/auditing/test_audit_commands.py"),
    ),
    Fault(
        "a histogram is priced as if a record were in one of its cells alone",
        (
            Spelling(
                "auditing/pricing.py",
                "((2.0 if laws[p].pure else math.sqrt(2)) if together.get(p, 1) > 1 else 1.0)",
                "1.0",
            ),
        ),
        ("tests/auditing/test_pricing.py", "tests/auditing/noise_laws", "tests/golden"),
    ),
    Fault(
        "rows of a person are lost from the sensitivity",
        (
            Spelling(
                "auditing/pricing.py",
                "most = membership.most_rows_of_a_record(bundle[0], power)",
                "most = 1",
            ),
        ),
        ("tests/auditing/test_row_norms.py", "tests/auditing/test_pricing.py"),
    ),
    Fault(
        "a swapped prior: uniform numbers are taken as cos²",
        (Spelling("bounds/priors.py", '{"uniform": UniformPrior,', '{"uniform": CosineSquaredPrior,'),),
        ("tests/auditing/test_secret_prior.py", "tests/bounds", "tests/golden"),
    ),
    Fault(
        "a lower end too high: the coin's risk with half of the information",
        (Spelling("bounds/coin.py", "g = math.sqrt(information)", "g = math.sqrt(information / 2)"),),
        ("tests/bounds", "tests/bounds/test_labeled_coin.py"),
    ),
    Fault(
        "a lower end too high: the van Trees bound of a uniform number",
        (
            Spelling(
                "bounds/van_trees.py",
                "closed = (1 - np.tanh(half) / half) / safe * (1 - ROUNDING)",
                "closed = (1 - np.tanh(half) / (2 * half)) / safe * (1 - ROUNDING)",
            ),
        ),
        ("tests/bounds",),
    ),
    Fault(
        "a record too many: one record below the limit is not counted",
        (
            Spelling(
                "auditing/verdict.py",
                "    if below:\n        return VerdictStatus.FAILED",
                "    if below > 1:\n        return VerdictStatus.FAILED",
            ),
        ),
        ("tests/auditing/no_false_pass", "tests/auditing/test_honest_verdicts.py", "tests/golden"),
    ),
    Fault(
        "an assumption that nobody accepted does not stop a pass",
        (
            Spelling(
                "auditing/verdict.py",
                "if any(not one.accepted for one in unverified):",
                "if not unverified and below:",
            ),
        ),
        ("tests/auditing/test_honest_verdicts.py", "tests/auditing/no_false_pass"),
    ),
    Fault(
        "a known record is not known: what the attacker knows is dropped",
        (
            Spelling(
                "tables/collect.py",
                'return " OR ".join(f"({condition})" for condition in conditions)',
                'return " OR ".join(f"({condition})" for condition in conditions[1:])',
            ),
        ),
        (
            "tests/auditing/test_attacker_knowledge.py",
            "tests/tables/test_collected_membership.py",
            "tests/golden",
        ),
    ),
    Fault(
        "a dropped row: NULL in a group's key counts as no group",
        (
            Spelling(
                "tables/membership.py",
                "inside = np.flatnonzero(cells >= 0)",
                "inside = np.flatnonzero(cells > 0)",
            ),
        ),
        (
            "tests/auditing/test_rules.py",
            "tests/auditing/continual",
            "tests/advising",
        ),
    ),
    Fault(
        "a withheld number stays in the audit, or a published one leaves it",
        (
            Spelling(
                "auditing/stated_noise.py",
                "return published(membership, withheld=withheld)",
                "return published(membership, withheld=withheld[1:])",
            ),
        ),
        ("tests/auditing/test_suppress.py", "tests/auditing/test_withheld.py"),
    ),
    Fault(
        "the rows of a mean are taken as a sum in the design",
        (
            Spelling(
                "auditing/design.py",
                "is_mean = np.array([part.statistic is Statistic.MEAN for part in parts])",
                "is_mean = np.array([False for part in parts])",
            ),
            Spelling(
                "auditing/lowering.py",
                "np.repeat([part.statistic is Statistic.MEAN for part in parts], widths)",
                "np.repeat([False for part in parts], widths)",
            ),
        ),
        ("tests/auditing/test_findings.py", "tests/auditing/test_examples.py", "tests/golden"),
    ),
    Fault(
        "a category's kernel: the categories of one row do not exclude each other",
        (
            Spelling(
                "auditing/design.py",
                "[(name in categories) != (reference in categories) for categories in counted]",
                "[(name in categories) for categories in counted]",
            ),
            Spelling(
                "units/target.py",
                "self.categories * np.eye(self.categories) - 1",
                "self.categories * np.eye(self.categories)",
            ),
        ),
        ("tests/golden", "tests/auditing/no_false_pass"),
    ),
    Fault(
        "known and unknown rows of one signature change places",
        (
            Spelling(
                "auditing/design.py",
                "known=np.repeat([False, True], [others.size, some.size])",
                "known=np.repeat([True, False], [others.size, some.size])",
            ),
            Spelling(
                "auditing/table_units.py",
                "number = np.bincount(column, membership.counts - membership.known, distinct)",
                "number = np.bincount(column, membership.known, distinct)",
            ),
        ),
        ("tests/auditing/test_attacker_knowledge.py", "tests/auditing/test_findings.py", "tests/golden"),
    ),
    Fault(
        "the linear attack's risk is rounded down",
        (
            Spelling(
                "labeled/record_brackets.py",
                "quantities[Quantity.LINEAR] * (1 + relative_error) + share_error",
                "quantities[Quantity.LINEAR] * (1 - 0.01)",
            ),
            Spelling(
                "bounds/unit_brackets.py",
                "np.clip(least + np.minimum(error, 1.0), TINY, 1.0)",
                "np.clip(least * (1 - 0.01), TINY, 1.0)",
            ),
        ),
        ("tests/bounds/test_labeled_bracket.py", "tests/bounds/test_assessment.py", "tests/golden"),
    ),
    Fault(
        "a lost copy in the design: its noise is not that of the mean of the copies",
        (
            Spelling(
                "auditing/design.py",
                "np.abs(factors) / np.sqrt(pricing.times[self.owner])",
                "np.abs(factors)",
            ),
            Spelling("auditing/lowering.py", "size = factors / np.sqrt(copies)", "size = factors"),
        ),
        ("tests/test_lattice.py", "tests/auditing/test_findings.py", "tests/golden"),
    ),
    Fault(
        "wrong sign: a number that counts the others is taken as it is",
        (
            Spelling(
                "auditing/design.py",
                "np.where(is_mean, rows, 1.0) * np.where(flipped, -1.0, 1.0) * units",
                "np.where(is_mean, rows, 1.0) * units",
            ),
            Spelling(
                "auditing/lowering.py",
                "size * units_of_weights * np.where(flipped, -1.0, 1.0)",
                "size * units_of_weights",
            ),
        ),
        (
            "tests/auditing/test_findings.py",
            "tests/auditing/test_crossed_features.py",
            "tests/auditing/test_drawn_data.py",
            "tests/auditing",
        ),
    ),
    Fault(
        "a count: records that nothing tells apart count as one",
        (
            Spelling(
                "auditing/design.py",
                "np.concatenate([(distinct.counts - distinct.known)[others], distinct.known[some]])",
                "np.concatenate([np.ones_like(others), distinct.known[some]])",
            ),
            Spelling(
                "units/row_products.py",
                "counts = (block.people[:, None] * block.times)",
                "counts = (np.ones_like(block.people)[:, None] * block.times)",
            ),
        ),
        ("tests/bounds/test_assessment.py", "tests/auditing/test_findings.py", "tests/golden"),
    ),
)


def planted(tree: Path, fault: Fault) -> Spelling | None:
    """Plant a fault in a copy of a tree, in its first spelling that the tree holds once."""
    for spelling in fault.spellings:
        path = tree / "src" / "sightline" / spelling.file
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if text.count(spelling.text) == 1:
            path.write_text(text.replace(spelling.text, spelling.replacement), encoding="utf-8")
            return spelling
    return None


def copied(tree: Path, folder: Path) -> Path:
    """A copy of a tree: what its tests need."""
    target = folder / "tree"
    for name in COPIED:
        source = tree / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", "_build"))
        elif source.exists():
            target.mkdir(exist_ok=True)
            shutil.copy2(source, target / name)
    return target


def fails(tree: Path, tests: Sequence[str]) -> bool:
    """Whether a test of some files fails in a tree."""
    there = [name for name in tests if (tree / name).exists()]
    if tests and not there:
        return False
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OPENBLAS_NUM_THREADS": "1"}
    environment["SIGHTLINE_EXAMPLES"] = (
        "test" if "thorough" in (tree / "pyproject.toml").read_text("utf-8") else "same"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-n", "0", *there]
    if environment["SIGHTLINE_EXAMPLES"] == "test":
        command += ["-m", "not thorough"]
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, timeout=LONGEST, check=False
    )
    return done.returncode == 1


def run(tree: Path, faults: Iterable[Fault], *, everything: bool) -> int:
    """Plant faults one after the other, and print what caught each."""
    status = 0
    for fault in faults:
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            copy = copied(tree, Path(folder))
            if planted(copy, fault) is None:
                print(f"not planted  {fault.name}", flush=True)
                status = max(status, 2)
                continue
            caught = next((name for name in fault.tests if fails(copy, [name])), None)
            if caught is None and everything and fails(copy, []):
                caught = "make test"
        status = status if caught else max(status, 1)
        outcome = f"caught by {caught}" if caught else "MISSED"
        print(f"{outcome:50}  {time.monotonic() - start:4.0f} s  {fault.name}", flush=True)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tree", type=Path, default=ROOT)
    parser.add_argument("--only", default="")
    parser.add_argument("--everything", action="store_true")
    chosen = parser.parse_args(arguments)
    return run(chosen.tree, [one for one in FAULTS if chosen.only in one.name], everything=chosen.everything)


if __name__ == "__main__":
    sys.exit(main())
