"""examples/own_model.py goes through every command, and is served, with nothing else changed."""

import json

import numpy as np
import pytest
from command import keras_mt
from conftest import ROOT, bare_ends, op_by_op

from keras_mt import ExportedTranslator, Translator

ARCHITECTURE = "own_model:GRUTranslator"


@pytest.fixture(scope="module")
def own_run(brief_corpus, tmp_path_factory):
    """The run folder of a command given in the folder of the file; the tests run op by op too."""
    output = tmp_path_factory.mktemp("own") / "run"
    with op_by_op(), bare_ends(), pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT / "examples")
        keras_mt(
            "train", "--architecture", ARCHITECTURE, "--set", "d_model=24", "--data", brief_corpus,
            "--source", "pt", "--target", "en", "--output", output, "--vocab-size", 500,
            "--max-length", 40, "--batch-tokens", 512, "--epochs", 2,
            "--learning-rate", 0.01, "--warmup-steps", 1,
        )  # fmt: skip
        yield output


@pytest.mark.long
def test_its_run_says_what_it_is_and_learns(own_run):
    config = json.loads((own_run / "config.json").read_text())
    assert config["architecture"] == ARCHITECTURE
    assert config["model_config"]["d_model"] == 24 and config["model_config"]["max_length"] == 40
    losses = [r.split(",") for r in (own_run / "log.csv").read_text().splitlines()]
    place = losses[0].index("val_loss")
    losses = [float(row[place]) for row in losses[1:] if row[place]]
    assert losses[-1] < losses[0]


@pytest.mark.long
def test_it_is_loaded_only_where_its_class_is_given(own_run, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    result = keras_mt("translate", own_run, stdin=b"x", check=False)
    assert result.exit_code == 1 and "MODULE:CLASS, as --architecture" in result.stderr
    options = "--architecture", ARCHITECTURE, "--max-length", 4
    out = keras_mt("translate", own_run, *options, stdin="Olá!\n".encode())
    assert out.stdout.splitlines() == [Translator.load(own_run, ARCHITECTURE, max_length=4)("Olá!")]


@pytest.mark.long
def test_it_is_exported_and_served(own_run, sources, tmp_path, monkeypatch, signatures_alone):
    sources = sources[:4]
    signatures_alone("serving_default", "align")
    monkeypatch.chdir(ROOT / "examples")
    options = "--architecture", ARCHITECTURE, "--max-length", 8
    keras_mt("export", own_run, tmp_path / "own" / "1", *options)
    translator = Translator.load(own_run, ARCHITECTURE, max_length=8)
    exported = ExportedTranslator(tmp_path / "own")  # Of TensorFlow's ops alone.
    for found, expected in zip(
        exported.hypotheses(sources), translator.hypotheses(sources), strict=True
    ):
        assert [h.text for h in found] == [h.text for h in expected]
        np.testing.assert_allclose([h.score for h in found], [h.score for h in expected], atol=1e-4)
    assert exported.card["model"]["architecture"] == "GRUTranslator"
    (*tokens, attention), (*others, expected) = (
        x.align(sources[0]) for x in (exported, translator)
    )
    assert tokens == others
    np.testing.assert_allclose(attention, expected, atol=1e-4)


def test_an_impossible_argument_is_refused_with_those_there_are(corpus, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT / "examples")
    result = keras_mt(
        "train", "--architecture", ARCHITECTURE, "--set", "num_heads=2", "--data", corpus,
        "--source", "pt", "--target", "en", "--output", tmp_path / "run", check=False,
    )  # fmt: skip
    assert result.exit_code == 1
    message = "it has no argument 'num_heads'. Its arguments are 'vocab_size', 'd_model'"
    assert message in result.stderr
