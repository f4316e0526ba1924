import ast
import doctest
import importlib.util
import inspect
import pkgutil
import re
from pathlib import Path

import keras
import pytest
from conftest import ROOT

import keras_mt
from keras_mt import Translator
from keras_mt.training import train

LAYERS_ALONE = """
import builtins, sys
asked, find = set(), builtins.__import__

def spy(name, *arguments, **options):
    asked.add(name)
    return find(name, *arguments, **options)

builtins.__import__ = spy  # The process that this one is forked of has imported some.
import keras_mt
from keras_mt import layers, losses, metrics, models, schedules
import keras, numpy as np
model = keras_mt.Transformer(vocab_size=9, num_layers=1, d_model=8, num_heads=2, d_ff=8)
x = np.array([[2, 5, 3]])
print(model({"source": x, "target": x}).shape)
found = asked | {name for name in sys.modules if name.startswith("keras_mt.")}
heavy = ("keras_mt.data", "keras_mt.text", "keras_mt.tran", "tensorflow_text")
assert "keras_mt.layers" in found and not [name for name in found if name.startswith(heavy)]
"""


def test_importing_the_package_imports_the_layers_alone(python):
    process = python("-c", LAYERS_ALONE, cwd=ROOT)
    assert process.returncode == 0, process.stderr


def test_the_version_is_that_of_the_citation_and_of_the_changes():
    citation, changes = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("CITATION.cff", "CHANGELOG.md")
    )
    assert f"\nversion: {keras_mt.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)[1]
    assert newest == keras_mt.__version__.removesuffix(".dev0")


WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
for name in [name for name in sys.modules if name.startswith(("keras", "tensorflow"))]:
    del sys.modules[name]  # The process that this one is forked of has imported it.

import keras_mt
from keras_mt import ExportedTranslator, Glossary, documents, text, translation

assert translation.ExportedTranslator is ExportedTranslator and text.Glossary is Glossary
assert not hasattr(keras_mt, "nonsense") and keras_mt.__version__
for name in ("Transformer", "layers", "Translator", "training", "text.Tokenizer"):
    try:
        eval(f"keras_mt.{name}")
    except ImportError as error:
        print(error)
try:
    ExportedTranslator("saved_models/multi30k_en_de")
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", [("keras", "tensorflow"), ("tensorflow",)])
def test_without_keras_or_its_backend_there_is_what_exports_need(missing, python):
    process = python("-c", WITHOUT, *missing, cwd=ROOT)
    assert process.returncode == 0, process.stderr
    needy = [f"keras_mt.{name}" for name in ("Transformer", "layers", "Translator", "training")]
    needs = [f"{what} needs {missing[0]}," for what in needy]
    needs += [f"{what} needs tensorflow," for what in ("keras_mt.text.Tokenizer", "A SavedModel")]
    expected = [f"{need} which is not installed: pip install keras_mt" for need in needs]
    assert process.stdout.splitlines() == expected


@pytest.mark.parametrize("room", ["layers", "models", "losses.py", "metrics.py", "schedules.py"])
def test_backend_neutral_rooms_never_import_tensorflow(room):
    place = ROOT / "keras_mt" / room
    for path in place.glob("*.py") if place.is_dir() else [place]:
        assert "tensorflow" not in [
            word.split(".")[0]
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.lstrip().startswith(("import ", "from "))
            for word in line.split()[1:2]
        ]


def test_public_names():

    for name in keras_mt.__all__:
        assert getattr(keras_mt, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = keras_mt.nonsense


def unhinted(body):
    """What lacks a type in public signatures: arguments, and functions for what they return."""
    for node in body:
        name = getattr(node, "name", "_")
        if isinstance(node, ast.ClassDef) and not name.startswith("_"):
            yield from (f"{name}.{inner}" for inner in unhinted(node.body))
        elif isinstance(node, ast.FunctionDef) and (name[0] != "_" or name.endswith("__")):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            for each in filter(None, named):
                if each.annotation is None and each.arg not in ("self", "cls"):
                    yield f"{name}({each.arg})"
            if node.returns is None and name != "__init__":
                yield name


def test_what_lacks_a_hint_is_found():
    source = """
def f(a, *b, c: int, **d): ...
def _g(a): ...
def h(a: int) -> int: return lambda x: x
class A:
    def __init__(self, a): ...
    def __len__(self): ...
    @classmethod
    def m(cls, a: int) -> int: ...
class _B:
    def m(self, a): ...
"""
    expected = ["f(a)", "f(b)", "f(d)", "f", "A.__init__(a)", "A.__len__"]
    assert list(unhinted(ast.parse(source).body)) == expected


def test_public_signatures_have_type_hints():
    missing, seen = [], 0
    for path in (ROOT / "keras_mt").rglob("*.py"):
        if path.parent.name != "cli":
            found = unhinted(ast.parse(path.read_text(encoding="utf-8")).body)
            missing += [f"{path.relative_to(ROOT)}: {name}" for name in found]
            seen += 1
    assert seen > 30 and not missing
    assert (ROOT / "keras_mt" / "py.typed").is_file()


def rooms():
    """The modules whose names are public, each with a page in the API reference."""

    names = {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}
    names -= {"keras_mt", "command", "beam"}  # Beam may be missing.
    assert names == {name for name in keras_mt.__all__ if name[0].islower()}
    return {name: importlib.import_module(f"keras_mt.{name}") for name in sorted(names)}


def test_every_public_name_has_an_entry_with_an_example():
    for name, room in rooms().items():
        page = (ROOT / "docs" / "api" / f"{name}.md").read_text(encoding="utf-8")
        assert f".. automodule:: keras_mt.{name}\n" in page
        for each in room.__all__:
            thing = getattr(room, each)
            # Sphinx lists what dir() has.
            assert each in dir(room) or f"class:: keras_mt.{name}.{each}\n" in page
            if callable(thing):
                assert ">>>" in thing.__doc__, f"{name}.{each}"
            elif not inspect.ismodule(thing):  # Of a constant both stand in the page.
                assert f".. py:data:: keras_mt.{name}.{each}\n" in page
                assert re.search(rf"^>>> .*\b{each}\b", page, re.MULTILINE), f"{name}.{each}"


def test_a_name_has_one_home():
    """It may stand at the top of the package too."""
    homes = {}
    for name, room in rooms().items():
        for each in room.__all__:
            thing = getattr(room, each)
            if hasattr(thing, "__qualname__"):
                homes.setdefault(thing, []).append(f"{name}.{each}")
    assert len(homes) > 50 and not [names for names in homes.values() if len(names) > 1]


@pytest.mark.skipif(importlib.util.find_spec("apache_beam") is not None, reason="Beam is there")
def test_where_beam_is_missing_its_extra_is_named():
    with pytest.raises(ValueError, match=r"pip install 'keras_mt\[beam\]'"):
        importlib.import_module("keras_mt.beam")


def examples_of(path):
    """The number of docstrings that have examples."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return sum(">>>" in (ast.get_docstring(n) or "") for n in nodes if isinstance(n, kinds))


def test_docstring_examples_run(tmp_path, monkeypatch):
    import keras
    import numpy as np
    import tensorflow as tf

    from keras_mt.layers import dot_product

    monkeypatch.chdir(tmp_path)
    names = {"keras": keras, "np": np, "tf": tf, "causal_mask": dot_product.causal_mask}
    options = {"extraglobs": names, "optionflags": doctest.NORMALIZE_WHITESPACE}
    attempted = 0
    for module in pkgutil.walk_packages(keras_mt.__path__, "keras_mt."):
        if module.name.endswith(("__main__", ".beam")):  # tests/test_beam.py runs that one's.
            continue
        loaded = importlib.import_module(module.name)
        found = [test for test in doctest.DocTestFinder().find(loaded) if test.examples]
        assert len(found) == examples_of(Path(loaded.__file__)), module.name
        result = doctest.testmod(loaded, **options)
        assert not result.failed, module.name
        attempted += result.attempted
    assert attempted > 100
    for page in (ROOT / "docs" / "api").glob("*.md"):
        text = re.sub("^```.*", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
        assert not doctest.DocTestRunner().run(test).failed, page


def test_what_needs_tensorflow_says_so_on_another_backend(monkeypatch, tmp_path, run_dir):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    for needy in (
        lambda: train("phrasebook", "pt", "en", tmp_path / "run"),
        lambda: Translator.load(run_dir),
        lambda: keras_mt.Tokenizer,
    ):
        with pytest.raises(ImportError, match=r"is jax: set .*KERAS_BACKEND=tensorflow"):
            needy()
    assert not list(tmp_path.iterdir())
    assert keras_mt.ExportedTranslator and keras_mt.Glossary  # Whose exports need no backend.
