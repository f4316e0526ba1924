import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.data import load_corpus
from keras_mt.data.cleaning import Cleaning
from keras_mt.data.cleaning_rules import RULES, pair_hash, rule_names

LANGUAGES = ("en", "de")
WILD = st.one_of(
    st.text(max_size=80),
    # What the rules look at, in any combination.
    st.lists(
        st.sampled_from(["<b>", "&nbsp;", "1,000", "٣٤", "кот", "猫", "\ufffd", "a ", "9" * 5000]),
        max_size=6,
    ).map("".join),
)


def dropped_by(source, target, languages=LANGUAGES):
    return [
        name
        for name, rule in RULES.items()
        if name != "language" and rule.drops(source, target, *languages)
    ]


@given(WILD, WILD)
def test_rules_take_any_text_and_do_not_mind_the_direction(source, target):
    found = dropped_by(source, target)
    assert found == dropped_by(source, target) == dropped_by(target, source, LANGUAGES[::-1])
    assert 0 <= pair_hash(source, target) < 2**64


GOOD = [
    ("A dog runs.", "Ein Hund läuft."),
    ("EU", "Europäische Union"),
    ("Berlin 2019", "Berlin 2019"),  # Names stay as they are.
    ("Two dogs and 11 cats", "2 Hunde und elf Katzen"),
    ("It costs 1,000.50 dollars.", "Es kostet 1.000,50 Dollar."),
    ("12/31/2019 at 3:30 pm", "31.12.2019 um 15:30"),
    ("12 million people", "12.000.000 Menschen"),
    ("a < b and b > c", "a < b und b > c"),
    ("Tom & Jerry; Q&A", "Tom & Jerry; Q&A zu zweit"),
    ("I &apos;m here", "ich bin &quot; hier &quot;"),  # As Moses escapes them.
]


@pytest.mark.parametrize("pair", GOOD)
def test_translations_are_kept(pair):
    assert dropped_by(*pair) == []


@pytest.mark.parametrize(
    ("rule", "pair", "languages"),
    [
        ("empty", ("A dog.", " "), LANGUAGES),
        ("empty", ("...", "Ein Hund."), LANGUAGES),
        ("long", ("dog " * 201, "Hund " * 201), LANGUAGES),
        ("long", ("d" * 1501, "h" * 1501), LANGUAGES),
        ("ratio", ("A dog runs over the green grass of a wide meadow.", "Ein"), LANGUAGES),
        ("copy", ("A dog runs.", "a dog runs!"), LANGUAGES),
        ("markup", ("A <b>dog</b>.", "Ein Hund."), LANGUAGES),
        ("markup", ("A dog.", "Ein&nbsp;Hund."), LANGUAGES),
        ("markup", ("A dog.", "Ein Hund\x07."), LANGUAGES),
        ("markup", ("A dog.", "Zwei Türen".encode().decode("latin-1")), LANGUAGES),
        ("script", ("A dog runs.", "Собака бежит."), LANGUAGES),
        ("script", ("A dog runs.", "dog runs"), ("en", "zh-Hans")),
        ("numbers", ("In 1984.", "Im Jahr 1985."), LANGUAGES),
        ("numbers", ("In 1984.", "Im Jahr."), LANGUAGES),
    ],
)
def test_each_rule_drops_what_it_is_for(rule, pair, languages):
    assert rule in dropped_by(*pair, languages)


def test_other_scripts_take_other_lengths():
    english = "A dog is running over the green grass of a wide meadow."
    assert dropped_by("犬が広い牧草地の緑の草の上を走っている。", english, ("ja", "en")) == []
    assert dropped_by("Собака бежит.", "A dog runs.", ("ru", "en_GB")) == []
    assert dropped_by("Собака", "whatever this is", ("xx", "yy")) == []  # Not known: not judged.


def test_pairs_are_equal_without_case_punctuation_and_space():
    assert pair_hash("A  dog.", "Ein Hund!") == pair_hash("a dog", "EIN HUND")
    assert pair_hash("A dog.", "Ein Hund 1.") != pair_hash("A dog.", "Ein Hund 2.")
    assert pair_hash("ab", "c") != pair_hash("a", "bc")
    assert pair_hash("कि", "a") != pair_hash("का", "a")  # Vowel signs are no punctuation.


def test_rules_are_chosen_by_name():
    assert rule_names(identify=True) == tuple(RULES)
    assert "language" not in rule_names() and "copy" not in rule_names(without=["copy"])
    with pytest.raises(ValueError, match="no rule 'copies'; there are empty, long, "):
        rule_names(without=["copies"])


def test_other_languages_are_told():
    def dropped(source, target, *languages):
        return RULES["language"].drops(source, target, *languages or LANGUAGES)

    english, german = "A dog runs over the wide meadow.", "Ein Hund läuft über die weite Wiese."
    assert not dropped(english, german) and dropped(german, english)
    assert dropped(english, "Un chien court dans la grande prairie.")
    assert not dropped("Un chien", "Un chien")  # Too short to tell.
    with pytest.raises(ValueError, match="py3langid does not know the language 'qq'; it knows "):
        dropped(english, german, "en", "qq")


@pytest.mark.skipif("KERAS_MT_DATA" not in os.environ, reason="KERAS_MT_DATA is not set")
@pytest.mark.long
@pytest.mark.parametrize(
    "split", ["validation", pytest.param("train", marks=pytest.mark.exhaustive)]
)
def test_clean_captions_are_kept(split, tmp_path):
    for code in ("en", "de"):
        corpus = Path(os.environ["KERAS_MT_DATA"]) / "multi30k_en_de"
        (tmp_path / f"{code}.train.txt").symlink_to(corpus / f"{code}.{split}.txt")
    cleaning = Cleaning(tmp_path, "en", "de", rule_names())
    pairs = list(load_corpus(tmp_path, "en", "de", "train").as_numpy_iterator())
    assert cleaning.kept > 0.999 * len(pairs) > 1000 and len(cleaning.verdicts) == len(pairs)
    kept = [pair for pair, verdict in zip(pairs, cleaning.verdicts, strict=True) if not verdict]
    assert list(cleaning.pairs()) == kept
