"""Exports for LiteRT: the same answers as the run's translator gives, whose way is in graphs."""

import itertools
import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from conftest import needed
from runs import disturb

from keras_mt import ExportedTranslator, Glossary, Tokenizer, Transformer, Translator
from keras_mt.convert import from_huggingface
from keras_mt.convert.litert import to_litert
from keras_mt.files import LITERT_MODEL, MODEL_CARD
from keras_mt.models import ARCHITECTURES, ensure_built
from keras_mt.translation.batches import batches_of

needed("ai_edge_litert.interpreter")
litert = needed("keras_mt.translation.litert")

LONG = pytest.mark.long

GLOSSARY = Glossary({"livro": "volume", "mesa": "desk", "gato": "tiger cat"})
# Their segments are held to the graph's in test_segments.py.
TEXTS = [
    *("O livro está em cima da mesa.", "O gato dorme.\n\n Olá! Tudo bem?  Sim.\n", "", " *** \n"),
    *("palavra " * 12, "😀\x03 。你好！再见\u2028<s>", "\x05é\x01ab\x02 Dr. A. B. X. O livro."),
]  # fmt: skip
TARGETS = [
    *("The book is on the table.", "The cat.\n\nHello! How are you? Yes.", "", "*** word", "word"),
    *("\x03😀。", "É Dr. A. B. X. The book."),
]  # fmt: skip


@pytest.fixture(scope="module")
def exported(exported_litert):
    return ExportedTranslator(exported_litert)


def assert_alike(ours, exported, texts, targets, glossary=None, **languages):
    """Translations, scores, alignments, and why texts are refused, are the same."""

    def answers(name, *arguments, **options):
        both = [
            getattr(each, name)(*arguments, **options, **languages) for each in (ours, exported)
        ]
        assert both[0].refusals == both[1].refusals
        return [pair for pair in zip(*both, strict=True) if pair[0] is not None]

    for pair in answers("hypotheses", texts, glossary=glossary):
        for one, other in zip(*pair, strict=True):
            assert (one.text, one.placed) == (other.text, other.placed)
            assert one.score == pytest.approx(other.score, abs=1e-3)
    plain = [text.replace("😀", "") for text in texts]  # One function less is traced.
    for pair in answers("hypotheses", plain, confidence=True):
        for one, other in zip(*pair, strict=True):
            assert (one.text, one.warnings) == (other.text, other.warnings)
            assert one.mean_log_prob == pytest.approx(other.mean_log_prob, abs=1e-3)
            assert (one.worst_token or " ")[0] == (other.worst_token or " ")[0]
    for one, other in answers("score", texts, targets):
        assert [piece for piece, _ in one.tokens] == [piece for piece, _ in other.tokens]
        assert one.log_prob == pytest.approx(other.log_prob, rel=1e-3, abs=1e-3)
    assert exported.supports_alignment == ours.supports_alignment
    for given in (targets, None) if ours.supports_alignment else ():
        for one, other in answers("align", texts, given):
            assert one[:2] == other[:2]
            np.testing.assert_allclose(one[2], other[2], atol=1e-3)


@LONG
def test_its_answers_are_those_of_the_run(translator, exported):
    assert_alike(translator, exported, TEXTS, TARGETS, GLOSSARY)
    words = [each.align_words(TEXTS[:2], TARGETS[:2]) for each in (translator, exported)]
    assert [links.tolist() for links in words[0]] == [links.tolist() for links in words[1]]
    one = exported.hypotheses(TEXTS[0])
    assert exported(TEXTS[0]) == [hypothesis.text for hypothesis in one] and len(one) == 2


@LONG
def test_what_is_too_long_is_refused_for_the_same_reason(translator, exported):
    texts, targets = ["palavra " * 12, "O livro.", "a" * 17_000], ["word"] * 3
    for results in exported.score(texts, targets), exported.align(texts, targets):
        assert "more than 63 tokens, the model's limit" in results.refusals[0]
        assert "17,000 bytes is longer than max_line_bytes" in results.refusals[2]
        assert results[1] is not None
    assert [*exported.hypotheses(texts).refusals] == [2]


@LONG
def test_threads_share_no_interpreter(exported, sources):
    expected, interpreters = exported(sources), exported._engine._interpreters
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(exported, [sources] * 8)) == [expected] * 8
    assert interpreters._free.qsize() == litert.usable_cores()


@pytest.mark.parametrize("most", [1, 3, 8])
def test_rows_of_a_batch_are_few_and_of_similar_length(most):
    lengths = np.random.default_rng(0).integers(1, 60, 200).tolist()
    batches = batches_of(lengths, most, 150, 0.75)
    assert sorted(i for batch in batches for i in batch) == list(range(200))
    for batch in batches:
        sizes = [lengths[i] for i in batch]
        assert len(batch) <= most and (len(batch) == 1 or max(sizes) * len(batch) <= 150)
        assert min(sizes) >= 0.75 * max(sizes)
    assert most == 1 or len(batches) < 200


def _edited(card, change):
    values = json.loads(card.read_text())
    change(values)
    card.write_text(json.dumps(values))


@LONG
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda x: (x / LITERT_MODEL).unlink(), r"There is no .*model\.tflite: put it back"),
        (lambda x: (x / LITERT_MODEL).write_bytes(b""), r"model\.tflite cannot be read.*export"),
        (
            lambda x: (x / LITERT_MODEL).write_bytes((x / LITERT_MODEL).read_bytes()[:-1000]),
            r"model\.tflite cannot be read.*export",
        ),
        (lambda x: (x / MODEL_CARD).unlink(), r"model_card\.json must be as the export wrote it"),
        (lambda x: (x / MODEL_CARD).write_text("{"), r"model_card\.json must be as the export"),
        (
            lambda x: _edited(x / MODEL_CARD, lambda card: card["options"].pop("limit")),
            r"model_card\.json must be as the export wrote it",
        ),
        (lambda x: (x / "tokenizer.model").unlink(), r"no .*tokenizer\.model: put it back"),
        (
            lambda x: (x / "tokenizer.model").write_bytes(b"x"),
            r"tokenizer\.model is not a Sentence",
        ),
        (
            lambda x: _other_tokenizer(x / "tokenizer.model"),
            "The tokenizer in .* is not that of its model.tflite",
        ),
    ],
)
def test_what_is_damaged_is_named(exported_litert, tmp_path, damage, message):
    folder = shutil.copytree(exported_litert, tmp_path / "folder")
    damage(folder)
    with pytest.raises(ValueError, match=message):
        ExportedTranslator(folder)


def _other_tokenizer(path):
    path.unlink()
    Tokenizer.train(["a b c"] * 9, 300).save(path)


def marked(golden, tokenizer):
    """A model whose sources may begin with the mark of a language."""
    translator = from_huggingface(golden / "marian_marks")
    return translator, [f"{mark} O gato." for mark, _ in translator.tokenizer.tag_ids]


def of_languages(golden, tokenizer):
    return from_huggingface(golden / "m2m_100"), []


def of_one_row(golden, tokenizer):
    """A recurrent model, whose exports take one row at a time."""
    keras.utils.set_random_seed(1)
    sizes = {"num_layers": 1, "d_model": 32, "max_length": 64}
    recurrent = ARCHITECTURES["recurrent"]
    model = recurrent.from_preset("tiny", vocab_size=tokenizer.vocab_size, **sizes)
    return Translator(disturb(ensure_built(model)), tokenizer), []


def reading_terms(golden, tokenizer):
    """A model that reads terms, which are too many for one of the sources."""
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 60}
    model = Transformer(tokenizer.vocab_size, reads_terms=True, **sizes)
    return Translator(model, tokenizer), [
        "O gato\x01tiger cat\x02 dorme.",
        "gato\x01tiger cat\x02 " * 9,
    ]


@LONG
@pytest.mark.exhaustive
@pytest.mark.parametrize("make", [marked, of_languages, of_one_row, reading_terms])
def test_those_of_other_models_are_too(eager, make, golden, load, tmp_path):
    ours, more = make(golden, load().tokenizer)
    ours = ours.with_options(beam_size=2, n_best=2, max_length=12)
    to_litert(ours, tmp_path / "litert", "float32")
    texts, targets = TEXTS[:4] + more, TARGETS[:4] + ["word"] * len(more)
    languages = {}
    if ours.languages:
        codes = itertools.cycle(ours.languages)
        columns = "source_language", "target_language"
        languages = {side: list(itertools.islice(codes, len(texts))) for side in columns}
    assert_alike(ours, ExportedTranslator(tmp_path / "litert"), texts, targets, **languages)
