"""``sightline paper --fast`` from end to end: files, numbers, resumption, interruption, bad input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sightline.cli import main
from sightline.errors import InvalidInput, MissingExtra
from sightline.theory.paper.comparison import ClaimVerdict, MadeFigure
from sightline.theory.paper.run import LABELS, Regenerated, figure, file_stem, regenerate

pytestmark = pytest.mark.thorough

# What the paper says and its own numbers contradict; everything else must hold.
KNOWN_FAILURES = {("fig:realdata", "(left) Colours are bins of the larger magnitude max(|z₁|, |z₂|).")}
STATEMENTS = {
    *("thm:spine", "thm:lever1_onecontrast", "rem:lever1_onecontrast_scope", "prop:fixed_background_crb"),
    *("prop:lever1_fixed_background_limit", "prop:lever1_nonuniform", "prop:lever2_sorted_chart_main"),
    *("thm:lever2_design_law", "cor:lever2_spectral_consequences", "rem:lever2_mixed_regime"),
    *("prop:poly_interior_matrix", "prop:threshold_truncation", "eq:lever1_ident_cond"),
    *("fig:inout", "fig:poly_synth", "fig:realdata", "fig:threshold", "fig:mle", "fig:app_mle_vs_L"),
    *("tab:adjacency", "tab:accountant_scaling_main", "eq:gaussian_calibration"),
    *("prop:ieff_variational", "prop:lever2_det_amgm", "cor:lever2_generalm_interior"),
    *("cor:membership_necessity_s3", "eq:J_column_static", "app:poly_general_m"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def run(folder: Path) -> Regenerated:
    return regenerate(out=folder, fast=True, seed=0)


def of(run: Regenerated, label: str) -> MadeFigure:
    return next(made for made in run.made if made.label == label)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class TestAFastRun:
    def test_makes_every_figure(self, run: Regenerated) -> None:
        assert tuple(made.label for made in run.made) == LABELS

    @pytest.mark.parametrize("label", LABELS)
    def test_writes_strict_json_with_the_same_numbers(
        self, run: Regenerated, folder: Path, label: str
    ) -> None:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is not JSON")

        text = (folder / f"{file_stem(label)}.json").read_text(encoding="utf-8")
        assert json.loads(text, parse_constant=refuse) == json.loads(json.dumps(of(run, label).document))

    @pytest.mark.parametrize("label", [label for label in LABELS if label != "claims"])
    def test_draws_every_panel(self, run: Regenerated, label: str) -> None:
        panels = of(run, label).panels
        assert panels
        for panel in panels:
            root = ElementTree.fromstring(panel.file.read_text(encoding="utf-8"))
            assert root.tag.endswith("svg")
            assert "NaN" not in panel.file.read_text(encoding="utf-8")

    def test_the_three_panels_of_inout_and_the_two_of_the_others(self, run: Regenerated) -> None:
        names = {made.label: {panel.name for panel in made.panels} for made in run.made}
        assert names["fig:inout"] == {"left", "center", "right"}
        assert names["fig:poly_synth"] == {"left", "right"}
        assert names["fig:realdata"] == {"left", "right", "left, our loads", "right, our loads"}
        assert names["fig:threshold"] == {"top", "bottom"}
        assert {"top", "bottom"} < names["fig:mle"]

    @pytest.mark.parametrize("label", ["fig:poly_synth", "fig:mle"])
    def test_printed_curves_are_met_to_nine_digits(self, run: Regenerated, label: str) -> None:
        difference = of(run, label).largest_relative_difference
        assert difference is not None
        assert difference < 1e-9

    def test_printed_random_points_pass_the_joint_test(self, run: Regenerated) -> None:
        agreement = of(run, "fig:mle").agreement
        assert agreement is not None
        assert agreement.points == 24
        assert agreement.passes

    def test_every_statement_has_a_row_and_only_known_ones_fail(self, run: Regenerated) -> None:
        claims = [claim for made in run.made for claim in made.claims]
        assert {claim.label for claim in claims} >= STATEMENTS
        failed = {(claim.label, claim.says) for claim in claims if claim.verdict is ClaimVerdict.FAILS}
        assert failed == KNOWN_FAILURES

    def test_remarks_say_what_was_found(self, run: Regenerated) -> None:
        remarks = " ".join(claim.remark for made in run.made for claim in made.claims)
        for finding in ("parity-tight", "ε = 5, 10", "L = 4 and α/β = 0.59", "not identifiable", "analytic"):
            assert finding in remarks


class TestThePage:
    def test_needs_no_network(self, run: Regenerated) -> None:
        page = run.page.read_text(encoding="utf-8")
        own = page[: page.index("<script>")]  # what follows is Vega itself
        assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//[^"'>]*""", own) == []
        assert re.findall(r"<(?:link|script|iframe)[^>]+(?:src|href)=", page) == []

    def test_shows_every_figure_and_claim(self, run: Regenerated) -> None:
        page = run.page.read_text(encoding="utf-8")
        for made in run.made:
            assert f'id="{file_stem(made.label)}"' in page
            for panel in made.panels:
                assert f'id="chart-{file_stem(f"{made.label} {panel.name}")}"' in page
        assert page.count("<tr>\n<td><code>") == sum(len(made.claims) for made in run.made)

    def test_links_to_files_that_are_there(self, run: Regenerated) -> None:
        page = run.page.read_text(encoding="utf-8")
        links = re.findall(r'href="([^"#]+)"', page[: page.index("<script>")])
        assert links
        assert [link for link in links if not (run.page.parent / link).exists()] == []

    def test_says_that_our_loads_are_others(self, run: Regenerated) -> None:
        assert "which are not the paper&#39;s corpus" in run.page.read_text(encoding="utf-8")


class TestRunningAgain:
    def test_the_same_seed_gives_the_same_bytes_elsewhere(
        self, run: Regenerated, folder: Path, tmp_path: Path
    ) -> None:
        labels = ("fig:inout", "fig:realdata", "fig:app_mle_vs_L")
        regenerate(labels, out=tmp_path, fast=True, seed=0)
        for name, content in contents(tmp_path).items():
            if name != "paper.html":  # there it shows three figures, here all
                assert content == (folder / name).read_bytes()

    def test_another_seed_changes_what_is_random_only(self, run: Regenerated, tmp_path: Path) -> None:
        labels = ("tab:adjacency", "fig:poly_synth", "fig:realdata")
        first = regenerate(labels, out=tmp_path, fast=True, seed=0)
        second = regenerate(labels, out=tmp_path, fast=True, seed=1)
        same = [of(first, label).document == of(second, label).document for label in labels]
        assert same == [True, True, False]


class TestAnInterruptedRun:
    LABELS = ("tab:adjacency", "fig:poly_synth", "fig:realdata")

    @staticmethod
    def interrupt(label: str, share: float) -> None:
        if label == "fig:realdata":
            raise KeyboardInterrupt

    def test_leaves_whole_files_only(self, tmp_path: Path) -> None:
        with pytest.raises(KeyboardInterrupt):
            regenerate(self.LABELS, out=tmp_path, fast=True, progress=self.interrupt)
        left = contents(tmp_path)
        assert [name for name in left if name.endswith(".json")] == [
            "fig-poly_synth.json",
            "tab-adjacency.json",
        ]
        assert not any(name.startswith((".", "fig-realdata", "paper")) for name in left)

    def test_leaves_no_half_written_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def stop(*_paths: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("os.replace", stop)
        with pytest.raises(KeyboardInterrupt):
            regenerate(["tab:adjacency"], out=tmp_path, fast=True)
        assert contents(tmp_path) == {}

    def test_the_command_says_so(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def stop(*_arguments: object, **_options: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("sightline.theory.paper.run._make", stop)
        assert main(["paper", "--out", str(tmp_path)]) == 130
        assert capsys.readouterr().err.strip() == "Interrupted: nothing was written."


class TestTheCommand:
    def test_prints_a_line_for_each_figure(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["paper", "fig:mle", "claims", "--fast", "--out", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert re.search(r"^fig:mle +computed; within 2\.9·10⁻¹² of the printed curves; 24 random", shown)
        assert f"open {tmp_path / 'paper.html'}" in shown

    def test_prints_the_numbers_as_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["paper", "fig:realdata", "--fast", "--json", "--out", str(tmp_path)]) == 0
        (document,) = json.loads(capsys.readouterr().out)["figures"]
        assert document["label"] == "fig:realdata"
        assert document["result"]["consistent_tight"] == 96

    def test_tells_what_does_not_hold(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["paper", "fig:realdata", "--fast", "--out", str(tmp_path)]) == 0
        assert "does not hold: fig:realdata: (left) Colours are bins" in capsys.readouterr().out

    def test_refuses_an_unknown_figure_and_lists_the_known(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["paper", "fig:inout", "fig:nope", "--out", str(tmp_path / "new")]) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert "got 'fig:nope'" in line
        assert all(label in line for label in LABELS)
        assert not (tmp_path / "new").exists()

    def test_refuses_a_folder_that_cannot_be_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "taken").write_text("a file")
        for place in (tmp_path / "taken", tmp_path / "taken" / "below"):
            assert main(["paper", "tab:adjacency", "--out", str(place)]) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert line.startswith("InvalidInput: expected a folder that can be written, got ")

    def test_refuses_a_negative_seed(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="seed >= 0"):
            regenerate(["tab:adjacency"], out=tmp_path, seed=-1)

    @pytest.mark.parametrize("module", ["altair", "vl_convert", "jinja2"])
    def test_names_the_extra_that_is_missing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
    ) -> None:
        monkeypatch.setitem(__import__("sys").modules, module, None)
        with pytest.raises(MissingExtra, match=r'pip install "sightline\[report\]"'):
            regenerate(["tab:adjacency"], out=tmp_path, fast=True)


@pytest.mark.parametrize("label", LABELS)
def test_fast_asks_for_less_and_never_for_more(label: str) -> None:
    one = figure(label)
    assert one.fast.trials <= one.full.trials
    assert (one.fast.trials > 0) == (one.full.trials > 0)
