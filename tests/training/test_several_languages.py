"""Runs that train a model of several languages."""

import csv
import json

import numpy as np
import pytest
import sacrebleu
import tensorflow as tf
from click.testing import CliRunner

from keras_mt import ExportedTranslator, Tokenizer, Translator
from keras_mt.cli import main
from keras_mt.convert import import_huggingface
from keras_mt.data import Batches, load_corpus
from keras_mt.run_folder import RunFolder
from keras_mt.training import compile_for_translation, train

pytestmark = pytest.mark.usefixtures("micro")

SMALL = {
    "preset": "micro",
    "vocab_size": 500,
    "warmup_steps": 20,
    "batch_tokens": 512,
    "max_length": 64,
    "checkpoint_steps": 20,
    "label_smoothing": 0,
}
BRIEF = {**SMALL, "steps": 2, "checkpoint_steps": 2}


@pytest.fixture(scope="module")
def backwards(corpus, tmp_path_factory):
    """A third of the English sentences with their letters backwards; without a test split."""
    folder = tmp_path_factory.mktemp("backwards")
    for split, size in (("train", 100), ("validation", 6)):
        lines = (corpus / f"en.{split}.txt").read_text().splitlines()[:size]
        (folder / f"en.{split}.txt").write_text("".join(line + "\n" for line in lines))
        (folder / f"ne.{split}.txt").write_text("".join(line[::-1] + "\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def pairs(corpus, backwards):
    return {"pt-en": corpus, "en-pt": corpus, "en-ne": backwards}


@pytest.fixture(scope="module")
def messages():
    return []


@pytest.fixture(scope="module")
def trained(pairs, micro, messages, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "trained"
    return train(pairs=pairs, output=output, report=messages.append, steps=60, **SMALL, bleu_freq=1)


def keras_mt(*arguments, stdin="", exit_code=0):
    result = CliRunner().invoke(main, [*map(str, arguments)], input=stdin)
    assert result.exit_code == exit_code, result.output
    return result


def log_rows(run_dir):
    with open(run_dir / "log.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def weights(run_dir):
    return RunFolder(run_dir).load_model().get_weights()


def test_its_configuration_has_the_pairs_and_its_tokenizer_the_languages(trained, pairs, messages):
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    assert config["pairs"] == {pair: str(data) for pair, data in pairs.items()}
    assert (config["source"], config["sampling_temperature"]) == ("mul", 5)
    assert Tokenizer.load(trained / "tokenizer.model").languages == ("pt", "en", "ne")
    # 300, 300 and 100 pairs: (300 / 100) ** (1 - 1 / 5) is 2.41.
    assert "times in an epoch: pt-en 1, en-pt 1, en-ne 2.4" in messages
    card = RunFolder(trained).card()
    assert card["pairs"] == list(pairs) and len(card["data"]) == 2


def test_the_log_has_the_loss_and_the_bleu_of_each_pair(trained, pairs):
    row = [row for row in log_rows(trained) if row["val_loss"]][-1]
    assert row["step"] == "60"
    folder = RunFolder(trained)
    model, tokenizer = folder.load_model(), folder.load_tokenizer()
    compile_for_translation(model, label_smoothing=0)
    translator, scores = Translator(model, tokenizer), []
    for pair, data in pairs.items():
        languages = dict(zip(("source_language", "target_language"), pair.split("-"), strict=True))
        corpus = load_corpus(data, *pair.split("-"), "validation")
        batches = Batches(corpus, tokenizer, 512, 64, **languages)
        loss = model.evaluate(batches.epoch(0), verbose=0)[0]
        assert float(row[f"val_loss_{pair}"]) == pytest.approx(loss, rel=1e-4)
        sources, references = (
            [text.decode() for text in side]
            for side in zip(*corpus.as_numpy_iterator(), strict=True)
        )
        found = translator(sources, **languages)
        scores.append(sacrebleu.BLEU().corpus_score(found, [references]).score)
        assert float(row[f"val_bleu_{pair}"]) == pytest.approx(scores[-1], rel=1e-3)
    assert float(row["val_bleu"]) == pytest.approx(np.mean(scores), rel=1e-3)


def test_an_interrupted_run_ends_with_the_same_weights(trained, pairs, tmp_path):
    for steps in (53, 60):  # In the middle of the second epoch.
        train(pairs=pairs, output=tmp_path / "broken", **SMALL, steps=steps)
    for a, b in zip(weights(trained), weights(tmp_path / "broken"), strict=True):
        np.testing.assert_array_equal(a, b)
    other = dict(reversed(pairs.items()))
    with pytest.raises(ValueError, match=r"pairs was \['pt-en', .*\], now \['en-ne', "):
        train(pairs=other, output=tmp_path / "broken", **SMALL, steps=60)
    with pytest.raises(ValueError, match=r"sampling_temperature was 5\.0, now 1\.0"):
        train(pairs=pairs, output=tmp_path / "broken", **SMALL, steps=60, sampling_temperature=1)


def test_the_vocabulary_is_of_about_as_much_text_of_each_language(pairs, tmp_path, monkeypatch):
    seen = []

    def spy(texts, vocab_size, seed, languages):
        seen.extend(texts)
        raise InterruptedError

    monkeypatch.setattr(Tokenizer, "train", spy)
    with pytest.raises(InterruptedError):
        train(pairs=pairs, output=tmp_path / "run", **BRIEF)
    sides = {
        code: {text for pair in load_corpus(data, *codes, "train").as_numpy_iterator()
               for text in [pair[codes.index(code)]]}
        for data, codes, code in (
            (pairs["pt-en"], ["pt", "en"], "pt"), (pairs["pt-en"], ["pt", "en"], "en"),
            (pairs["en-ne"], ["en", "ne"], "ne"),
        )
    }  # fmt: skip
    sizes = [sum(len(text.decode()) for text in seen if text in sides[code]) for code in sides]
    assert max(sizes) < 1.02 * min(sizes)
    assert sides["ne"] <= set(seen) and sides["pt"] <= set(seen)


def test_the_languages_of_the_corpus_are_those_to_evaluate(trained, corpus):
    data = "--data", corpus, "--source", "en", "--target", "pt", "--beam-size", 1
    found = json.loads(keras_mt("evaluate", trained, *data).stdout.splitlines()[-1])
    test = list(load_corpus(corpus, "en", "pt", "test").as_numpy_iterator())
    sources, references = ([text.decode() for text in side] for side in zip(*test, strict=True))
    translator = Translator.load(trained, beam_size=1)
    for target in ("pt", "ne"):
        codes = {"source_language": "en", "target_language": target}
        chrf = sacrebleu.CHRF().corpus_score(translator(sources, **codes), [references])
        assert round(chrf.score, 2) == found["chrf"]
        given = "--target-language", "ne"
        found = json.loads(keras_mt("evaluate", trained, *data, *given).stdout.splitlines()[-1])
    refused = keras_mt("translate", trained, "--source-language", "en", stdin="a", exit_code=1)
    assert "target_language must be given" in refused.stderr


@pytest.mark.long
def test_its_export_translates_into_each_language(trained, tmp_path, signatures_alone):
    signatures_alone("serving_default")
    translator = Translator.load(trained, beam_size=2)
    translator.export(tmp_path / "several" / "1")
    exported = ExportedTranslator(tmp_path / "several")
    assert exported.card["tokenizer"]["languages"] == ["pt", "en", "ne"]
    texts, sources = ["O livro.", "The book."] * 2, ["pt", "en"] * 2
    languages = {"source_language": sources, "target_language": ["en", "pt", "pt", "ne"]}
    expected, found = (t.hypotheses(texts, **languages) for t in (translator, exported))
    assert [row[0].text for row in found] == [row[0].text for row in expected]
    scores = [[row[0].score for row in results] for results in (found, expected)]
    np.testing.assert_allclose(*scores, atol=1e-4)
    assert len({*np.round(scores[0], 3)}) == 4
    found = exported.signatures["serving_default"](
        text=tf.constant(texts), source_language=tf.constant(sources),
        target_language=tf.constant(["en", "pt", "xx", ""]),
    )  # fmt: skip
    assert (found["scores"].numpy()[:, 0] == -1e9).tolist() == [False, False, True, True]


@pytest.mark.long
def test_an_imported_model_goes_on_in_several_directions(golden, corpus, tmp_path):
    import_huggingface(golden / "m2m_100", tmp_path / "imported")
    pairs = {"pt-en": corpus, "en-pt": corpus}
    options = {"init": tmp_path / "imported", "batch_tokens": 512, "max_length": 32}
    train(pairs=pairs, output=tmp_path / "run", steps=2, **options)
    translator = Translator.load(tmp_path / "run")
    assert translator.languages == Translator.load(tmp_path / "imported").languages
    other = tmp_path / "other.tsv"
    other.write_text("pt\tqq\nO livro.\t.koob ehT\n")
    with pytest.raises(ValueError, match="A language of pairs must be a code of the model's lang"):
        train(pairs={"pt-qq": other}, output=tmp_path / "no", **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "en", "target": "pt"}, "data must be given: a run needs data, source and"),
        ({"data": "phrasebook", "source": "en"}, "target must be given"),
        ({"pairs": {"pt-en": "phrasebook"}, "data": "x"}, "not both. Received: data='x' beside"),
        ({"pairs": {"pt-en": "phrasebook"}, "target": "en"}, "Received: target='en' beside pairs"),
        ({"pairs": {}}, "pairs must be a dict"),
        ({"pairs": "pt-en=phrasebook"}, "pairs must be a dict"),
        ({"pairs": {"pten": "phrasebook"}}, "must be SOURCE-TARGET=DATA.* Received: pten=phrase"),
        ({"pairs": {"pt-en-fr": "phrasebook"}}, "must be SOURCE-TARGET=DATA"),
        ({"pairs": {"pt-en": ""}}, "must be SOURCE-TARGET=DATA"),
        ({"pairs": {"pt-en": ["a", "b"]}}, "with one corpus"),
        ({"pairs": {"en-en": "phrasebook"}}, "must have two languages. Received: en-en=phrasebook"),
        ({"pairs": {"pt-en": "phrasebook", "pt-fr": "phrasebook"}},
         "The pair pt-fr: phrasebook has no language 'fr'; it has pt, en"),
        ({"pairs": {"pt-en": "nowhere"}}, "The pair pt-en: There is no corpus 'nowhere'"),
        ({"pairs": {"pt-en": "phrasebook"}, "target_language": "en"},
         "target_language does not go with pairs"),
        ({"pairs": {"pt-en": "phrasebook"}, "sampling_temperature": 0.5},
         "sampling_temperature must be at least 1"),
        ({"pairs": {"pt-en": "phrasebook"}, "sampling_temperature": 2, "corpus_weights": [1]},
         "Give corpus_weights or sampling_temperature, not both"),
        ({"pairs": {"pt-en": "phrasebook"}, "corpus_weights": [1, 2]},
         "corpus_weights must have one for each corpus"),
        ({"data": "phrasebook", "source": "pt", "target": "en", "sampling_temperature": 2},
         r"sampling_temperature goes with pairs \(--pair\) only"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        train(output=tmp_path / "run", **{**BRIEF, **arguments})
    assert not (tmp_path / "run").exists()


def test_a_tokenizer_without_the_languages_and_a_corpus_without_splits(corpus, tmp_path):
    plain = Tokenizer.train(["the book is on the table"] * 9, vocab_size=300)
    with pytest.raises(ValueError, match="The tokenizer has no languages, which pairs need"):
        train(pairs={"pt-en": corpus}, output=tmp_path / "run", tokenizer=plain, **BRIEF)
    arguments = {"pairs": {"pt-en": tmp_path / "data"}, "output": tmp_path / "run", **BRIEF}
    (tmp_path / "data").mkdir()
    for split, message in (
        ("test", r"The pair pt-en: .*data has no split 'train'; it has test\."),
        ("train", "data has no validation split, which keep_best"),
    ):
        for code in ("pt", "en"):
            lines = (corpus / f"{code}.train.txt").read_text().splitlines()[:40]
            (tmp_path / "data" / f"{code}.{split}.txt").write_text("\n".join(lines))
        with pytest.raises(ValueError, match=message):
            train(**arguments, keep_best=True)
    with pytest.raises(ValueError, match="output must be given"):
        train(pairs={"pt-en": corpus}, **BRIEF)


def test_the_command_takes_pairs(corpus, micro, tmp_path):
    run = "--output", tmp_path / "run", "--preset", micro, "--steps", 1, "--checkpoint-steps", 1
    twice = [x for _ in range(2) for x in ("--pair", f"pt-en={corpus}")]
    assert "--pair pt-en is given twice" in keras_mt("train", *twice, *run, exit_code=2).stderr
    refused = keras_mt("train", "--pair", "pten", *run, exit_code=1).stderr
    assert "A pair must be SOURCE-TARGET=DATA" in refused
    refused = keras_mt("train", "--source", "pt", "--target", "en", *run, exit_code=1).stderr
    assert "data must be given" in refused
    result = keras_mt("train", *twice[:2], "--vocab-size", 400, "--max-length", 64, *run)
    assert "finished at step 1" in result.output
