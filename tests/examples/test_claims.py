"""The lectures' claims, tried: rows are models, and the page says what was measured."""

import importlib
import inspect
import re

import keras
import numpy as np
import pytest
from conftest import ROOT
from result_lines import add, put, read

from keras_mt.layers import EncoderBlock, MultiHeadAttention
from keras_mt.models import Recurrent, Transformer


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/claims")
    return importlib.import_module("try_it")


def test_every_row_is_a_model(claims):
    assert {row for rows in claims.CLAIMS.values() for row in rows.values()} == set(claims.ROWS)
    for row in claims.ROWS:
        options = claims.options_of(row)
        assert options.keys() == claims.options_of("Transformer").keys()
        takes = Recurrent if options["architecture"] == "recurrent" else Transformer
        assert options["model"].keys() <= inspect.signature(takes).parameters.keys()
        assert options["without"] in claims.WITHOUT and options["architecture"] in claims.MODELS


@pytest.mark.parametrize(
    "row", ["GRU encoder, Transformer decoder", "Transformer encoder, SSRU decoder"]
)
def test_mixed_models(claims, row):
    options = claims.options_of(row)
    sizes = {**options["model"], "d_model": 16, "d_ff": 16, "num_layers": 1}
    model = claims.MODELS[options["architecture"]](40, **sizes)
    recurrent = [layer for layer in model._flatten_layers() if "GRU" in type(layer).__name__]
    assert bool(recurrent) == row.startswith("GRU")
    tokens = np.array([[5, 9, 3, 0]]), np.array([[2, 7, 9, 8]])
    logits = model(dict(zip(("source", "target"), tokens, strict=True)))
    cache = model.start_decoding(tokens[0])
    for position in range(2):  # Step by step the same.
        step = tokens[1][:, position : position + 1]
        found, cache = model.decode_step(step, position, cache)
        np.testing.assert_allclose(found[:, 0], logits[:, position], atol=1e-4)


def test_a_block_without_a_part(claims):
    x = keras.random.normal((2, 5, 8), seed=1)
    with claims.without_residual():
        block = EncoderBlock(num_heads=2, d_ff=16)
        block(x)
        for weight in block.feed_forward.weights:
            weight.assign(keras.ops.zeros(weight.shape))
        assert not keras.ops.convert_to_numpy(block(x)).any()
    assert keras.ops.convert_to_numpy(block(x)).any()
    with claims.without_norm():
        block = EncoderBlock(num_heads=2, d_ff=16)
        block(x)
        assert len(block.weights) == len(block.self_attention.weights) + 4
    attention = MultiHeadAttention(num_heads=2)
    attention(x, x)
    with claims.without_scaling():
        unscaled = keras.ops.convert_to_numpy(attention(x, x))
    for weight in attention.query_dense.weights:
        weight.assign(weight * np.sqrt(4))  # Each head is 4 wide.
    np.testing.assert_allclose(unscaled, attention(x, x), atol=1e-5)


def test_a_table_has_the_mean_and_the_range(claims):
    lines = {
        f"{row}, seed {seed}": {"bleu": bleu, "parameters": 1000}
        for row, scores in {"1 head": [10, 12, 14.5], "Transformer": [20.25]}.items()
        for seed, bleu in enumerate(scores, 1)
    }
    claims.CLAIMS["some"] = {"1": "1 head", "4": "Transformer"}
    *_, one, four = claims.claim_table("some", lines).splitlines()
    del claims.CLAIMS["some"]
    assert one == "| 1 | 12.2 | 10.0 to 14.5 | 3 | 1,000 |"
    assert four.startswith("| 4 | 20.2 | 20.2 to 20.2 | 1 ")


def test_the_page_says_what_was_measured(claims):
    page = claims.PAGE.read_text(encoding="utf-8")
    found = re.findall(r"<!-- (?!end)(\w+) -->\n\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert dict(found) == claims.tables()
    for name, line in read(claims.TRAINED).items():
        assert line["options"] == claims.options_of(name.rpartition(", seed ")[0])


def test_lines_are_kept_in_their_order_and_a_table_in_its_place(tmp_path):
    path, page = tmp_path / "rows.jsonl", tmp_path / "page.md"
    assert read(path) == {}
    for row, value in (("b", 1), ("a", 2), ("b", 3)):
        add(path, {"row": row, "value": value}, ["a", "b"])
    assert list(read(path).values()) == [{"row": "a", "value": 2}, {"row": "b", "value": 3}]
    page.write_text("one\n<!-- x -->\nold\n<!-- end -->\n<!-- y -->\nkept\n<!-- end -->\n")
    for _ in range(2):
        put(page, "x", "| new |\n")
    kept = "<!-- y -->\nkept\n<!-- end -->\n"
    assert page.read_text() == f"one\n<!-- x -->\n\n| new |\n\n<!-- end -->\n{kept}"
