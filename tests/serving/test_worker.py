"""What a worker makes of its jobs, by a stand-in for a model."""

import pickle

import pytest
from word_by_word import WordByWord

from keras_mt.serving import worker
from keras_mt.serving.worker import Job


@pytest.fixture(autouse=True)
def model(monkeypatch):
    monkeypatch.setattr(worker, "_model", [WordByWord()])


def test_each_job_has_the_terms_of_its_glossary_and_no_other():
    glossaries = [pickle.dumps([("dog", word)]) for word in ("Köter", "Dackel")] * 2
    jobs = [Job("the dog", terms=terms) for terms in [*glossaries, None]]
    found = [answer.hypotheses[0].text for answer in worker.translate(jobs)]
    assert found == ["der Köter", "der Dackel", "der Köter", "der Dackel", "der Hund"]


def test_a_job_that_fails_or_is_refused_takes_no_other_with_it():
    wrong = pickle.dumps([("", "Hund")])
    jobs = [Job("the dog"), Job("the dog", terms=b"no glossary"), Job("a", terms=wrong)]
    fine, failed, refused = worker.translate([*jobs])
    assert fine.hypotheses[0].text == "der Hund"
    assert failed.failure == "UnpicklingError" and "pairs[0]" in refused.refusal
    assert worker.translate([Job("refused")])[0].refusal.startswith("the model gives no finite")
