"""Sphinx settings. The built pages need no network: formulas become MathML, fonts and scripts are local."""

from __future__ import annotations

from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

project = "Sightline"
author = "The Sightline authors"
release = version = installed_version("sightline")
project_copyright = "the Sightline authors, Apache-2.0"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["amsmath", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = False

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

html_theme = "furo"
html_title = f"Sightline {release}"
html_static_path = ["_static"]
html_css_files = ["sightline.css"]
html_copy_source = False
html_show_sphinx = False

MATHML = "http://www.w3.org/1998/Math/MathML"
ElementTree.register_namespace("", MATHML)


def beside_the_accent(formula: ElementTree.Element) -> None:
    """Move the index of an accented letter from below the letter, where docutils puts it, to its side."""
    for parent in formula.iter():
        for position, child in enumerate(parent):
            if child.tag != f"{{{MATHML}}}munderover" or (child[2].text or "") not in "~^¯‾→˙":
                continue
            base, index, accent = child
            accented = ElementTree.Element(f"{{{MATHML}}}mover")
            accented.extend([base, accent])
            indexed = ElementTree.Element(f"{{{MATHML}}}msub")
            indexed.extend([accented, index])
            parent[position] = indexed


def mathml(node: nodes.math | nodes.math_block, *, display: bool) -> str:
    """The formula as MathML, which browsers draw without a script; a warning where it cannot be."""
    try:
        formula = ElementTree.fromstring(tex2mathml(node.astext(), as_block=display))
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return ""
    beside_the_accent(formula)
    return ElementTree.tostring(formula, encoding="unicode")


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    self.body.append(mathml(node, display=False))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    self.body.append(f'<div class="math">{number}{mathml(node, display=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Write formulas this way instead of with a script that the reader's browser would have to fetch."""
    app.add_node(nodes.math, override=True, html=(visit_math, None))
    app.add_node(nodes.math_block, override=True, html=(visit_math_block, None))
