"""Runs that train a model of several languages."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import sacrebleu
from command import keras_mt
from conftest import bare_ends
from runs import log_rows

from keras_mt import Tokenizer, Translator
from keras_mt.convert import import_model
from keras_mt.data import load_corpus
from keras_mt.run_folder import RunFolder
from keras_mt.training import session, train

pytestmark = pytest.mark.usefixtures("micro", "bare_end")

SMALL = {
    "preset": "micro",
    "vocab_size": 400,
    "warmup_steps": 10,
    "learning_rate": 0.01,
    "batch_tokens": 512,
    "max_length": 32,
    "checkpoint_steps": 20,
    "label_smoothing": 0,
}
BRIEF = {**SMALL, "steps": 2, "checkpoint_steps": 2}


WORDS = {
    "en": ["red", "old", "book", "cup", "dog", "table", "chair", "bed"],
    "de": ["rot", "alt", "Buch", "Tasse", "Hund", "Tisch", "Stuhl", "Bett"],
    "fr": ["rouge", "vieux", "livre", "coupe", "chien", "bureau", "chaise", "lit"],
}
SIZES = {"train": {"de": 300, "fr": 100}, "validation": {"de": 8, "fr": 4}, "test": {"de": 9}}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Sentences of English words, which German has all of, and French a third."""
    folder = tmp_path_factory.mktemp("corpora")
    random = np.random.default_rng(0)
    for split, sizes in SIZES.items():
        sentences = [random.integers(0, 8, random.integers(2, 7)) for _ in range(300)]
        for other, size in sizes.items():
            (folder / other).mkdir(exist_ok=True)
            for code in ("en", other):
                lines = [" ".join(WORDS[code][i] for i in words) for words in sentences[:size]]
                (folder / other / f"{code}.{split}.txt").write_text("\n".join(lines))
    return {"de-en": folder / "de", "en-de": folder / "de", "en-fr": folder / "fr"}


class Dictionary:
    """What the runs measure in place of their model: it knows half of the French words."""

    def hypotheses(self, texts, source_language, target_language):
        known = dict(zip(WORDS[source_language], WORDS[target_language], strict=True))
        if target_language == "fr":
            known = {word: known[word] for word in WORDS[source_language][:4]}
        return [
            [SimpleNamespace(text=" ".join(known.get(word, "?") for word in text.split()))]
            for text in texts
        ]


@pytest.fixture(scope="module")
def messages():
    return []


@pytest.fixture(scope="module")
def trained(pairs, micro, messages, tmp_path_factory):
    output = tmp_path_factory.mktemp("runs") / "trained"
    options = {**SMALL, "steps": 60, "bleu_freq": 5}  # An epoch has 14 steps.
    models = []

    def dictionary(model, tokenizer, **options):
        models.append(model)
        return Dictionary()

    with bare_ends(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "Translator", dictionary)
        train(pairs=pairs, output=output, report=messages.append, **options)
    assert [int(model.optimizer.iterations) for model in models] == [60]  # That which was trained.
    return output


def test_its_configuration_has_the_pairs_and_its_tokenizer_the_languages(trained, pairs, messages):
    config = json.loads((trained / "config.json").read_text(encoding="utf-8"))
    assert config["pairs"] == {pair: str(data) for pair, data in pairs.items()}
    assert config["source"] == "mul"
    assert Tokenizer.load(trained / "tokenizer.model").languages == ("de", "en", "fr")
    # 300, 300 and 100 pairs: (300 / 100) ** (1 - 1 / 5) is 2.41.
    assert "times in an epoch: de-en 1, en-de 1, en-fr 2.4" in messages
    card = RunFolder(trained).card()
    assert card["pairs"] == list(pairs) and len(card["data"]) == 2


def test_the_log_has_the_bleu_of_each_pair(trained, pairs):
    row = [row for row in log_rows(trained) if row["val_loss"]][-1]
    assert row["step"] == "60"
    scores = [float(row[f"val_bleu_{pair}"]) for pair in pairs]
    assert float(row["val_bleu"]) == pytest.approx(np.mean(scores), rel=1e-3)
    corpus = load_corpus(pairs["en-fr"], "en", "fr", "validation").as_numpy_iterator()
    sources, references = ([x.decode() for x in side] for side in zip(*corpus, strict=True))
    french = [found[0].text for found in Dictionary().hypotheses(sources, "en", "fr")]
    expected = sacrebleu.BLEU().corpus_score(french, [references]).score
    assert scores == pytest.approx([100, 100, expected], rel=1e-3) and expected < 90


def test_a_run_of_other_pairs_does_not_go_on(trained, pairs):
    other = dict(reversed(pairs.items()))
    with pytest.raises(ValueError, match=r"pairs was \['de-en', .*\], now \['en-fr', "):
        train(pairs=other, output=trained, **SMALL, steps=60)
    with pytest.raises(ValueError, match=r"corpus_weights was None, now \[1, 1, 1\]"):
        train(pairs=pairs, output=trained, **SMALL, steps=60, corpus_weights=[1, 1, 1])


def test_the_vocabulary_is_of_about_as_much_text_of_each_language(pairs, tmp_path, monkeypatch):
    seen = []

    def spy(texts, vocab_size, seed, languages):
        seen.extend(texts)
        raise InterruptedError

    monkeypatch.setattr(Tokenizer, "train", spy)
    with pytest.raises(InterruptedError):
        train(pairs=pairs, output=tmp_path / "run", **BRIEF)
    sizes = {code: 0 for code in WORDS}
    for text in seen:
        sizes[next(c for c in WORDS if {*text.decode().split()} <= {*WORDS[c]})] += len(text)
    assert max(sizes.values()) < 1.02 * min(sizes.values())
    french = load_corpus(pairs["en-fr"], "en", "fr", "train").as_numpy_iterator()
    assert {text for _, text in french} <= {*seen}


@pytest.mark.long
def test_the_languages_of_the_corpus_are_those_to_evaluate(eager, trained, pairs):
    data = "--data", pairs["en-de"], "--source", "en", "--target", "de", "--beam-size", 1
    data += "--resamples", 0, "--max-length", 8
    found, other = (
        json.loads(keras_mt("evaluate", trained, *data, *more).stdout.splitlines()[-1])["chrf"]
        for more in ((), ("--target-language", "fr"))
    )
    test = list(load_corpus(pairs["en-de"], "en", "de", "test").as_numpy_iterator())
    sources, references = ([text.decode() for text in side] for side in zip(*test, strict=True))
    german = Translator.load(trained, beam_size=1, max_length=8)(sources, None, "en", "de")
    assert round(sacrebleu.CHRF().corpus_score(german, [references]).score, 2) == found
    assert other < found / 2
    refused = keras_mt("translate", trained, "--source-language", "en", stdin="a", exit_code=1)
    assert "--target-language must be given" in refused.stderr


def test_it_translates_into_the_language_that_is_asked_for(eager, trained):
    translator = Translator.load(trained, beam_size=1, max_length=8)
    for target, words in WORDS.items():
        source = "en" if target != "en" else "de"
        text = " ".join(WORDS[source][3:7])
        found = translator(text, source_language=source, target_language=target)
        assert {*found.split()} <= {*words} and found


@pytest.mark.long
@pytest.mark.usefixtures("untrained")
def test_an_imported_model_goes_on_in_several_directions(golden, brief_corpus, tmp_path):
    import_model(golden / "m2m_100", tmp_path / "imported")
    pairs = {"pt-en": brief_corpus, "en-pt": brief_corpus}
    options = {"init": tmp_path / "imported", "batch_tokens": 512, "max_length": 32}
    train(pairs=pairs, output=tmp_path / "run", steps=1, **options)
    languages = RunFolder(tmp_path / "run").load_tokenizer().languages
    assert languages == RunFolder(tmp_path / "imported").load_tokenizer().languages
    other = tmp_path / "other.tsv"
    other.write_text("pt\tqq\nO livro.\t.koob ehT\n")
    with pytest.raises(ValueError, match="pairs must be a code of the model's lang"):
        train(pairs={"pt-qq": other}, output=tmp_path / "no", **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "en", "target": "pt"},
         "in place of all three. Received: data=None, source='en', target='pt', pairs=None"),
        ({"data": "phrasebook", "source": "en"},
         "Give `data`, `source` and `target`, or `pairs` .* Received: data="),
        ({"pairs": {"pt-en": "phrasebook"}, "data": "x"},
         "Received: data='x', .* pairs={'pt-en'"),
        ({"pairs": {"pt-en": "phrasebook"}, "target": "en"},
         "in place of all three.* target='en', pairs="),
        ({"pairs": {}}, "pairs must be a dict"),
        ({"pairs": "pt-en=phrasebook"}, "pairs must be a dict"),
        ({"pairs": {"pten": "phrasebook"}}, "must be SOURCE-TARGET=DATA.* Received: pten=phrase"),
        ({"pairs": {"pt-en-fr": "phrasebook"}}, "must be SOURCE-TARGET=DATA"),
        ({"pairs": {"pt-en": ""}}, "must be SOURCE-TARGET=DATA"),
        ({"pairs": {"pt-en": ["a", "b"]}}, "and one corpus"),
        ({"pairs": {"en-en": "phrasebook"}},
         "codes of two different languages .*Received: en-en=phrasebook"),
        ({"pairs": {"pt-en": "phrasebook", "pt-fr": "phrasebook"}},
         "phrasebook has no language 'fr'; it has pt, en"),
        ({"pairs": {"pt-en": "nowhere"}}, "There is no corpus 'nowhere'"),
        ({"pairs": {"pt-en": "phrasebook"}, "target_language": "en"},
         "target_language does not go with pairs"),
        ({"pairs": {"pt-en": "phrasebook"}, "corpus_weights": [1, 2]},
         "corpus_weights must be positive integers, one for each corpus"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_by_name(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        train(output=tmp_path / "run", **{**BRIEF, **arguments})
    assert not any((tmp_path / "run").glob("*"))


def test_a_tokenizer_without_the_languages_and_a_corpus_without_splits(corpus, tmp_path):
    plain = Tokenizer.train(["the book is on the table"] * 9, vocab_size=300)
    with pytest.raises(ValueError, match="The tokenizer has no languages, which pairs need"):
        train(pairs={"pt-en": corpus}, output=tmp_path / "run", tokenizer=plain, **BRIEF)
    arguments = {"pairs": {"pt-en": tmp_path / "data"}, "output": tmp_path / "run", **BRIEF}
    (tmp_path / "data").mkdir()
    for split, message in (
        ("test", r"data has no split 'train' of '..': expected"),
        ("train", "data has no validation split with pairs of .*needed by: weights=best"),
    ):
        for code in ("pt", "en"):
            lines = (corpus / f"{code}.train.txt").read_text().splitlines()[:40]
            (tmp_path / "data" / f"{code}.{split}.txt").write_text("\n".join(lines))
        with pytest.raises(ValueError, match=message):
            train(**arguments, weights="best")
    with pytest.raises(ValueError, match="output must be given"):
        train(pairs={"pt-en": corpus}, **BRIEF)


@pytest.mark.usefixtures("untrained")
def test_the_command_takes_pairs(corpus, micro, tmp_path):
    run = "--output", tmp_path / "run", "--preset", micro, "--steps", 1, "--checkpoint-steps", 1
    twice = [x for _ in range(2) for x in ("--pair", f"pt-en={corpus}")]
    assert "--pair pt-en is given twice" in keras_mt("train", *twice, *run, exit_code=2).stderr
    refused = keras_mt("train", "--pair", "pten", *run, exit_code=1).stderr
    assert "A pair must be SOURCE-TARGET=DATA" in refused
    refused = keras_mt("train", "--source", "pt", "--target", "en", *run, exit_code=1).stderr
    assert "Give --data, --source and --target, or --pair" in refused
    result = keras_mt("train", *twice[:2], "--vocab-size", 400, "--max-length", 64, *run)
    assert "finished at step 0" in result.output
    assert RunFolder(tmp_path / "run").config.pairs == {"pt-en": str(corpus)}
