"""Graphs as users have them compute what the tests see, whose graphs are not optimized."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf
from conftest import ROOT
from main_paths import answers, trained

from keras_mt import ExportedTranslator

pytestmark = pytest.mark.long


def test_optimized_graphs_train_and_serve_as_those_of_the_tests(
    eager, run_dir, exported_whole, corpus, sources
):
    texts = sources[:2]
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    process = subprocess.run(
        [sys.executable, ROOT / "tests" / "main_paths.py", run_dir, exported_whole, corpus],
        env={**environment, "PYTHONPATH": str(ROOT)},
        input="\n".join(texts), stdout=subprocess.PIPE, encoding="utf-8", check=True,
    )  # fmt: skip
    found = json.loads(process.stdout.splitlines()[-1])
    assert not found["eager"] and not found["options"].get("disable_meta_optimizer")
    assert tf.config.optimizer.get_experimental_options()["disable_meta_optimizer"]

    expected = trained(run_dir, corpus)
    for name in ("loss", "token_accuracy", "val_loss"):
        assert found["history"][name] == pytest.approx(expected[name], rel=1e-3)
    translations, log_prob = found["answers"]
    others, other_log_prob = answers(ExportedTranslator(exported_whole), texts)
    assert log_prob == pytest.approx(other_log_prob, abs=1e-2)
    for (text, score), (other, other_score) in zip(translations, others, strict=True):
        assert text == other and score == pytest.approx(other_score, abs=1e-3)
