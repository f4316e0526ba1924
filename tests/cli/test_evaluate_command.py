import json

import pytest
import sacrebleu
from command import keras_mt, strict

from keras_mt.cli import main

pytestmark = pytest.mark.usefixtures("load_once")


@pytest.mark.long
def test_evaluate_takes_an_ensemble(eager, run_dir, tmp_path):
    (tmp_path / "pairs.tsv").write_text("O livro é novo.\tThe book is new.\n", encoding="utf-8")
    data = "--data", tmp_path / "pairs.tsv", "--source", "pt", "--target", "en"
    arguments = (*data, "--beam-size", 1, "--max-length", 8, "--resamples", 0)
    alone, twice = (
        json.loads(keras_mt("evaluate", run_dir, *arguments, *more).stdout.splitlines()[-1])
        for more in ((), ("--ensemble", run_dir))
    )
    for scores in (alone, twice):
        del scores["seconds"], scores["sentences_per_second"]
    assert alone == twice and alone["bleu"] > 50


def test_two_exports_are_evaluated_together(exported, corpus, tmp_path):
    (tmp_path / "other").symlink_to(exported)
    data = ["--data", corpus, "--source", "pt", "--target", "en", "--split", "validation"]
    result = keras_mt("evaluate", exported, tmp_path / "other", *data, "--resamples", 0)
    first, second = json.loads(result.stdout.splitlines()[-1])["systems"]
    assert first["bleu"] == second["bleu"] > 50


def test_evaluate_prints_sacrebleus_scores_last(run_dir, load, corpus, exported):
    arguments = ("--data", corpus, "--source", "pt", "--target", "en")
    scores = json.loads(keras_mt("evaluate", run_dir, *arguments).stdout.splitlines()[-1])
    sources, references = (
        (corpus / f"{language}.test.txt").read_text(encoding="utf-8").splitlines()
        for language in ("pt", "en")
    )
    bleu, chrf = sacrebleu.BLEU(), sacrebleu.CHRF()
    translations = load()(sources)
    assert 50 < scores["bleu"] < 100
    assert scores["bleu"] == round(bleu.corpus_score(translations, [references]).score, 2)
    assert scores["chrf"] == round(chrf.corpus_score(translations, [references]).score, 2)
    assert scores["bleu_signature"] == str(bleu.get_signature())
    assert scores["chrf_signature"] == str(chrf.get_signature())
    more = "--split", "validation", "--resamples", 50
    others = keras_mt("evaluate", exported.parent, *arguments, *more)
    others = json.loads(others.stdout.splitlines()[-1])
    assert set(others) == set(scores) and 50 < others["bleu"] != scores["bleu"]


@pytest.mark.long
def test_evaluate_says_whether_sentences_are_split(eager, run_dir, exported, tmp_path):
    (tmp_path / "pairs.tsv").write_text("Olá!\tHello!\n", encoding="utf-8")
    arguments = ["--data", tmp_path / "pairs.tsv", "--source", "pt", "--target", "en"]
    arguments += ["--resamples", "0"]
    for model, options, splits in (
        (run_dir, ["--split-sentences", "--max-length", "2"], True),
        (run_dir, ["--no-split-sentences", "--max-length", "2"], False),
        (exported, [], True),
    ):
        line = keras_mt("evaluate", model, *arguments, *options)
        assert strict(line.stdout.splitlines()[-1])["split_sentences"] is splits


def test_an_unknown_tokenizer_is_refused_at_once(tmp_path):
    result = keras_mt("evaluate", tmp_path, "--tokenize", "foo", check=False)
    assert result.exit_code == 2 and "'--tokenize': 'foo' is not one of" in result.output
    assert "13a" in result.output
    (option,) = [x for x in main.commands["evaluate"].params if x.name == "tokenize"]
    assert {*option.type.choices} <= {*sacrebleu.BLEU.TOKENIZERS}
