"""Folders for transformers.

Of an imported model comes out what transformers itself had written. Those of our own models are
read back by `from_huggingface`, which test_huggingface.py holds against transformers; that
transformers itself reads them is for golden/check_transformers.py to show.
"""

import json

import numpy as np
import pytest
from command import keras_mt
from runs import disturb

from keras_mt import Transformer, Translator
from keras_mt.convert import from_huggingface, huggingface, import_model
from keras_mt.convert.card import read_card
from keras_mt.convert.huggingface import to_huggingface
from keras_mt.convert.weights import read_weights
from keras_mt.data import phrasebook

SMALL = {"num_layers": 2, "d_model": 32, "num_heads": 4, "d_ff": 48, "max_length": 64}


@pytest.mark.long
def test_a_run_goes_out_and_comes_back(eager, load, run_dir, tmp_path):
    folder = tmp_path / "new" / "marian"
    keras_mt("export", run_dir, folder, "--format", "huggingface")
    ours, back = load(split_sentences=False), from_huggingface(folder)
    texts = [pair[0] for pair in phrasebook.pairs("test")][:6]
    assert back(texts) == ours(texts)
    for one, other in zip(
        ours.score(texts[:3], texts[3:]), back.score(texts[:3], texts[3:]), strict=True
    ):
        assert other.log_prob == pytest.approx(one.log_prob, abs=1e-3)
    generation = json.loads((folder / "generation_config.json").read_text())
    assert generation["early_stopping"] == "never" and generation["bad_words_ids"] == [
        [0],
        [1],
        [2],
    ]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert 'language: ["pt", "en"]\n' in card


@pytest.mark.parametrize("name", ["CC-BY-4.0", "Creative Commons: NonCommercial"])
def test_the_license_goes_out_and_comes_back(name, tmp_path):
    card = huggingface._readme({"license": name})
    (tmp_path / "README.md").write_text(card)
    assert read_card(tmp_path).license.lower() == name.lower()


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "gelu", "num_encoder_layers": 1},
        {"share_embeddings": False, "activation": "silu"},
        {"share_embeddings": False, "tie_output": False},
    ],
)
def test_whatever_marian_has_a_switch_for(options, load, tmp_path):
    tokenizer = load().tokenizer
    model = disturb(Transformer(tokenizer.vocab_size, **SMALL, **options))
    to_huggingface(Translator(model, tokenizer), tmp_path / "marian")
    back = from_huggingface(tmp_path / "marian").models[0]
    source, target = np.random.default_rng(1).integers(4, 99, (2, 3, 7))
    inputs = {"source": source, "target": target}
    np.testing.assert_allclose(back(inputs), model(inputs), atol=1e-4)


def test_the_options_of_the_search_go_out_and_come_back(load, tmp_path):
    given = load(
        beam_size=3, n_best=2, length_penalty=0.5, early_stopping=True, min_length=2,
        repetition_penalty=1.5, no_repeat_ngram_size=3, renormalize=True, force_end=True,
    )  # fmt: skip
    to_huggingface(given, tmp_path / "marian")
    back = given.with_options(max_length=64, split_sentences=False)  # The limits of transformers.
    assert from_huggingface(tmp_path / "marian").options == back.options
    generation = json.loads((tmp_path / "marian" / "generation_config.json").read_text())
    assert generation["max_length"] == 65  # The start token, and as many as the model takes.
    to_huggingface(load(max_length=12), tmp_path / "short")
    generation = json.loads((tmp_path / "short" / "generation_config.json").read_text())
    assert generation["max_length"] == 13
    assert from_huggingface(tmp_path / "short").options.max_length == 12
    for options in ({"temperature": 0.5}, {"early_stopping": True, "patience": 2.0}):
        with pytest.raises(ValueError, match=[*options][-1]):
            to_huggingface(load(**options), tmp_path / "other")


@pytest.mark.parametrize(
    "name",
    [
        "marian",
        *(pytest.param(n, marks=pytest.mark.long) for n in ("marian_marks", "marian_apart")),
    ],
)
def test_an_imported_model_goes_out_as_transformers_wrote_it(name, golden, tmp_path):
    before, after = golden / name, tmp_path / "out"
    import_model(before, tmp_path / "run")
    translator = Translator.load(tmp_path / "run", dtype=None)
    to_huggingface(translator, after)
    for path in before.glob("*.spm"):
        assert (after / path.name).read_bytes() == path.read_bytes()
    weights, expected = read_weights(after), read_weights(before)
    for tensor in weights:
        np.testing.assert_array_equal(weights[tensor], expected[tensor])
    tied = {f"{side}.embed_tokens.weight" for side in ("encoder", "decoder")} | {"lm_head.weight"}
    assert expected.keys() - weights.keys() <= tied
    for path in before.glob("*.json"):
        values, theirs = (json.loads((each / path.name).read_text()) for each in (after, before))
        if path.name == "vocab.json" or path.name == "target_vocab.json":
            assert values == theirs
            continue
        for field in values.keys() & theirs.keys() - {"dtype", "bad_words_ids", "bos_token_id"}:
            # Two names of one function.
            assert values[field] == {"swish": "silu"}.get(str(theirs[field]), theirs[field])
    back = from_huggingface(after)
    assert back.options == translator.options
    assert back.tokenizer.settings == translator.tokenizer.settings


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("marian_normalized", "MarianMT has no model with normalize_embeddings=True"),
        ("nllb", "and none of several languages.*M2M-100|NLLB"),
    ],
)
def test_what_transformers_has_not_is_refused_by_name(name, message, golden, tmp_path):
    with pytest.raises(ValueError, match=message):
        to_huggingface(from_huggingface(golden / name), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pre_norm": True}, "MarianMT has no model with .*pre_norm=True"),
        ({"norm": "rms"}, "MarianMT has no model with norm='rms'"),
        ({"positions": "rotary"}, "MarianMT has no model with positions="),
    ],
)
def test_what_marian_has_not_is_refused_by_name(options, message, load, tmp_path):
    tokenizer = load().tokenizer
    translator = Translator(Transformer(tokenizer.vocab_size, **SMALL, **options), tokenizer)
    with pytest.raises(ValueError, match=message):
        to_huggingface(translator, tmp_path / "marian")
    assert not list(tmp_path.iterdir())
