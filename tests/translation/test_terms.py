"""Translation with glossaries and kept spans, from strings to strings."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_mt import ExportedTranslator, Glossary, Transformer, Translator
from keras_mt.convert import saved_model
from keras_mt.evaluation.scoring import terms_kept
from keras_mt.inference import Predictor
from keras_mt.inference.graph import on_lists
from keras_mt.translation.sessions import SavedModel

GLOSSARY = Glossary({"livro": "volume", "mesa": "desk", "gato": "tiger cat"})
TEXTS = ["O livro está em cima da mesa.", "O gato dorme. O livro é bom.", "A casa é nova.", ""]
FOUND = [
    "The volume is on the desk.",
    "The tiger cat. The volume is white.",
    "The house is new.",
    "",
]


def best(translator, texts, **options):
    """The text of the best translation of each text."""
    return [found[0].text for found in translator.hypotheses(texts, **options)]


def test_each_row_has_its_own_terms_and_no_other(translator):
    glossaries = [*[GLOSSARY] * 4, None, Glossary({"livro": "tome"})]
    results = translator.hypotheses(TEXTS + TEXTS[:1] * 2, glossary=glossaries)
    found = [hypotheses[0] for hypotheses in results]
    others = ["The book is on the table.", "The tome is on the table."]
    assert [hypothesis.text for hypothesis in found] == [*FOUND, *others]
    assert [[p[:2] for p in h.placed] for h in found[1:5]] == [
        [("gato", "tiger cat"), ("livro", "volume")], [], [], [],
    ]  # fmt: skip
    assert [h.score for h in found[4:]] == pytest.approx([found[0].score] * 2, abs=1e-4)
    assert terms_kept(GLOSSARY, TEXTS, FOUND) == (4, 1.0)
    other = translator.with_options(glossary=GLOSSARY)
    assert other.glossary is GLOSSARY and other.fingerprint != translator.fingerprint


def test_a_tensor_of_texts_is_translated_as_a_list(translator):
    found = translator(tf.constant(TEXTS[1:]), glossary=GLOSSARY)
    assert found.shape == (3, 2) and [text.decode() for text in found[:, 0].numpy()] == FOUND[1:]
    dataset = tf.data.Dataset.from_tensors(TEXTS[1:])
    dataset = dataset.map(functools.partial(translator, glossary=GLOSSARY))
    (same,) = dataset.as_numpy_iterator()
    assert same.tolist() == found.numpy().tolist() and dataset.element_spec.shape == (3, 2)


def test_a_prefix_is_not_changed(eager, load):
    small = load(beam_size=1, max_length=10)
    found = small([TEXTS[0], "{x}"], ["The book", "The"], glossary=GLOSSARY)
    assert found[0].startswith("The book") and found[0].count("desk") == 1
    assert found[1].startswith("The") and found[1].count("{x}") == 1


def test_samples_have_terms_too(eager, load):
    sampling = load(temperature=0.1, n_best=2, max_length=10)
    assert sampling.options.keep == load(beam_size=2).options.keep
    for hypothesis in sampling.hypotheses(TEXTS[0], glossary=GLOSSARY):
        assert hypothesis.text.count("volume") == hypothesis.text.count("desk") == 1


class Functions(SavedModel):
    """The signatures of an export as functions, run op by op."""

    def __init__(self, functions):
        self._functions = functions
        self.outputs = {"align": ["scores"]} if "align" in functions else {}

    def _session(self, name):
        return self._functions[name]

    def _run(self, session, name, columns):
        return on_lists(lambda **inputs: session(*inputs.values()))(**columns)


class InMemory(ExportedTranslator):
    """Runs the functions that an export is made of, op by op, without writing and tracing them."""

    def __init__(self, translator, confidence=False, names=None):
        models = Predictor(translator.models)
        names = names or ["serving_default", "align", "score", *(["confidence"] * confidence)]
        functions = saved_model._signatures(translator, models, names)
        self._engine = Functions(functions)
        self.supports_alignment, self.supports_scores, self.supports_confidence = (
            name in functions for name in ("align", "score", "confidence")
        )
        self.options = translator.options
        self.reads_terms = translator.reads_terms
        self.trusted_attention = translator.trusted_attention


@pytest.mark.long
def test_a_run_and_its_export_answer_alike(eager, load):
    """One call of `align` does all, with a confidence and several hypotheses too."""
    texts = ["O livro {x}.", "O <b>gato</b> dorme."]
    run = load(beam_size=2, max_length=7, n_best=2)
    options = {"glossary": GLOSSARY, "markup": "html", "confidence": True}
    expected, export = run.hypotheses(texts, **options), InMemory(run, True)
    first, second = (hypotheses[0].text for hypotheses in expected)
    assert "volume" in first and "{x}" in first and "<b>tiger cat</b>" in second
    for one, other in zip(export.hypotheses(texts, **options), expected, strict=True):
        for hypothesis, same in zip(one, other, strict=True):
            assert (hypothesis.text, hypothesis.placed) == (same.text, same.placed)
            assert hypothesis.score == pytest.approx(same.score, abs=1e-4)
            assert hypothesis.warnings == same.warnings
    (unasked,) = export.hypotheses(texts[1:], glossary=GLOSSARY)
    assert unasked[0].mean_log_prob is None


@pytest.mark.parametrize("name", ["align", "score"])
def test_an_export_that_has_one_of_the_two_signatures_places_terms(eager, load, name):
    export = InMemory(load(beam_size=1, max_length=6), names=["serving_default", name])
    assert export("O livro.", glossary=GLOSSARY) == "The volume."


@pytest.mark.long
def test_a_model_that_reads_terms_finds_them_in_its_source_and_so_does_its_export(eager, load):
    tokenizer = load().tokenizer
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 60}
    model = Transformer(tokenizer.vocab_size, reads_terms=True, **sizes)
    translator = Translator(model, tokenizer, beam_size=2, max_length=4)
    text, (begin, end) = "O livro dorme.", tokenizer.term_markers
    (found,) = translator.hypotheses(text, token_scores=True, glossary=GLOSSARY)
    parts = [tokenizer.pieces([part])[0].numpy() for part in ("O livro", "volume", "dorme.")]
    source = [*parts[0], begin, *parts[1], end, *parts[2], tokenizer.eos_id]
    ids = [int(np.flatnonzero(pieces(tokenizer) == piece)[0]) for piece, _ in found.tokens]
    logits = model({"source": np.array([source]), "target": np.array([[2, *ids[:-1]]])})
    expected = tf.nn.log_softmax(logits)[0].numpy()[np.arange(len(ids)), ids]
    np.testing.assert_allclose([score for _, score in found.tokens], expected, atol=1e-4)
    assert found.text.lower().count("volume") == 1
    (same,) = InMemory(translator).hypotheses(text, glossary=GLOSSARY)
    assert same.text == found.text and same.score == pytest.approx(found.score, abs=1e-4)


def pieces(tokenizer):
    ids = tf.range(tokenizer.vocab_size)
    return np.array([x.decode() for x in tokenizer.id_to_string(ids).numpy()])


def test_spans_stay_as_they_are(translator):
    texts = ["O livro (https://x.org/a?b=c) é bom.", "O gato dorme em {casa}.", "A casa {a}-%s 💡."]
    found = best(translator, texts)
    for translation, span in zip(found, ["https://x.org/a?b=c", "{casa}", "{a}-%s"], strict=True):
        assert translation.count(span) == 1
    assert found[2].count("💡") == 1
    off = translator.with_options(keep="none")
    assert off.options.keep == ()
    assert translator.with_options(keep=["url"]).options.keep == ("url",)


@pytest.mark.long
def test_exports_answer_as_the_translator(translator, exported_whole):
    exported = ExportedTranslator(exported_whole)
    texts = [*TEXTS, "O livro em {casa}."]
    held = translator(texts, glossary=GLOSSARY)
    assert exported(texts, glossary=GLOSSARY) == held
    assert exported(texts) == translator(texts)
    assert exported(tf.constant(texts), glossary=GLOSSARY)[0, 0] == held[0][0]


def test_what_cannot_be_is_refused_by_name(translator):
    with pytest.raises(ValueError, match="keep has no kind 'urls'; did you mean 'url'"):
        translator.with_options(keep="urls,email")
    for call in (translator.with_options, functools.partial(translator, "gato")):
        message = r"glossary must be a keras_mt.Glossary, such as Glossary\(.*Received: dict"
        with pytest.raises(ValueError, match=message):
            call(glossary={"gato": "tiger cat"})
    with pytest.raises(ValueError, match=r"glossary must be .*, or a list with one .* 1 for 2"):
        translator(["a", "b"], glossary=[GLOSSARY])
    with pytest.raises(ValueError, match=r"neither of the signatures align and score, by which"):
        InMemory(translator, names=["serving_default"])(TEXTS, glossary=GLOSSARY)
