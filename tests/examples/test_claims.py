"""The lectures' claims, tried: rows are models, and the page says what was measured."""

import importlib
import inspect
import re

import numpy as np
import pytest
import rows
from conftest import ROOT
from rows import read

from keras_mt.models import Transformer, ensure_built


@pytest.fixture
def claims(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "examples/claims")
    return importlib.import_module("try_it")


def test_every_row_is_a_model(claims):
    assert {row for each in claims.CLAIMS.values() for row in each.values()} == set(claims.ROWS)
    for row in claims.ROWS:
        options = claims.options_of(row)
        assert options.keys() == claims.RECIPE.keys()
        takes = inspect.signature(claims.MODELS[options["architecture"]]).parameters
        assert options["model"].keys() <= takes.keys()


def test_results_are_of_the_recipe(claims):
    for name, line in read(claims.TRAINED).items():
        assert line["options"] == claims.options_of(name.rpartition(", seed ")[0]), name


@pytest.mark.parametrize(
    "row", ["no norm", "GRU encoder, Transformer decoder", "Transformer encoder, SSRU decoder"]
)
def test_models_decode_as_they_are_trained(claims, row):
    model = ensure_built(claims.new_model(1000, claims.options_of(row)))
    line = read(claims.TRAINED)[claims.seeds_of(row)[0]]
    assert model.count_params() == line["parameters"]  # As when it was measured.
    tokens = np.array([[5, 9, 3, 0]]), np.array([[2, 7, 9, 8]])
    logits = model(dict(zip(("source", "target"), tokens, strict=True)))
    cache = model.start_decoding(tokens[0])
    for position in range(2):  # Step by step the same.
        step = tokens[1][:, position : position + 1]
        found, cache = model.decode_step(step, position, cache)
        np.testing.assert_allclose(found[:, 0], logits[:, position], atol=1e-4)


def test_all_parts_make_the_transformer(claims):
    sizes = {"num_layers": 2, "d_model": 16, "num_heads": 2, "d_ff": 32}
    whole, parts = Transformer(40, **sizes), claims.Parts(40, **sizes)
    inputs = {"source": np.array([[5, 9, 3, 0]]), "target": np.array([[2, 7, 9, 8]])}
    parts(inputs)
    blocks = [*whole.encoder_stack.blocks, *whole.decoder_stack.blocks]
    names = ("self_attention", "cross_attention", "feed_forward")
    pairs = [(each, n) for each in blocks for n in names if getattr(each, n, None) is not None]
    layers, norms = parts.encoder + parts.decoder, parts.encoder_norms + parts.decoder_norms
    parts.embedding.set_weights(whole.source_embedding.get_weights())
    for (block, name), layer, norm in zip(pairs, layers, norms, strict=True):
        layer.set_weights(getattr(block, name).get_weights())
        norm.set_weights(getattr(block, f"{name}_norm").get_weights())
    np.testing.assert_allclose(parts(inputs), whole(inputs), atol=1e-5)


def test_a_table_has_the_mean_and_the_range(claims, monkeypatch):
    scores = {"1 head": [10, 12, 14.5], "Transformer": [20.25, 20.25, 20.25]}
    lines = {
        f"{row}, seed {seed}": {"bleu": bleu, "parameters": 1000}
        for row, found in scores.items()
        for seed, bleu in enumerate(found, 1)
    }
    monkeypatch.setitem(claims.CLAIMS, "some", {"1": "1 head", "4": "Transformer"})
    *_, one, four = claims.claim_table("some", lines).splitlines()
    assert one == "| 1 | 12.2 | 10.0 to 14.5 | 3 | 1,000 |"
    assert four.startswith("| 4 | 20.2 | 20.2 to 20.2 | 3 ")
    del lines["1 head, seed 2"]
    assert claims.claim_table("some", lines) == ""


def test_the_page_says_what_was_measured(claims):
    page = claims.PAGE.read_text(encoding="utf-8")
    found = re.findall(r"<!-- (?!end)(\w+) -->\n\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert dict(found) == claims.tables()


def test_no_name_stands_for_all():
    parser = rows.parser("", {"a": 1}, corpora=["x"])
    assert parser.parse_args(["x"]).names == [] and parser.parse_args(["x", "a"]).names == ["a"]


def test_rows_are_measured_once(tmp_path):
    path, calls = tmp_path / "rows.jsonl", []

    def measure(name):
        calls.append(name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"value": len(calls)}

    with pytest.raises(KeyboardInterrupt):
        rows.measured(path, ["a", "b", "c"], measure, ["c", "b"])
    for chosen in (["b", "c"], []):
        lines = rows.measured(path, ["a", "b", "c"], measure, chosen)
    assert calls == ["c", "b", "b", "a"]
    values = [(name, line["value"]) for name, line in lines.items()]
    assert values == [("a", 4), ("b", 3), ("c", 1)] and lines == read(path)


def test_a_table_is_put_in_its_place(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("one\n<!-- x -->\nold\n<!-- end -->\n<!-- y -->\nkept\n<!-- end -->\n")
    for _ in range(2):
        rows.put(page, "x", "| new |\n")
    kept = "<!-- y -->\nkept\n<!-- end -->\n"
    assert page.read_text() == f"one\n<!-- x -->\n\n| new |\n\n<!-- end -->\n{kept}"
