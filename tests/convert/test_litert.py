"""Models in LiteRT's format: its interpreter, without TensorFlow, finds what ours finds."""

import functools

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from command import keras_mt
from conftest import needed
from small import SIZES, small

from keras_mt import Translator
from keras_mt.convert import from_huggingface, litert
from keras_mt.convert.litert import to_litert
from keras_mt.data import phrasebook
from keras_mt.inference import Predictor
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


def test_it_translates_as_ours_does(load, translator, exported_litert, sources):
    ours = load(beam_size=3, split_sentences=False)
    sources = sources[:12]
    assert translations(exported_litert, translator, [*sources, ""]) == ours([*sources, ""])
    assert (exported_litert / "tokenizer.model").read_bytes() == ours.tokenizer.model
    # Weights that stay variables would not be in the file.
    size = (exported_litert / "model.tflite").stat().st_size
    assert size > 4 * ours.models[0].count_params()


@pytest.mark.exhaustive
def test_in_8_bits_it_translates_almost_the_same(load, sources, tmp_path):
    ours = load(beam_size=1, split_sentences=False)
    to_litert(ours, tmp_path / "int8")
    found = translations(tmp_path / "int8", ours, sources)
    assert sacrebleu.corpus_bleu(found, [ours(sources)]).score > 95


@pytest.fixture
def score_alone(monkeypatch):
    """Exports have the signature `score` alone, without attention: others take long to convert."""
    made = litert._signatures
    monkeypatch.setattr(litert, "_signatures", lambda *args: {"score": made(*args)["score"]})
    monkeypatch.setattr(Predictor, "attention", lambda *_: None)


def test_a_table_that_8_bits_hold_exactly_stays_in_the_file(
    score_alone, load, tmp_path, monkeypatch
):
    tokenizer = load().tokenizer
    model = small("transformer", tokenizer)
    (table,) = (w for w in model.weights if w.shape == (tokenizer.vocab_size, SIZES["d_model"]))
    steps = np.random.default_rng(1).integers(-127, 128, table.shape)
    steps[:, 0] = 127
    table.assign(steps / 256)
    translator = Translator(model, tokenizer)
    monkeypatch.setattr("keras_mt.cli.export.load_run", lambda *_, **__: translator)
    keras_mt("export", tmp_path, tmp_path / "int8", "--format", "litert")
    run = Interpreter(str(tmp_path / "int8" / "model.tflite")).get_signature_runner("score")
    source, target = np.array([[7, 8, 3]], "int32"), np.array([[9, 6, 5, 3]], "int32")
    inputs = np.array([[tokenizer.bos_id, 9, 6, 5]])
    expected = tf.nn.log_softmax(model({"source": source, "target": inputs})[0]).numpy()
    found = run(source=source, target=target)["log_probs"][0]
    np.testing.assert_allclose(found, expected[np.arange(4), target[0]], atol=0.2)


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


def test_an_operation_that_litert_has_not_is_named(score_alone, load, tmp_path, monkeypatch):
    least = functools.partial(tf.tensor_scatter_nd_min, indices=[[0, 0]], updates=[0.0])
    monkeypatch.setattr(
        Predictor, "score", lambda _, source, *__: least(tf.cast(source, "float32"))
    )
    with pytest.raises(ValueError, match="none of the operations TensorScatterMin"):
        to_litert(load(), tmp_path / "litert")
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
