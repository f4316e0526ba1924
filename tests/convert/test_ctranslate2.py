"""Models in CTranslate2's format: it finds what ours finds."""

import json

import numpy as np
import pytest
import tensorflow as tf
from command import keras_mt
from conftest import needed
from runs import disturb

from keras_mt import Transformer, Translator
from keras_mt.convert.ctranslate2 import to_ctranslate2
from keras_mt.data import phrasebook

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("eager")]

ctranslate2 = needed("ctranslate2")
EXHAUSTIVE = pytest.mark.exhaustive
SMALL = {"num_layers": 2, "d_model": 32, "num_heads": 4, "d_ff": 48, "max_length": 64}


def pieces(tokenizer, texts):
    ids = tokenizer.pieces(tf.constant(texts))
    return [[piece.decode() for piece in row] for row in tokenizer.id_to_string(ids).to_list()]


@pytest.fixture(scope="module")
def sources():
    return list(dict.fromkeys(pair[0] for pair in phrasebook.pairs("test")))[:32]


def test_it_translates_as_ours_does(load, run_dir, sources, tmp_path):
    folder = tmp_path / "new" / "ct2"
    keras_mt("export", run_dir, folder, "--format", "ctranslate2")
    ours = load(beam_size=4, early_stopping=True)
    theirs = ctranslate2.Translator(str(folder), intra_threads=1)
    found = theirs.translate_batch(
        pieces(ours.tokenizer, sources),
        beam_size=4,
        suppress_sequences=[["<pad>"], ["<unk>"], ["<s>"]],
    )
    expected = pieces(ours.tokenizer, ours(sources))
    same = [row.hypotheses[0] == own for row, own in zip(found, expected, strict=True)]
    assert len(same) == 32 and sum(same) >= 31
    assert (folder / "tokenizer.model").read_bytes() == ours.tokenizer.model


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=EXHAUSTIVE),
        pytest.param({"pre_norm": True}, marks=EXHAUSTIVE),
        pytest.param(
            {"pre_norm": True, "activation": "gelu", "share_embeddings": False}, marks=EXHAUSTIVE
        ),
        {"tie_output": False, "positions": "learned", "num_decoder_layers": 1},
        {"pre_norm": True, "positions": "rotary", "gated": True, "activation": "silu"},
    ],
    ids=["paper", "fitted", "pre-norm", "untied", "gated"],
)
def test_whatever_the_options_it_gives_the_same_probabilities(options, load, sources, tmp_path):
    tokenizer = load().tokenizer
    model = disturb(Transformer(tokenizer.vocab_size, **SMALL, **options))
    translator = Translator(model, tokenizer, split_sentences=False)
    to_ctranslate2(translator, tmp_path / "ct2")
    targets = [text[::-1] for text in sources[:8]]
    theirs = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    found = theirs.score_batch(pieces(tokenizer, sources[:8]), pieces(tokenizer, targets))
    for row, score in zip(found, translator.score(sources[:8], targets), strict=True):
        ours = [log_prob for _, log_prob in score.tokens]
        np.testing.assert_allclose(row.log_probs, ours, atol=1e-3)


def test_int8_is_a_quarter_of_the_size(load, monkeypatch, tmp_path):
    monkeypatch.setattr("keras_mt.cli.export.load_run", lambda *_, **__: load())
    sizes = []
    for name, options in (("whole", ()), ("int8", ("--quantization", "int8"))):
        keras_mt("export", tmp_path, tmp_path / name, "--format", "ctranslate2", *options)
        sizes.append((tmp_path / name / "model.bin").stat().st_size)
    assert 3 < sizes[0] / sizes[1] < 4
    config = json.loads((tmp_path / "int8" / "config.json").read_text())
    assert config["add_source_eos"] and config["decoder_start_token"] == "<s>"


@pytest.mark.parametrize(
    "quantization",
    [None, *(pytest.param(n, marks=EXHAUSTIVE) for n in ("int8", "float16"))],
)
def test_weights_held_in_half_precision_give_the_same_file(
    quantization, load, run_dir, sources, tmp_path
):
    """Those of the run are exact in bfloat16."""
    files = []
    for dtype in ("float32", "bfloat16"):
        translator = Translator.load(run_dir, dtype=dtype)
        to_ctranslate2(translator, tmp_path / dtype, quantization)
        files.append((tmp_path / dtype / "model.bin").read_bytes())
    assert files[0] == files[1]
    theirs = ctranslate2.Translator(str(tmp_path / "float32"), intra_threads=1)
    found = theirs.score_batch(*2 * [pieces(load().tokenizer, sources[:8])])
    for row, score in zip(found, load().score(sources[:8], sources[:8]), strict=True):
        ours = [log_prob for _, log_prob in score.tokens]
        np.testing.assert_allclose(row.log_probs, ours, atol=0.4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "rms"}, "norm='rms'"),
        ({"num_key_value_heads": 2}, "num_key_value_heads=2"),
        ({"encoder_sublayers": "ssff"}, "encoder_sublayers='ssff'"),
    ],
)
def test_what_it_has_no_place_for_is_refused_by_name(options, message, load, tmp_path):
    tokenizer = load().tokenizer
    translator = Translator(Transformer(tokenizer.vocab_size, **SMALL, **options), tokenizer)
    with pytest.raises(ValueError, match=message):
        to_ctranslate2(translator, tmp_path / "ct2")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten(load, tmp_path):
    with pytest.raises(FileExistsError, match="is not overwritten"):
        to_ctranslate2(load(), tmp_path)
