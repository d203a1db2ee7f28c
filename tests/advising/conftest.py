"""Designs of few values try one audit with less noise: walks take seconds each."""

from __future__ import annotations

import pytest

from sightline.advising import proposal


@pytest.fixture(autouse=True)
def one_audit_with_less_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposal, "_TRIES", 1)
