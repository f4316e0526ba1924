import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.options.search import KINDS as NAMES
from keras_mt.text import Glossary
from keras_mt.text.glossary import Term
from keras_mt.text.spans import KINDS, find_spans


def found(text, glossary=None, keep=tuple(KINDS)):
    """Pairs of a source and a target, in the order of the text."""
    return [(text[a:b], target) for a, b, target, *_ in find_spans(text, glossary, keep)]


def cut(text):
    """The tokens of a text, character by character."""
    words, before = [], None
    for character in text:
        name, category = unicodedata.name(character, ""), unicodedata.category(character)
        kind = "word" if category[0] in "LMN" else "space" if category[0] == "Z" else None
        if name.startswith(("CJK", "HIRAGANA", "KATAKANA")):
            kind = None if category[0] == "L" else kind
            words.append(character)
            before = "alone"
        elif (before == "alone" and category[0] == "M") or (kind and kind == before):
            words[-1] += character
        else:
            words.append(character)
            before = kind
    return words


def by_hand(text, terms):
    """(first, last, target) of the matches, in characters that are not white space."""
    words, candidates = cut(text), []
    for number, (source, target, case) in enumerate(terms):
        fold = str if case else str.lower
        wanted = [fold(" " if w.isspace() else w) for w in cut(source)]
        for i in range(len(words) - len(wanted) + 1):
            window = words[i : i + len(wanted)]
            if [fold(" " if w.isspace() else w) for w in window] == wanted:
                candidates.append((-len(wanted), i, not case, number, target))
    taken, matches = set(), []
    for size, i, _, _, target in sorted(candidates):
        places = range(i, i - size)
        if not taken.intersection(places):
            taken |= {*places}
            matches.append((i, "".join(words[i : i - size]), target))
    return [(source, target) for _, source, target in sorted(matches)]


LETTERS = st.text("aAbBéÉßяЯ漢かタ\u0301 \u00a0'-.", min_size=1, max_size=5)
SOURCES = st.builds(str.strip, LETTERS).filter(bool)


@given(
    st.text("aAbBéÉßяЯ漢かタ\u0301 \u00a0'-.", max_size=30),
    st.dictionaries(SOURCES, st.booleans(), max_size=6),
)
def test_terms_are_those_of_a_matcher_by_hand(text, sources):
    terms = [Term(source, f"x{i}", case) for i, (source, case) in enumerate(sources.items())]
    keys = [(" ".join(t.source.split()), t.case_sensitive) for t in terms]
    keys = [(source if case else source.lower(), case) for source, case in keys]
    terms = [term for i, term in enumerate(terms) if keys[i] not in keys[:i]]
    assert found(text, Glossary(terms), ()) == by_hand(text, terms)


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Banks, the bank's (Bank).", {"bank": "I"}, [("bank", "I"), ("Bank", "I")]),
        ("IT is it", [("IT", "EDV", True), ("it", "es")], [("IT", "EDV"), ("it", "es")]),
        ("a new iPhone", ["iphone"], [("iPhone", "iPhone")]),
        ("a b c", {"a b": "x", "b c": "y", "b": "z"}, [("a b", "x")]),
        ("a b c d", {"a b": "x", "b c d": "y", "a": "z"}, [("a", "z"), ("b c d", "y")]),
        ("b a b\n\u00a0b", {"b  b": "x", "b": "y"}, [("b", "y"), ("b\n\u00a0b", "x")]),
        ("#Bank, x-Bank, the_bank", {"bank": "I"}, [("Bank", "I"), ("Bank", "I")]),
        ("新漢字辞典", {"漢字": "Kanji", "辞": "x"}, [("漢字", "Kanji"), ("辞", "x")]),
        ("ธนาคารใหญ่", {"ธนาคาร": "bank", "ใ": "x"}, [("ธนาคาร", "bank"), ("ใ", "x")]),
        # Of Korean particles some follow a vowel, and others a consonant.
        ("은행은 은행가 은행에서", {"은행": "bank"}, [("은행", "bank"), ("은행", "bank")]),
        ("아이는 아", {"아": "x", "아이": "child"}, [("아이", "child"), ("아", "x")]),
        # A term has a whole kept span or none of it.
        ("at example.com/bank", {"bank": "I"}, [("example.com/bank", "example.com/bank")]),
        ("at example.com/bank", {"example.com/bank": "x.de"}, [("example.com/bank", "x.de")]),
        ("at bank {a}, {b}", {"bank {a}": "x"}, [("bank {a}", "x"), ("{b}", "{b}")]),
    ],
)
def test_terms(text, terms, expected):
    assert found(text, Glossary(terms)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://x.org/a_(b)?c=d#e, (http://x.y/) or www.x.de.",
         ["https://x.org/a_(b)?c=d#e", "http://x.y/", "www.x.de"]),
        ("At python.org: “example.com”!", ["python.org", "example.com"]),
        ("Mail jane.doe+x@mail.example.org.", ["jane.doe+x@mail.example.org"]),
        ("{name}, {{ user }}, ${x}, $HOME and {a}-{b}",
         ["{name}", "{{ user }}", "${x}", "$HOME", "{a}-{b}"]),
        ("%(count)d of %s, %1$s: %.2f %USER%", ["%(count)d", "%s", "%1$s", "%.2f", "%USER%"]),
        ("100% sure, 5 men, e.g. two", ["100"]),
        ("1,000.50, 2016-11-24, 3.5; 12. +49 (30) 12-34.",
         ["1,000.50", "2016-11-24", "3.5", "12", "+49 (30) 12-34"]),
        ("5 men, 3rd, 1990s, A4, 2.", []),
        ("Call +49 30 1234567, 030/1234567 or (555) 123-4567.",
         ["+49 30 1234567", "030/1234567", "(555) 123-4567"]),
        ("Good 👍🏽 👩‍👩‍👧 🇩🇪 ❤️ ©", ["👍🏽", "👩‍👩‍👧", "🇩🇪", "❤️"]),
    ],
)  # fmt: skip
def test_kept_spans(text, expected):
    assert found(text) == [(span, span) for span in expected]


def test_scripts_without_spaces_end_an_address():
    text = "联系jane@example.org或https://example.org/a看example.com吗,%s人"
    spans = ["jane@example.org", "https://example.org/a", "example.com", "%s"]
    assert found(text) == [(span, span) for span in spans]


def test_what_is_protected_is_kept_whatever_is_in_it():
    text = "The New York Times at x.org/a b, dog"
    glossary = Glossary({"york": "Y", "dog": "Hund", "times": "T", "the new york": "N"})
    protected = [(4, 12), (27, 31)]
    spans = find_spans(text, glossary, ["url"], protected)
    assert [(text[a:b], target, kind) for a, b, target, kind, _ in spans] == [
        ("New York", "New York", "kept"),
        ("Times", "T", "term"),
        ("x.org", "x.org", "url"),  # It goes on to what is protected.
        ("/a b", "/a b", "code"),
        ("dog", "Hund", "term"),
    ]


@pytest.mark.parametrize("part", ["a", "a.", "a@", "0", "+1 ", "{", "{{", "%", "www.", "人", "(0"])
def test_long_texts_take_no_time(part):
    find_spans(part * 10_000, Glossary({"a a": "b"}), KINDS)


def test_options_name_the_kinds():
    assert (*KINDS,) == NAMES
