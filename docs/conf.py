"""Sphinx settings. The built pages need no network: formulas become MathML, fonts and scripts are local."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from docutils import nodes
from docutils.statemachine import StringList
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import accents, tex2mathml
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

import sightline
from sightline._names import homes

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
default_role = "code"  # single backticks in docstrings: the paper's labels, argument names

autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
# Signatures show the names that the code uses, not what they stand for.
autodoc_type_aliases = {name: name for name in ("ArrayLike", "FloatArray", "IndexArray")}
autodoc_class_signature = "mixed"

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"Sightline {release}"
html_static_path = ["_static"]
html_css_files = ["sightline.css"]
html_copy_source = False
html_show_sphinx = False

# Common TeX that docutils does not read, and how to say the same so that it does.
DOCUTILS_LACKS = (
    (r"\\dots(?![a-z])", r"\\ldots"),
    (r"\{\\rm ([^{}]*)\}", r"{\\mathrm{\1}}"),
    (r"\\frac(\d)(\d)", r"\\frac{\1}{\2}"),
)
MATHML = "http://www.w3.org/1998/Math/MathML"
ACCENTS = {*accents.values(), "^", "~", "_"}
ElementTree.register_namespace("", MATHML)


def beside_the_accent(formula: ElementTree.Element) -> None:
    """Move the index of an accented letter from below the letter, where docutils puts it, to its side."""
    for parent in formula.iter():
        for position, child in enumerate(parent):
            if child.tag != f"{{{MATHML}}}munderover" or child[2].text not in ACCENTS:
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
        tex = node.astext()
        for pattern, replacement in DOCUTILS_LACKS:
            tex = re.sub(pattern, replacement, tex)
        xml = tex2mathml(tex, as_block=display).replace("&ApplyFunction;", "&#x2061;")
        formula = ElementTree.fromstring(xml)
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return ""
    beside_the_accent(formula)
    for bar in formula.iter(f"{{{MATHML}}}mo"):
        if bar.text == "|":  # of |C|, not a relation
            bar.attrib |= {"lspace": "0", "rspace": "0"}
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


def formulas_between_dollars(_app: Sphinx, _what: str, _name: str, *rest: object) -> None:
    """Docstrings may write a formula as ``$x$`` or ``$$x$$``, as the pages do."""
    lines = rest[-1]
    assert isinstance(lines, list)
    text = "\n".join(lines)
    text = re.sub(r"\$\$(.+?)\$\$", display_formula, text, flags=re.DOTALL)
    text = re.sub(r"(?<!\\)\$([^$]+)\$", lambda found: f":math:`{' '.join(found[1].split())}`", text)
    lines[:] = text.split("\n")


def display_formula(found: re.Match[str]) -> str:
    return f"\n\n.. math:: {' '.join(found[1].split())}\n\n"


class PublicNames(SphinxDirective):
    """The names at the root under the headings of its stub, then those of each room under what it is for."""

    def run(self) -> list[nodes.Node]:
        lines: list[str] = []
        for heading, names in sections("sightline").items():
            if names := [name for name in names if not inspect.ismodule(getattr(sightline, name))]:
                lines += [f"## {heading}", "", *entries("sightline", names)]
        for name in dir(sightline):
            room = getattr(sightline, name)
            if inspect.ismodule(room):
                about = (inspect.getdoc(room) or "").splitlines()
                lines += [f"## sl.{name}", "", "````{eval-rst}", *about, "````", ""]
                named = homes(room.__name__)
                lines += entries(room.__name__, [one for one, home in named.items() if home != room.__name__])
        content = StringList(lines, source=self.get_source_info()[0])
        return self.parse_text_to_nodes(content, allow_section_headings=True)


def sections(package: str) -> dict[str, list[str]]:
    """The public names of a package under the comments of its stub."""
    found: dict[str, list[str]] = {}
    stub = Path(import_module(package).__file__ or "").with_suffix(".pyi").read_text(encoding="utf-8")
    for line in stub.splitlines():
        if line.startswith("# ") and "ruff" not in line:
            found[line.removeprefix("# ")] = []
        elif line.startswith("from "):
            list(found.values())[-1].append(line.split()[3])
    return found


def entries(package: str, names: Iterable[str]) -> list[str]:
    """What autodoc reads for each name."""
    module = import_module(package)
    found = ["````{eval-rst}"]
    for name in names:
        found += [f".. {autodoc_directive(getattr(module, name))}:: {package}.{name}", ""]
    return [*found, "````", ""]


def autodoc_directive(value: object) -> str:
    if inspect.isclass(value):
        return "autoexception" if issubclass(value, BaseException) else "autoclass"
    return "autofunction" if inspect.isfunction(value) else "autodata"


def setup(app: Sphinx) -> None:
    """Formulas without a script that a browser would have to fetch; the reference from the code."""
    app.connect("autodoc-process-docstring", formulas_between_dollars)
    app.add_directive("public-names", PublicNames)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
