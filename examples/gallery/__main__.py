"""Build the gallery: the tables of all deployments, the page docs/gallery.md and its pictures."""

from __future__ import annotations

from pathlib import Path

from examples.gallery.cards import FOLDER, NAMES, audited, read_card
from examples.gallery.page import PAGE, PICTURES, page, pictures


def build() -> None:
    """Write everything again, the page and its pictures once all of them are computed."""
    files: dict[Path, str] = {}
    deployments = []
    for name in NAMES:
        card = read_card(name)
        (FOLDER / name / "data.csv").write_text(card.table_text(), encoding="utf-8")
        deployments.append(audited(card))
        files |= {PICTURES / file: drawn for file, drawn in pictures(deployments[-1]).items()}
        print(f"{card.title}: audited", flush=True)
    files[PAGE] = page(deployments)
    PICTURES.mkdir(exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    build()
