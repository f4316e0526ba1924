import functools
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import ROOT

from keras_mt import Translator
from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.translation.exported import ExportedTranslator

EXPORT = ROOT / "saved_models" / "multi30k_en_de"
COMMAND = """
import sys, keras_mt_command
sys.argv = ["keras-mt", "translate", sys.argv[1]]
try:
    keras_mt_command.main()
except SystemExit as end:
    assert not end.code
print(*sys.modules)
"""


@pytest.mark.long
def test_the_command_runs_an_export_without_keras():
    result = subprocess.run(
        [sys.executable, "-c", COMMAND, EXPORT],
        cwd=ROOT, input="A man is reading a book.\n", capture_output=True, text=True, check=True,
    )  # fmt: skip
    translation, modules = result.stdout.splitlines()
    assert translation == "Ein Mann liest ein Buch."
    modules = set(modules.split())
    assert {"tensorflow", "keras_mt.translation.exported"} <= modules
    above = {"keras_mt.layers", "keras_mt.models", "keras_mt.translation.translator"}
    assert not {"keras", "tensorflow_text", "jax", *above} & modules


@pytest.fixture
def confident(exported_whole, monkeypatch):
    """An export's translator, with a signature `confidence` made of `serving_default`."""
    reader = ExportedTranslator(exported_whole)
    session = reader._session

    def with_confidence(name):
        if name != "confidence":
            return session(name)

        def run(text):
            outputs = session("serving_default")(text=text)
            shape = outputs["scores"].shape
            numbers = dict.fromkeys(("mean_log_probs", "worst_log_probs"), np.zeros(shape))
            flags = dict.fromkeys(("loops", "disproportionate"), np.zeros(shape, bool))
            return {**outputs, **numbers, **flags, "worst_tokens": np.full(shape, b"", object)}

        return run

    monkeypatch.setattr(reader, "_session", with_confidence)
    reader._signatures = {**reader._signatures, "confidence": None}
    return reader


@pytest.mark.long
def test_a_confidence_loses_no_kept_span_and_no_markup(confident):
    texts = ["O livro.", "O livro https://a.example/b."]
    plain, kept = confident.hypotheses(texts, confidence=True)
    assert plain[0].warnings == () and plain[0].score > NO_HYPOTHESIS
    assert "https://a.example/b" in kept[0].text
    assert not hasattr(kept[0], "warnings")  # No signature has both.
    (found,) = confident.hypotheses(["<code>x1</code> O livro."], confidence=True, markup="html")
    assert "<code>x1</code>" in found[0].text


def test_threads_that_ask_at_once_load_an_export_once(monkeypatch):
    made, reader = [], ExportedTranslator(EXPORT)

    def slow(path):
        made.append(path)
        time.sleep(0.1)
        return type("Loaded", (), {"signatures": {}})

    monkeypatch.setattr("tensorflow.saved_model.load", slow)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: reader.signatures, range(4)))
    assert len(made) == 1 and found == [{}] * 4


def test_an_export_in_the_place_of_a_run_is_named(run_dir):
    load = functools.partial(Translator.load, dtype=None)
    for paths in (EXPORT, [run_dir, EXPORT]):
        with pytest.raises(ValueError, match=r"multi30k_en_de is an export.* give the run folder"):
            load(paths)
