"""The site: `make docs`."""

import inspect
import os
import re
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).parents[1]))

from keras_mt.version import __version__ as release

project = "keras_mt"
author = copyright = "The keras_mt maintainers"
version = release
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
smartquotes_action = "q"  # Options keep their two hyphens.
html_theme = "furo"
html_title = f"keras_mt {release}"
html_math_renderer = "mathml"  # Browsers draw it without a script from elsewhere.

# Docstrings are Keras's kind: Google's sections, and single backticks around code.
default_role = "code"
napoleon_custom_sections = [("Call arguments", "params_style"), "Reference"]
napoleon_use_rtype = False
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_inherit_docstrings = False
autodoc_mock_imports = ["apache_beam"]
autodoc_default_options = {"members": True, "imported-members": True}
autosummary_generate = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # `make notebooks` runs them and keeps what they show.
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True


def setup(app):
    app.connect("source-read", link_outside)
    app.connect("autodoc-process-docstring", set_formulas)
    app.connect("autodoc-process-signature", constructor)
    app.connect("autodoc-skip-member", without_text)
    app.connect("sphinx-click-process-options", without_unset)
    app.connect("sphinx-click-process-epilog", example)
    app.add_html_math_renderer("mathml", (formula, None), (formula, None))


def link_outside(app, name, source):
    """Pages that are not of the site, such as the README: by a link to the file."""

    def link(match):
        page = Path(app.srcdir, name).parent / match[1]
        inside = page.resolve().is_relative_to(app.srcdir)
        return match[0] if inside else f"](path:{match[1]})"

    # A name of the reference, which on GitHub is a link to its page.
    text = re.sub(r"\]\((?:\.\./)?api/\w+\.md#(keras_mt\.[\w.]+)\)", r"](#\1)", source[0])
    text = text.replace("](../CHANGELOG.md)", "](changelog.md)")
    text = text.replace("](../../CONTRIBUTING.md)", "](../contributing.md)")
    source[0] = re.sub(r"\]\((\.\./[^)#]+\.md)(#[^)]*)?\)", link, text)


def formula(writer, node):
    """TeX as MathML; wide formulas scroll by themselves."""
    block = isinstance(node, nodes.math_block)
    mathml = tex2mathml(node.astext(), as_block=block)
    writer.body.append(
        f'<div style="padding: 0.5em 0; overflow-x: auto">{mathml}</div>\n' if block else mathml
    )
    raise nodes.SkipNode


def set_formulas(app, what, name, thing, options, lines):
    """Indented formulas as they are written, not as a quotation."""
    text = re.sub(r"(?m)^(?![.:]|- )(\S.*):\n\n(?= {4}\S)", r"\1::\n\n", "\n".join(lines))
    lines[:] = text.split("\n")


def constructor(app, what, name, thing, options, signature, returns):
    """A class's arguments from its constructor, which Keras hides behind `__new__`."""
    if what == "class" and inspect.isfunction(thing.__init__):
        own = inspect.signature(thing.__init__)
        shown = [p.replace(annotation=p.empty) for p in list(own.parameters.values())[1:]]
        return str(inspect.Signature(shown)), returns
    return signature, returns


def without_text(app, what, name, thing, skip, options):
    """Fields of named tuples, which their class describes, have no text of their own."""
    return skip or (getattr(thing, "__doc__", None) or "").startswith("Alias for field number")


def without_unset(app, context, lines):
    """Options that have no default show none, though click has a value for it."""
    lines[:] = [line for line in "\n".join(lines).split("\n") if "Sentinel.UNSET" not in line]


def example(app, context, lines):
    """What stands below a command's help is what one may type."""
    if any(lines):
        text = "\n".join(lines).split("\n")
        lines[:] = ["::", "", *("    " + line.removeprefix("| ") for line in text), ""]
