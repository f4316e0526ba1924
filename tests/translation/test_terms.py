"""Translation with glossaries and kept spans, from strings to strings."""

import functools
import json
import pickle
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_mt import ExportedTranslator, Glossary, Tokenizer, Transformer, Translator
from keras_mt.alignment import Shortlist
from keras_mt.cli import main
from keras_mt.evaluation import terms_kept

# Exports are traced all the same.
pytestmark = pytest.mark.usefixtures("eager")

GLOSSARY = Glossary({"livro": "volume", "mesa": "desk", "gato": "tiger cat"})
TEXTS = ["O livro está em cima da mesa.", "O gato dorme. O livro é bom.", "A casa é nova.", ""]
TARGETS = [["volume", "desk"], ["tiger cat", "volume"], [], []]


@pytest.fixture(scope="module")
def small(load):
    return load(beam_size=2, max_length=16)


def assert_held(translations, targets=TARGETS):
    for translation, terms in zip(translations, targets, strict=True):
        for term in terms:
            assert f" {term} " in f" {translation} ".replace(".", " "), translation


def test_each_row_holds_its_own_terms_and_no_other(small):
    plain = small(TEXTS)
    found = small(TEXTS, glossary=GLOSSARY)
    assert_held(found)
    assert small(iter(TEXTS[2:]), glossary=GLOSSARY) == found[2:]
    assert found[2:] == plain[2:]
    mixed = small(TEXTS[:1] * 3, glossary=[None, GLOSSARY, Glossary({"livro": "tome"})])
    assert mixed[0] == plain[0] and mixed[1] == found[0]
    assert_held(mixed[2:], [["tome"]])
    assert terms_kept(GLOSSARY, TEXTS, found) == (4, 1.0)
    assert terms_kept(GLOSSARY, TEXTS, plain)[1] < 1
    other = small.with_options(glossary=GLOSSARY)
    assert other.glossary is GLOSSARY and other.fingerprint != small.fingerprint
    assert pickle.loads(pickle.dumps(other)).glossary.fingerprint == GLOSSARY.fingerprint
    tensor = small(tf.constant(TEXTS[:1]), glossary=GLOSSARY)[:, 0].numpy().tolist()
    assert [text.decode() for text in tensor] == found[:1]


def test_with_prefixes(small):
    (found,) = small(TEXTS[:1], ["My"], glossary=GLOSSARY)
    assert found.startswith("My")
    assert_held([found], TARGETS[:1])


def test_with_an_ensemble_and_a_shortlist(small):
    tokenizer = small.tokenizer
    frequent = tokenizer.pieces(["the book is on the table."])[0].numpy()
    none = np.full((tokenizer.vocab_size, 1), -1)
    ensemble = Translator(
        small.models * 2,
        tokenizer,
        beam_size=2,
        max_length=12,
        shortlist=Shortlist(none, frequent, tokenizer.fingerprint),
    )
    assert_held(ensemble(TEXTS[:1], glossary=GLOSSARY), TARGETS[:1])


def tiny(tokenizer, **options):
    keras.utils.set_random_seed(3)
    sizes = {"num_layers": 1, "d_model": 16, "num_heads": 2, "d_ff": 16, "max_length": 60}
    return Transformer(tokenizer.vocab_size, **sizes, **options)


def test_with_languages_a_term_stands_in_each():
    tokenizer = Tokenizer.train([*TEXTS, "The tiger cat sleeps."] * 5, 350, languages=("pt", "en"))
    translator = Translator(tiny(tokenizer), tokenizer, beam_size=2, max_length=10)
    codes = {"source_language": ["pt", "en"], "target_language": ["en", "pt"]}
    glossary = Glossary({"gato": "tiger cat"})
    found = translator.hypotheses(["O gato dorme."] * 2, glossary=glossary, **codes)
    assert all("tiger cat" in hypotheses[0].text for hypotheses in found)
    assert found[0][0].score != found[1][0].score


def test_a_model_that_reads_terms_finds_them_in_its_source(small):
    tokenizer = small.tokenizer
    model = tiny(tokenizer, reads_terms=True)
    translator = Translator(model, tokenizer, beam_size=2, max_length=10)
    text, (begin, end) = "O livro dorme.", tokenizer.term_markers
    (found,) = translator.hypotheses([text], token_scores=True, glossary=GLOSSARY)[0]
    parts = [tokenizer.pieces([part])[0].numpy() for part in ("O livro", "volume", "dorme.")]
    source = [*parts[0], begin, *parts[1], end, *parts[2], tokenizer.eos_id]
    ids = [int(np.flatnonzero(pieces(tokenizer) == piece)[0]) for piece, _ in found.tokens]
    logits = model({"source": np.array([source]), "target": np.array([[2, *ids[:-1]]])})
    expected = tf.nn.log_softmax(logits)[0].numpy()[np.arange(len(ids)), ids]
    np.testing.assert_allclose([score for _, score in found.tokens], expected, atol=1e-4)
    model.reads_terms = False
    other = Translator(model, tokenizer, beam_size=2, max_length=10)
    assert other(text) == translator(text)
    assert abs(other.hypotheses(text, glossary=GLOSSARY)[0].score - found.score) > 1e-4


def pieces(tokenizer):
    ids = tf.range(tokenizer.vocab_size)
    return np.array([x.decode() for x in tokenizer.id_to_string(ids).numpy()])


@pytest.mark.long
def test_an_export_of_it_does_so_too(small, tmp_path, signatures_alone):
    signatures_alone("serving_default", "constrained")
    translator = Translator(
        tiny(small.tokenizer, reads_terms=True), small.tokenizer, beam_size=2, max_length=14
    )
    translator.export(tmp_path / "1")
    export = ExportedTranslator(tmp_path / "1")
    glossaries = [GLOSSARY, Glossary({"gato": "tom"}), None, GLOSSARY]
    for one, other in zip(
        translator.hypotheses(TEXTS, glossary=glossaries),
        export.hypotheses(TEXTS, glossary=glossaries),
        strict=True,
    ):
        assert [h.text for h in one] == [h.text for h in other]
        np.testing.assert_allclose([h.score for h in one], [h.score for h in other], atol=1e-4)


def test_spans_stay_as_they_are(load):
    small = load(beam_size=2, max_length=24)
    texts = ["O livro (https://x.org/a?b=c) é bom.", "O gato dorme em {casa}.", "A casa {a}-%s 💡."]
    found = small(texts)
    for translation, span in zip(found, ["(https://x.org/a?b=c)", "{casa}", "{a}-%s"], strict=True):
        assert translation.count(span) == 1
    assert "💡" in found[2]
    assert small(tf.constant(texts[:1]))[0, 0].numpy().decode() == found[0]
    off = small.with_options(keep="none")
    assert off.kept_kinds == () and small.with_options(keep=["url"]).kept_kinds == ("url",)


@pytest.mark.long
def test_exports_answer_as_the_translator(translator, exported_whole, signatures):
    exported = ExportedTranslator(exported_whole)
    texts = [*TEXTS, "O livro em {casa}."]
    held = translator(texts, glossary=GLOSSARY)
    assert exported(texts, glossary=GLOSSARY) == held
    assert exported(texts) == translator(texts)
    assert exported(tf.constant(texts), glossary=GLOSSARY)[0, 0] == held[0][0]
    signature = signatures["constrained"]
    lines = ["livro\tvolume\n\nmesa", "", "livro\ta\tb\tc", "livro\t" + "word " * 300, "x\ty"]
    outputs = signature(text=tf.constant(TEXTS[:1] * 5), terms=tf.constant(lines))
    scores = outputs["scores"][:, 0].numpy()
    assert (scores[2:4] == -1e9).all() and (scores[[0, 1, 4]] > -1e9).all()
    translations = [text.decode() for text in outputs["translations"][:, 0].numpy()]
    assert_held(translations[:1], [["volume", "mesa"]])
    assert translations[1] == translations[4] == translator(TEXTS[0])[0] and not any(
        translations[2:4]
    )
    with pytest.raises(ValueError, match="refused: 'gato' cannot be in its translation"):
        exported("O gato e o livro.", glossary=Glossary({"gato": "x " * 99, "livro": "book"}))


def test_what_cannot_be_is_refused_by_name(small):
    long = Glossary({"livro": "word " * 99, "gato": "cat"})
    results = small.hypotheses(["O gato.", "O livro."], glossary=long)
    assert list(results.refusals) == [1] and results[0]
    with pytest.raises(ValueError, match="refused: the term 'livro' cannot be in its"):
        small("O livro.", glossary=long)
    with pytest.raises(ValueError, match=r"A glossary does not go with sampling"):
        small.with_options(temperature=1.0, glossary=GLOSSARY)
    with pytest.raises(ValueError, match=r"A glossary does not go with sampling"):
        small.with_options(temperature=1.0)("O livro.", glossary=GLOSSARY)
    with pytest.raises(ValueError, match="keep does not go with sampling"):
        small.with_options(temperature=1.0, keep="url")
    with pytest.raises(ValueError, match=r"keep must be kinds .* 'urls'; did you mean 'url'"):
        small.with_options(keep="urls,email")
    for call in (small.with_options, functools.partial(small, "gato")):
        message = r"glossary must be a keras_mt.Glossary, such as Glossary\(.*Received: dict"
        with pytest.raises(ValueError, match=message):
            call(glossary={"gato": "tiger cat"})
    with pytest.raises(ValueError, match=r"glossary must be a Glossary, or a list .* 1 for 2"):
        small(["a", "b"], glossary=[GLOSSARY])


@pytest.mark.long
def test_the_command(load_once, run_dir, tmp_path, corpus):
    path, test = tmp_path / "terms.tsv", corpus / "pt.test.txt"
    path.write_text("# animals\ngato\ttiger cat\nlivro\tvolume\n", encoding="utf-8")
    run = CliRunner().invoke
    arguments = ["--glossary", str(path), "--beam-size", "2", "--keep", "url,number"]
    result = run(main, ["translate", str(run_dir), *arguments], input="O gato 3.5 dorme.\n")
    assert "tiger cat" in result.stdout and "3.5" in result.stdout, result.output
    arguments += ["--data", str(corpus), "--source", "pt", "--target", "en"]
    result = run(main, ["evaluate", str(run_dir), *arguments])
    terms = json.loads(result.stdout.splitlines()[-1])["terms"]
    words = re.findall(r"\w+", test.read_text(encoding="utf-8"))
    occurrences = words.count("gato") + words.count("livro")
    assert terms == {"share": 1.0, "occurrences": occurrences} and occurrences > 0
