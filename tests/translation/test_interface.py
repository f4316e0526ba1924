"""What stands around a search, by a stand-in for it."""

import subprocess
import sys

from conftest import ROOT
from word_by_word import WordByWord

from keras_mt import Glossary
from keras_mt.text import Placed

GLOSSARY = Glossary({"dog": "Köter", "big": None})
TEXT, FOUND = (
    "the big dog sleeps at https://x.org/a .",
    "der big Köter schläft bei https://x.org/a .",
)


def test_only_what_has_something_to_place_is_aligned():
    translator = WordByWord(GLOSSARY)
    texts = [TEXT, "the cat", "💡 {x}", "", "refused"]
    results = translator.hypotheses(texts)
    assert [found and found[0].text for found in results] == [FOUND, "der cat", "💡 {x}", "", None]
    assert sorted(translator.searched[False]) == ["", "", "refused", "the cat"]
    assert len(translator.searched[True]) == 1
    assert results[0][0].placed == (
        Placed("big", "big"), Placed("dog", "Köter"), Placed("https://x.org/a", "https://x.org/a"),
    )  # fmt: skip
    assert results[1][0].placed == () and list(results.refusals) == [4]


def test_hypotheses_that_are_equal_then_are_listed_once():
    translator = WordByWord(n_best=2)
    assert translator("the dog") == ["der Hund", "der Tier"]
    (found,) = translator.hypotheses("the dog", glossary=GLOSSARY, confidence=True)
    assert found.text == "der Köter" and found.score == found.mean_log_prob == -0.5
    assert [*map(len, translator.searched.values())] == [1, 1]  # The text with a term but once.


def test_without_attention_words_are_found_by_probes_scored_at_once():
    translator = WordByWord(GLOSSARY, n_best=2, supports_alignment=False)
    texts = [TEXT, "the dog and the https://x.org/a", "the cat"]
    found = [[h.text for h in hypotheses] for hypotheses in translator.hypotheses(texts)]
    assert found == [[FOUND], ["der Köter and der https://x.org/a"], ["der cat", "der cat"]]
    assert len(translator.scored) == 1


IMPORTS = """
import importlib.util, sys

spec = importlib.util.find_spec("keras_mt")
sys.modules["keras_mt"] = importlib.util.module_from_spec(spec)  # Its __init__ imports Keras.
import keras_mt.translation.exported
print({"tensorflow", "keras"} & {*sys.modules})
"""


def test_neither_tensorflow_nor_keras_is_imported_but_by_what_runs_graphs():
    command = [sys.executable, "-c", IMPORTS]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
