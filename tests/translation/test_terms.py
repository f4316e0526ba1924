"""Translation with glossaries and kept spans, from strings to strings."""

import json
import pickle

import pytest
import tensorflow as tf
from click.testing import CliRunner

from keras_mt import ExportedTranslator, Glossary, Translator
from keras_mt.cli import main
from keras_mt.evaluation import terms_kept

GLOSSARY = Glossary({"livro": "volume", "mesa": "desk", "gato": "tiger cat"})
TEXTS = ["O livro está em cima da mesa.", "O gato dorme. O livro é bom.", "A casa é nova.", ""]
TARGETS = [["volume", "desk"], ["tiger cat", "volume"], [], []]


@pytest.fixture(scope="module")
def small(load):
    return load(beam_size=3, max_length=24)


@pytest.fixture(scope="module")
def export(small, tmp_path_factory):
    directory = tmp_path_factory.mktemp("saved_models") / "1"
    small.export(directory)
    return directory


def assert_held(translations, targets=TARGETS):
    for translation, terms in zip(translations, targets, strict=True):
        for term in terms:
            assert f" {term} " in f" {translation} ".replace(".", " "), translation


def test_each_row_holds_its_own_terms_and_no_other(small):
    plain = small(TEXTS)
    found = small(TEXTS, glossary=GLOSSARY)
    assert_held(found)
    assert found[2:] == plain[2:]
    mixed = small(TEXTS[:1] * 3, glossary=[None, GLOSSARY, Glossary({"livro": "tome"})])
    assert mixed[0] == plain[0] and mixed[1] == found[0]
    assert_held(mixed[2:], [["tome"]])
    assert terms_kept(GLOSSARY, TEXTS, found) == (4, 1.0)
    assert terms_kept(GLOSSARY, TEXTS, plain)[1] < 1
    other = small.with_options(glossary=GLOSSARY)
    assert other(TEXTS[0]) == found[0] and other.fingerprint != small.fingerprint
    assert pickle.loads(pickle.dumps(other)).glossary.fingerprint == GLOSSARY.fingerprint
    tensor = small(tf.constant(TEXTS[:2]), glossary=GLOSSARY)[:, 0].numpy().tolist()
    assert [text.decode() for text in tensor] == found[:2]


def test_with_prefixes(small):
    (found,) = small(TEXTS[:1], ["My"], glossary=GLOSSARY)
    assert found.startswith("My")
    assert_held([found], TARGETS[:1])


def test_spans_stay_as_they_are(small):
    texts = ["O livro (https://x.org/a?b=c) é bom.", "O gato dorme em {casa}.", "A casa {a}-%s 💡."]
    found = small(texts)
    for translation, span in zip(found, ["(https://x.org/a?b=c)", "{casa}", "{a}-%s"], strict=True):
        assert translation.count(span) == 1
    assert "💡" in found[2]
    assert small(tf.constant(texts[:1]))[0, 0].numpy().decode() == found[0]
    off = small.with_options(keep="none")
    assert off.kept_kinds == () and small.with_options(keep=["url"]).kept_kinds == ("url",)


@pytest.mark.long
def test_exports_answer_as_the_translator(small, export):
    exported = ExportedTranslator(export)
    texts = [*TEXTS, "O livro em {casa}."]
    assert exported(texts, glossary=GLOSSARY) == small(texts, glossary=GLOSSARY)
    assert exported(texts) == small(texts)
    assert (
        exported(tf.constant(texts), glossary=GLOSSARY)[0, 0] == small(texts, glossary=GLOSSARY)[0]
    )
    signature = exported.signatures["constrained"]
    lines = ["livro\tvolume\n\nmesa", "", "livro\ta\tb\tc", "livro\t" + "word " * 300, "x\ty"]
    outputs = signature(text=tf.constant(TEXTS[:1] * 5), terms=tf.constant(lines))
    scores = outputs["scores"][:, 0].numpy()
    assert (scores[2:4] == -1e9).all() and (scores[[0, 1, 4]] > -1e9).all()
    translations = [text.decode() for text in outputs["translations"][:, 0].numpy()]
    assert_held(translations[:1], [["volume", "mesa"]])
    assert translations[1] == translations[4] == small(TEXTS[0]) and not any(translations[2:4])
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
    with pytest.raises(ValueError, match=r"glossary must be a keras_mt.Glossary"):
        Translator(small.models, small.tokenizer, glossary={"a": "b"})
    with pytest.raises(ValueError, match=r"glossary must be a Glossary, or a list .* 1 for 2"):
        small(["a", "b"], glossary=[GLOSSARY])


@pytest.mark.long
def test_the_command(run_dir, tmp_path, corpus):
    path = tmp_path / "terms.tsv"
    path.write_text("# animals\ngato\ttiger cat\n", encoding="utf-8")
    run = CliRunner().invoke
    arguments = ["--glossary", str(path), "--beam-size", "2", "--keep", "url,number"]
    result = run(main, ["translate", str(run_dir), *arguments], input="O gato 3.5 dorme.\n")
    assert "tiger cat" in result.stdout and "3.5" in result.stdout, result.output
    arguments += ["--data", str(corpus), "--source", "pt", "--target", "en"]
    result = run(main, ["evaluate", str(run_dir), *arguments])
    terms = json.loads(result.stdout.splitlines()[-1])["terms"]
    assert terms["share"] in (None, 1.0) and terms["occurrences"] >= 0
