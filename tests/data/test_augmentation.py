import ast
import collections
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.data import augmentation
from keras_mt.data.augmentation import CYCLE, augmented, phase
from keras_mt.options.training import AUGMENTATIONS

PUNCTUATION = re.compile(r"[\s.。।'\"\u2018-\u201f«»]")


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("caps", 'A man\'s "dog" runs, fast.', 'A MAN\'S "DOG" RUNS, FAST.'),
        ("caps", "a man &apos;s dog &amp; &#124; cat", "A MAN &apos;S DOG &amp; &#124; CAT"),
        ("caps", "große Häuser", "GROSSE HÄUSER"),
        ("title", "a man's blond-haired dog.", "A Man's Blond-Haired Dog."),
        ("title", "at McDonald &apos;s (the new one)", "At McDonald &apos;s (The New One)"),
        ("title", "ele disse: 'olá'", "Ele Disse: 'Olá'"),
    ],
)
def test_case_is_changed_as_written_down(kind, source, expected):
    assert augmented(source, kind) == expected


def typed(source):
    return {" ".join(augmented(source, "punctuation", 1, i).split()) for i in range(40)}


def test_punctuation_is_changed_in_each_way():
    assert typed("a dog runs .") == {"a dog runs .", "a dog runs"}
    assert typed("wait...") == {"wait..."} and typed(".") == {"."}
    assert typed('it\'s "me"') == {"it’s “me”", "it’s „me“", "it’s «me»"}
    assert typed("the 'old' man") == {"the ‘old’ man"}
    assert typed("it &apos;s") == {"it ’s"}
    assert typed("it’s „me“") == {'it\'s "me"'}  # And what is typographic becomes straight.
    doubled = [augmented("a b c d", "punctuation", 1, i) for i in range(40)]
    assert any("  " in text for text in doubled) and "a b c d" in doubled


@given(st.text(), st.sampled_from(AUGMENTATIONS), st.integers(0), st.integers(0))
def test_any_line_stays_a_line(source, kind, seed, index):
    source = source.replace("\n", "")
    changed = augmented(source, kind, seed, index)
    assert "\n" not in changed and bool(changed.strip()) == bool(source.strip())
    assert changed == augmented(source, kind, seed, index)
    if kind == "punctuation":
        source = source.replace("&apos;", "'").replace("&quot;", '"')
        assert PUNCTUATION.sub("", changed) == PUNCTUATION.sub("", source)


@given(st.text("abcdé XÄ'-.,&;"), st.sampled_from(["caps", "title"]))
def test_case_alone_is_changed(source, kind):
    assert augmented(source, kind).lower() == source.lower()


def test_each_epoch_of_a_cycle_changes_as_many_pairs():
    pairs = 1000
    counts = collections.Counter(phase(5, index) for index in range(pairs))
    assert {*counts} == {*range(CYCLE)}
    # A tenth in each: five standard deviations of a binomial.
    assert all(abs(count - pairs / 10) < 5 * (pairs * 0.09) ** 0.5 for count in counts.values())


DRAWN = """
import runpy, sys, types
kinds = types.SimpleNamespace(AUGMENTATIONS=("caps", "title", "punctuation"))
sys.modules |= {"keras_mt": 0, "keras_mt.options": 0, "keras_mt.options.training": kinds}
made = runpy.run_path(sys.argv[1])
drawn = [made["augmented"]("it's me .", "punctuation", 1, index) for index in range(20)]
print([drawn, [made["phase"](1, index) for index in range(20)]])
"""


@pytest.mark.parametrize("seed_of_hashes", ["1", "2"])
def test_what_is_drawn_is_the_same_in_any_process(seed_of_hashes):
    found = subprocess.run(
        [sys.executable, "-c", DRAWN, augmentation.__file__],
        env={"PYTHONHASHSEED": seed_of_hashes}, capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    drawn = [augmented("it's me .", "punctuation", 1, index) for index in range(20)]
    assert ast.literal_eval(found) == [drawn, [phase(1, index) for index in range(20)]]
    assert len({*drawn}) > 3
