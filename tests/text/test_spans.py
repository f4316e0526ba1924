import unicodedata

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.text.sentences import GUARD, split_lines, split_sentences
from keras_mt.text.terms import KINDS, find, has_kept, parsed, tokens


def function(kinds=()):
    @tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string)] * 2)
    def run(lines, terms):
        return find(lines, tf.range(tf.size(lines)), parsed(terms), kinds)

    return run


@tf.function(autograph=False, input_signature=[tf.TensorSpec([None], tf.string)])
def tokens_of(lines):
    return tokens(lines, tuple(KINDS))[0]


FIND, FIND_KEPT = function(), function(tuple(KINDS))


def found(text, terms="", run=FIND_KEPT):
    """Pairs of a source and a target, in the order of the text."""
    matches = run(tf.constant([text]), tf.constant([terms]))
    columns = [matches.before, matches.source, matches.target, matches.after]
    rows = zip(*([x.decode() for x in column.numpy()] for column in columns), strict=True)
    return [(before + s + after, before + t + after) for before, s, t, after in rows]


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
TERMS = st.lists(st.tuples(SOURCES, st.sampled_from(["x", "Y z"]), st.booleans()), max_size=6)


@given(
    st.lists(st.tuples(st.text("aAbBéÉßяЯ漢かタ\u0301 \u00a0'-.", max_size=30), TERMS), max_size=4)
)
def test_matches_are_those_of_a_matcher_in_python(rows):
    texts = [text for text, _ in rows]
    lines = [
        "\n".join("\t".join((s, t, "case")[: 2 + c]) for s, t, c in terms) for _, terms in rows
    ]
    matches = FIND(tf.constant(texts, tf.string), tf.constant(lines, tf.string))
    strings = [x.numpy() for x in (matches.source, matches.target)]
    for i, (text, terms) in enumerate(rows):
        mine = [
            (source.decode(), target.decode())
            for line, source, target in zip(matches.line.numpy(), *strings, strict=True)
            if line == i
        ]
        expected = by_hand(text, terms)
        assert mine == expected
    guarded = [line.decode().replace(GUARD, "") for line in matches.guarded.numpy()]
    assert guarded == texts


@given(st.lists(st.text(max_size=20), max_size=5))
def test_tokens_are_the_text(texts):
    lines = split_lines(tf.constant(texts, tf.string))[0].flat_values
    found_tokens = tokens_of(lines)
    assert tf.reduce_all(tf.strings.reduce_join(found_tokens, axis=1) == lines)
    assert tf.reduce_all(found_tokens.flat_values != "")


@pytest.mark.parametrize(
    ("text", "terms", "expected"),
    [
        ("Banks, the bank's Bank.", "bank\tInstitut", [("bank", "Institut"), ("Bank", "Institut")]),
        ("IT is it", "IT\tEDV\tcase\nit\tes", [("IT", "EDV"), ("it", "es")]),
        ("a new iPhone", "iphone", [("iPhone", "iPhone")]),
        ("a b c", "a b\tx\nb c\ty\nb\tz", [("a b", "x")]),
        ("a b c d", "a b\tx\nb c d\ty\na\tz", [("a", "z"), ("b c d", "y")]),
        ("b a b b", "b  b\tx\nb\ty", [("b", "y"), ("b b", "x")]),
        ("twice", "twice\tx\ntwice\ty", [("twice", "x")]),
        ("(Bank) “Bank”, #Bank, x-Bank", "bank\tI",
         [("(Bank)", "(I)"), ("“Bank”", "“I”"), ("#Bank", "#I"), ("Bank", "I")]),
        ("((Bank) of)", "bank\tI", [("((Bank)", "((I)")]),
        ("新漢字辞典", "漢字\tKanji\n辞\tx", [("漢字", "Kanji"), ("辞", "x")]),
        ("at example.com/bank", "bank\tI\nexample.com/bank\texample.de",
         [("example.com/bank", "example.de")]),
        ("a bank", "bank\tI\r\n\n  \n", [("bank", "I")]),
    ],
)  # fmt: skip
def test_terms(text, terms, expected):
    assert found(text, terms) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See https://x.org/a_(b)?c=d#e, (http://x.y/) or www.x.de.",
         ["https://x.org/a_(b)?c=d#e", "(http://x.y/)", "www.x.de"]),
        ("At python.org: “example.com”!", ["python.org", "“example.com”"]),
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
    assert bool(has_kept(tf.constant([text]), tuple(KINDS))[0]) == bool(expected)


def test_no_sentence_ends_inside_of_a_match():
    text = "Yahoo! Inc. is old. See {{ a. B }} too. 這。是 好。"
    matches = FIND_KEPT(tf.constant([text]), tf.constant(["yahoo! inc.\tY\n這。是"]))
    sentences = split_sentences(matches.guarded)[0].flat_values.numpy()
    sentences = [sentence.decode().replace(GUARD, "") for sentence in sentences]
    assert sentences == ["Yahoo! Inc. is old.", "See {{ a. B }} too.", "這。是 好。"]
    places = [x.numpy().tolist() for x in (matches.first, matches.last)]
    letters = text.encode().replace(b" ", b"")
    parts = [letters[i : j + 1].decode() for i, j in zip(*places, strict=True)]
    assert parts == ["Yahoo!Inc.", "{{a.B}}", "這。是"]


def test_lines_that_are_no_terms_are_named_by_their_row():
    lines = ["a\tb", "", "a", "a\tb\tcase\n", "a\t", "\tb", "a\tb\tc", "a\tb\tcase\td", "x\ta\n\ty"]
    malformed = parsed(tf.constant(lines)).malformed.numpy().tolist()
    assert malformed == [False] * 4 + [True] * 5
