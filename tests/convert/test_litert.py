"""Models in LiteRT's format: its interpreter, without TensorFlow, finds what ours finds."""

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from command import keras_mt
from conftest import needed
from small import SIZES, small

from keras_mt import Translator
from keras_mt.convert import from_huggingface
from keras_mt.convert.litert import to_litert
from keras_mt.data import phrasebook
from keras_mt.models import ARCHITECTURES

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("eager")]

Interpreter = needed("ai_edge_litert.interpreter").Interpreter


@pytest.fixture(scope="module")
def sources():
    return list(dict.fromkeys(pair[0] for pair in phrasebook.pairs("test")))[:40]


def translations(folder, translator, sources):
    run = Interpreter(str(folder / "model.tflite"), num_threads=1).get_signature_runner("translate")
    tokenizer, found = translator.tokenizer, []
    codes = [translator.source_language, translator.target_language] if tokenizer.languages else []
    codes = [tf.constant([code]) for code in codes]
    forced = tokenizer.forced_ids(*codes[1:])
    prefix = {} if forced is None else {"prefix": forced.numpy()}
    for text in sources:
        pieces = tokenizer.pieces(tf.constant([text]))
        source = tokenizer.source_ids(pieces, *codes).to_tensor().numpy()
        outputs = run(source=source, lengths=pieces.row_lengths().numpy().astype("int32"), **prefix)
        found.append(outputs["tokens"][0, 0, : outputs["lengths"][0, 0]].tolist())
    texts = tokenizer.text(tf.ragged.constant(found, dtype=tf.int32)).numpy()
    return [text.decode() for text in texts]


def test_it_translates_as_ours_does(load, run_dir, sources, tmp_path):
    folder = tmp_path / "litert"
    keras_mt("export", run_dir, folder, "--format", "litert", "--quantization", "float32")
    ours = load(split_sentences=False)
    assert translations(folder, ours, [*sources, ""]) == ours([*sources, ""])
    assert (folder / "tokenizer.model").read_bytes() == ours.tokenizer.model
    # Weights that stay variables would not be in the file.
    size = (folder / "model.tflite").stat().st_size
    assert size > 4 * ours.models[0].count_params()


@pytest.mark.exhaustive
def test_in_8_bits_it_translates_almost_the_same(load, sources, tmp_path):
    ours = load(beam_size=1, split_sentences=False)
    to_litert(ours, tmp_path / "int8")
    found = translations(tmp_path / "int8", ours, sources)
    assert sacrebleu.corpus_bleu(found, [ours(sources)]).score > 95


def test_a_table_that_8_bits_hold_exactly_stays_in_the_file(load, sources, tmp_path):
    tokenizer = load().tokenizer
    model = small("transformer", tokenizer)
    (table,) = (w for w in model.weights if w.shape == (tokenizer.vocab_size, SIZES["d_model"]))
    steps = np.random.default_rng(1).integers(-127, 128, table.shape)
    steps[:, 0] = 127
    table.assign(steps / 256)
    translator = Translator(model, tokenizer, beam_size=1, max_length=5)
    to_litert(translator, tmp_path / "int8")
    assert any(translations(tmp_path / "int8", translator, sources[:2]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_whatever_the_architecture(name, load, sources, tmp_path):
    tokenizer = load().tokenizer
    options = {"early_stopping": True, "force_end": True, "min_length": 3, "max_length": 20}
    translator = Translator(small(name, tokenizer), tokenizer, beam_size=2, **options)
    to_litert(translator, tmp_path / "litert", "float32")
    ours = translator(sources[:20])
    assert len(set(ours)) > 3
    assert translations(tmp_path / "litert", translator, sources[:20]) == ours


@pytest.mark.exhaustive
def test_of_several_languages_it_is_between_two(golden, sources, tmp_path):
    translator = from_huggingface(golden / "m2m_100")
    translator = translator.with_options(source_language="pt", target_language="en")
    to_litert(translator, tmp_path / "litert", "float32")
    ours = translator(sources[:30])
    assert len(set(ours)) > 1
    assert translations(tmp_path / "litert", translator, sources[:30]) == ours


def test_an_operation_that_litert_has_not_is_named(load, tmp_path, monkeypatch):
    def rule(log_probs, *_, **__):
        return tf.tensor_scatter_nd_min(log_probs, [[0, 0, 0]], [0.0])

    monkeypatch.setattr("keras_mt.decoding.rules.forbid_repeated_ngrams", rule)
    with pytest.raises(ValueError, match="none of the operations TensorScatterMin"):
        to_litert(load(no_repeat_ngram_size=2), tmp_path / "litert")
    assert not list(tmp_path.iterdir())


def test_what_litert_has_not_is_refused(load, tmp_path):
    translator = load()
    models, folder = translator.models, tmp_path / "litert"
    with pytest.raises(ValueError, match="LiteRT cannot hold an ensemble"):
        to_litert(Translator(models * 2, translator.tokenizer), folder)
    with pytest.raises(ValueError, match="cannot hold temperature"):
        to_litert(load(temperature=1.0), folder)
    with pytest.raises(ValueError, match="quantization must be int8 or float32"):
        to_litert(translator, folder, "int16")
    with pytest.raises(FileExistsError, match="is not overwritten"):
        to_litert(translator, tmp_path)
    assert not list(tmp_path.iterdir())
