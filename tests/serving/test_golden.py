"""An export of keras_mt 0.1, written once and never again: later versions must give the same."""

import json
import tarfile
from pathlib import Path

import numpy as np
import tensorflow as tf
from calls import tensors

from keras_mt.serving import ExportedTranslator

HERE = Path(__file__).parent


def test_an_old_export_gives_the_same(tmp_path):
    with tarfile.open(HERE / "golden.tar.xz") as archive:
        archive.extractall(tmp_path / "pt_en", filter="data")
    signatures = tf.saved_model.load(str(tmp_path / "pt_en" / "1")).signatures
    calls = json.loads((HERE / "golden.json").read_text(encoding="utf-8"))
    assert {call["signature"] for call in calls} == set(signatures)
    for call in calls:
        found = signatures[call["signature"]](**tensors(call["inputs"]))
        for name, expected in call["outputs"].items():
            if found[name].dtype == tf.string:
                np.testing.assert_array_equal(found[name], np.char.encode(expected, "utf-8"))
            else:
                np.testing.assert_allclose(found[name], expected, atol=1e-3)
    by_default = next(call for call in calls if call["signature"] == "serving_default")
    exported = ExportedTranslator(tmp_path / "pt_en")
    assert [found[0].text for found in exported.hypotheses(by_default["inputs"]["text"])] == [
        row[0] for row in by_default["outputs"]["translations"]
    ]
