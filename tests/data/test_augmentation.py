import ast
import collections
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.data import augmentation
from keras_mt.data.augmentation import CYCLE, KINDS, augment, augmentations, augmented

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


@given(st.text(), st.sampled_from(KINDS), st.integers(0), st.integers(0))
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


def test_each_kind_changes_each_pair_once_in_a_cycle():
    pairs, counts = 1000, collections.Counter()
    for index in range(pairs):
        seen = [augment("it's me.", KINDS, 5, epoch, index) for epoch in range(CYCLE)]
        assert seen.count("IT'S ME.") == seen.count("It's Me.") == 1
        assert seen.count("it's me.") == CYCLE - len(KINDS)
        counts[seen.index("IT'S ME.")] += 1
        alone = [augment("it's me.", ["caps"], 5, epoch, index) for epoch in range(CYCLE)]
        assert alone.index("IT'S ME.") == seen.index("IT'S ME.") and len(set(alone)) == 2
    # A tenth in each epoch: five standard deviations of a binomial.
    assert all(
        abs(counts[epoch] - pairs / 10) < 5 * (pairs * 0.09) ** 0.5 for epoch in range(CYCLE)
    )


DRAWN = """
import runpy, sys, types
sys.modules |= {"keras_mt": 0, "keras_mt.errors": types.SimpleNamespace(InputError=ValueError)}
augment = runpy.run_path(sys.argv[1])["augment"]
print([augment("it's me .", ["caps", "punctuation"], 1, epoch, 3) for epoch in range(20)])
"""


@pytest.mark.parametrize("seed_of_hashes", ["1", "2"])
def test_what_is_drawn_is_the_same_in_any_process(seed_of_hashes):
    found = subprocess.run(
        [sys.executable, "-c", DRAWN, augmentation.__file__],
        env={"PYTHONHASHSEED": seed_of_hashes}, capture_output=True, encoding="utf-8", check=True,
    ).stdout  # fmt: skip
    drawn = [augment("it's me .", ["caps", "punctuation"], 1, epoch, 3) for epoch in range(20)]
    assert ast.literal_eval(found) == drawn and len({*drawn}) == 3


def test_names_are_put_in_order_and_unknown_ones_refused():
    assert augmentations("title, caps") == ("caps", "title")
    with pytest.raises(ValueError, match=r"augment must be some of caps, .*'upper'"):
        augmentations("caps,upper")
