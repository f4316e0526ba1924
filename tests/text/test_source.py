"""Sources and their translations, aligned by hand."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.options.search import KEPT_KINDS
from keras_mt.text import Alignment, Glossary, Placed, Source
from keras_mt.text.spans import GUARD
from keras_mt.text.words import WITHOUT_SPACES

PIECE = re.compile(rf" ?(?:[{WITHOUT_SPACES}]|[^\W{WITHOUT_SPACES}]+|[^\w\s])")


def pieces(text):
    return [piece.replace(" ", "▁") for piece in PIECE.findall(f" {text}")] + ["</s>"]


def aligned(source, target, links):
    """An alignment: for each target piece the source pieces that it comes from, "0 1+2 -"."""
    sides = pieces(source.text.replace(GUARD, "")), pieces(target)
    attention = np.full([len(side) for side in sides[::-1]], 0.01)
    links = [*links.split(), str(len(sides[0]) - 1)]
    for row, link in zip(attention, links, strict=True):
        for i in re.findall(r"\d+", link):
            row[int(i)] = 1
    return Alignment(*sides, attention / attention.sum(axis=1, keepdims=True))


def translated(text, translation, links, terms=(), keep=KEPT_KINDS, **options):
    source = Source(text, Glossary(terms), keep, trusted=True, **options)
    return source.translated(translation, aligned(source, translation, links))


TERMS = {
    "man": "Kerl", "dog": "Köter", "book": "Schmöker", "woman": "Dame", "gave up": "verwarf",
    "then": "darauf", "blue shirt": "Leibchen", "fire truck": "Löschzug",
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "translation", "links", "expected"),
    [
        ("A man in a blue shirt reads a book.", "Ein Mann in einem blauen Hemd liest ein Buch.",
         "0 1 2 3 4 5 6 7 8 9", "Ein Kerl in einem Leibchen liest ein Schmöker."),
        ("He gave up the paper.", "Er gab das Papier auf.", "0 1 3 4 2 5",
         "Er verwarf das Papier."),  # What stands in the gap of a verb stays.
        ("He gave up the paper.", "Papier gab er auf.", "4 1 0 2 5", "Papier verwarf er."),
        ("The woman sleeps", "Frau schläft", "1 2", "Dame schläft"),
        ("A dog sees a man", "Einen Mann sieht ein Hund", "3 4 2 0 1",
         "Einen Kerl sieht ein Köter"),
        ("Then he left.", "Dann ging er.", "0 2 1 3", "Darauf ging er."),
        ("He then left.", "Er ging. Dann kam er.", "0 2 3 1 - - 3", "Er ging. Darauf kam er."),
        ("“dog” (man)?", "„Hund“ (Mann)!", "0 1 2 3 4 5 6", "„Köter“ (Kerl)!"),
        ("a dog’s book", "a hound’s libro", "0 1 2 3 4", "a Köter’s Schmöker"),
        ("a fire truck", "ein Feuerwehrauto", "0 1+2", "ein Löschzug"),
        # What is there already stays, inflected or not, unless it is another word.
        ("two dog", "zwei Kötern", "0 1", "zwei Kötern"),
        ("A man reads a book", "Ein Kerl liest Schmökers", "0 1 2 4", "Ein Kerl liest Schmökers"),
        ("a man and a guy", "ein Mann und ein Kerl", "0 1 2 3 4", "ein Kerl und ein Kerl"),
        ("no term", "kein Wort", "0 1", "kein Wort"),
    ],
)  # fmt: skip
def test_terms_stand_where_their_words_stood(text, translation, links, expected):
    found = translated(text, translation, links, TERMS)
    assert found.text == expected
    assert [placed.warning for placed in found.placed] == [None] * len(found.placed)


@pytest.mark.parametrize(
    ("text", "translation", "links", "expected", "warnings"),
    [
        ("a dog and a dog run", "zwei Hunde rennen", "0 1+4 5", "zwei Köter Köter rennen",
         ["inserted", None]),
        ("the dog leash is red", "die Hundeleine ist rot", "0 1+2 3 4", "die Hundeleine ist rot",
         ["compound"]),
    ],
)  # fmt: skip
def test_what_is_uncertain_is_named(text, translation, links, expected, warnings):
    found = translated(text, translation, links, TERMS)
    assert found.text == expected
    assert [placed.warning for placed in found.placed] == warnings


@pytest.mark.parametrize(
    ("text", "translation", "links", "term", "expected"),
    [
        ("the dog sleeps", "สุนัขนอน", "1 1 1 1 1 2 2 2", "หมา", "หมานอน"),
        ("he sees a dog", "他看见一只狗。", "0 1 1 2 2 3 -", "犬", "他看见一只犬。"),
        ("the dog barks", "犬が吠える", "1 0 2 2 2", "いぬ", "いぬが吠える"),
        ("dog eats rice", "개가 밥을 먹는다", "0 2 1", "강아지", "강아지가 밥을 먹는다"),
        ("dog", "아이", "0", "아기", "아기"),  # The word's end is no particle after a vowel.
    ],
)
def test_terms_in_scripts_without_spaces_and_with_particles(
    text, translation, links, term, expected
):
    found = translated(text, translation, links, {"dog": term})
    assert found.text == expected and found.placed == (Placed("dog", term),)


def test_terms_of_texts_without_spaces():
    found = translated(
        "开放银行今天关门", "Open bank closed today", "0 2 6 4", {"银行": "institute"}
    )
    assert found.text == "Open institute closed today"
    found = translated("은행은 크다", "The bank is big", "- 0 - 1", {"은행": "institute"})
    assert found == ("The institute is big", (Placed("은행", "institute"),))


def test_the_case_of_a_term_is_its_own_but_for_a_first_word():
    for term, expected in (("x-ray", "X-ray here"), ("iPhone 3", "iPhone 3 here")):
        assert translated("Dog here", "Hund here", "0 1", {"dog": term}).text == expected


CHAT = "Contact jane@example.org or see https://example.org/x for {name} 👍"


@pytest.mark.parametrize(
    ("translation", "links", "expected"),
    [
        ("Schreib 123 oder sieh 124 für 125", "0 1 2 3 4 5 6",
         "Schreib jane@example.org oder sieh https://example.org/x für {name} 👍"),
        ("Für 125 schreib 123 oder sieh 124", "- - - - - - -",
         "Für {name} 👍 schreib jane@example.org oder sieh https://example.org/x"),
        ("Schreib oder sieh für.", "0 2 3 5 -",
         "Schreib jane@example.org oder sieh https://example.org/x für {name} 👍."),
        ("Schreib ihr, 123, oder sieh 124 124 123 für 125", "0 1 - 1 - 2 3 4 4 4 5 6",
         "Schreib ihr, jane@example.org, oder sieh https://example.org/x für {name} 👍"),
        ("Schreib ihr oder sieh es dafür", "0 1 2 3 4 6",
         "Schreib jane@example.org oder sieh https://example.org/x {name} 👍"),
    ],
)  # fmt: skip
def test_kept_spans_stand_once_where_they_stood(translation, links, expected):
    assert Source(CHAT, keep=KEPT_KINDS).text == "Contact 123 or see 124 for 125"
    assert translated(CHAT, translation, links).text == expected


@pytest.mark.parametrize(
    ("text", "read", "translation", "expected"),
    [
        ("Hi 👍, 123.", "Hi, 123.", "Hallo, 123.", "Hallo 👍, 123."),
        ("👍 Hi (👍)", " Hi ()", " Hallo ()", "👍 Hallo (👍)"),
        ("Hi {x} 123", "Hi 124 123", "123 Hallo 124", "123 Hallo {x}"),
        ("a-{x}-b", "a-123-b", "A-123-B", "A-{x}-B"),
        ('Say "hi" 👍', 'Say "hi"', "Sag „hi“", "Sag „hi“ 👍"),
        ("One (of {x}) runs", "One (of 123) runs", "Einer rennt", "Einer {x} rennt"),
        ("A\n{x}: {y}.\nB 👍\n", "A\n\nB\n", "X\n\nY\n", "X\n{x}: {y}.\nY 👍\n"),
    ],
)
def test_spans_are_spaced_as_in_the_source(text, read, translation, expected):
    source = Source(text, keep=KEPT_KINDS)
    assert source.text == read and not source.passes
    assert source.translated(translation).text == expected


def test_a_text_of_spans_alone_passes():
    for text in (" {x}: {y}!\n", "👍\x07", '<b title="é">{x} &amp;</b><br>'):
        source = Source(text, keep=KEPT_KINDS, markup="html" if "<" in text else None)
        assert source.passes
        assert source.translated("Anything").text == text.replace("\x07", " ")
        assert source.probes("Anything") == []
    assert not Source("dog", Glossary({"dog": "Hund"})).passes
    assert Source("Keras MT.", Glossary(["Keras MT"])).passes


def test_no_sentence_ends_within_a_term():
    source = Source("Is Yahoo! Finance up? Yes", Glossary(["Yahoo! Finance"]))
    assert source.text == f"Is Yahoo!{GUARD} Finance up? Yes"
    assert Source("看雅虎！财经。", Glossary(["雅虎！财经"])).text == f"看雅虎！{GUARD}财经。"
    assert Source("a\x03 b\x1f\x7f").text == "a  b  "


def test_terms_are_written_behind_their_words_for_models_that_read_them():
    glossary = Glossary({"dog": "Köter", "New York": "Neu York", "Keras": None})
    source = Source("A dog, New York Keras {x}", glossary, KEPT_KINDS, annotate=True)
    assert source.text == (
        f"A dog,\x01Köter\x02 New{GUARD} York\x01Neu{GUARD} York\x02 Keras\x01Keras\x02 123"
    )
    # The pieces of an annotation are its word's.
    source = Source("A dog runs", glossary, annotate=True)
    sides = ["▁A", "▁dog", "<0x01>", "▁Köter", "<0x02>", "▁runs", "</s>"], pieces("Ein Hund rennt")
    attention = np.eye(7)[[0, 3, 5, 6]]
    found = source.translated("Ein Hund rennt", Alignment(*sides, attention))
    assert found == ("Ein Köter rennt", (Placed("dog", "Köter"),))


@pytest.mark.parametrize(
    ("translation", "rows", "expected"),
    [
        ("Ein Kötern rennt", [0, 3, 5], "Ein Kötern rennt"),
        ("Köter rennt", [0, 5], "Köter rennt"),  # Even where the attention is another word's.
        ("Ein Köterter rennt", [0, 3, 5], "Ein Köter rennt"),
        ("Ein Köt rennt", [0, 3, 5], "Ein Köter rennt"),
        ("Ein Köter Köt rennt", [0, 3, 3, 5], "Ein Köter rennt"),
    ],
)
def test_of_a_term_that_was_read_the_term_alone_is_left(translation, rows, expected):
    source = Source("A dog runs", Glossary({"dog": "Köter"}), annotate=True, trusted=True)
    sides = ["▁A", "▁dog", "<0x01>", "▁Köter", "<0x02>", "▁runs", "</s>"], pieces(translation)
    found = source.translated(translation, Alignment(*sides, np.eye(7)[[*rows, 6]]))
    assert found.text == expected


def test_a_prefix_never_changes():
    source = Source("A dog sees a dog", Glossary({"dog": "Köter"}), trusted=True)
    translation = "Ein Hund sieht einen Hund"
    alignment = aligned(source, translation, "0 1 2 3 4")
    for prefix in ("Ein Hund sieht", "Ein Hund si", "Ein Hund "):
        found = source.translated(translation, alignment, prefix=prefix)
        assert found.text == "Ein Hund Köter sieht einen Köter".replace(
            "Hund Köter sieht", "Hund sieht"
        ) or found.text.startswith(prefix)
        assert found.text.startswith(prefix)
    source = Source("See {x} or {y}", keep=KEPT_KINDS)
    for prefix in ("Sieh {x}", "123 Sieh {x}"):
        found = source.translated(f"{prefix} oder 124", prefix=prefix)
        assert found.text == f"{prefix} oder {{y}}"
    source = Source("A dog\nIt runs", Glossary({"dog": "Köter"}))  # Whatever its lines are.
    assert source.translated("Da\nEs rennt", prefix="Da\nEs").text.startswith("Da\nEs")


def test_lines_stay_apart():
    found = translated("A dog\nA cat {x}", "Ein Tier\nKatze", "0 3\n3", {"dog": "Köter"})
    assert found.text == "Ein Köter\nKatze {x}"


@pytest.mark.parametrize(
    ("text", "translation", "links", "expected"),
    [
        ("A <b>dog</b> <i>runs</i>", "Da rennt ein Hund", "- 2 0 1",
         "Da <i>rennt</i> ein <b>Köter</b>"),
        ("a <b>fire</b> <i>truck</i> here", "hier ein Feuer Auto", "3 0 1 2",
         "hier ein <b>Löschzug</b><i></i>"),
        ("a <b>{x}</b> &amp; <i>man</i>", "123 & Mann", "1 2 3", "<b>{x}</b> &amp; <i>Kerl</i>"),
        ('I use <span translate="no">Keras MT</span> now', "Jetzt nutze ich Keras MT", "4 1 0 2 3",
         'Jetzt nutze ich <span translate="no">Keras MT</span>'),
        ('A man in <s translate="no">Keras MT</s> shirt', "Ein Mann im K-MT Hemd", "0 1 2 3 3 4 5",
         'Ein Kerl im <s translate="no">Keras MT</s> Hemd'),
    ],
)  # fmt: skip
def test_terms_and_spans_within_elements(text, translation, links, expected):
    assert translated(text, translation, links, TERMS, markup="html").text == expected


@pytest.mark.parametrize("code", ["%(name)s", "ls -l *.txt", "$ ls", "a_b", "/etc/hosts"])
def test_protected_code_is_read_as_a_number_and_prose_as_it_is(code):
    html = f"Run <code>{code}</code> in 123"
    assert Source(html, markup="html").text == "Run 124 in 123"
    written = translated(html, "Nimm 124 in 123 124", "0 1 2 3 1", markup="html").text
    assert written == f"Nimm <code>{code}</code> in 123"
    for prose in ("Yahoo!", "C++", "12.3", "AT&amp;T"):
        read = Source(f"<kbd>{prose}</kbd> here", markup="html").text
        assert read == f"{prose} here".replace("&amp;", "&")


def test_what_attention_leaves_open_is_settled_by_probes():
    source = Source("Man and dog", Glossary(TERMS), trusted=True)
    alignment = aligned(source, "Ein Mann und Hund", "0 0 1 2")
    assert source.probes("Ein Mann und Hund", alignment) == ["xx and dog"]
    for falls, expected in (
        ([[0, 5, 0, 0, 0]], "Ein Kerl und Köter"),
        ([[5, 0, 0, 0, 0]], "Kerl Mann und Köter"),
    ):
        found = source.translated("Ein Mann und Hund", alignment, [np.array(f) for f in falls])
        assert found.text == expected
    # A term of two words may have two, and no probe; its second word has no fall of its own.
    pair = Source("Man and blue shirt", Glossary({"blue shirt": "Leibchen"}))
    alignment = aligned(pair, "Mann und blaues Hemd", "0 1 2 3")
    assert (
        Source(pair.plain, Glossary({"blue shirt": "y"}), trusted=True).probes(
            "Mann und blaues Hemd", alignment
        )
        == []
    )
    falls = [np.array([0, 0, 5, 0.1, 0])]
    assert pair.translated("Mann und blaues Hemd", alignment, falls).text == "Mann und Leibchen"
    # Without an alignment, or with one that is not trusted, all are probed.
    untrusted = Source("Man and dog", Glossary(TERMS))
    for known in (None, alignment):
        assert untrusted.probes("Hund und Mann", known) == ["xx and dog", "Man and xx"]
    falls = [np.array([-1, 0, 5, 0]), np.array([4, 0, 1, 0])]
    alignment = Alignment([], pieces("Hund und Mann"))
    assert untrusted.translated("Hund und Mann", alignment, falls).text == "Köter und Kerl"


WORDS = st.lists(
    st.sampled_from(["dog", "cat", "man", "red", "runs", "in"]), min_size=1, max_size=8
)


@given(WORDS, st.randoms(use_true_random=False))
def test_terms_follow_any_order_of_words(words, rng):
    order = rng.sample(range(len(words)), len(words))
    translation = " ".join(f"w{i}" for i in order)
    source = Source(" ".join(words), Glossary({"dog": "Köter", "man": "Kerl"}), trusted=True)
    alignment = aligned(source, translation, " ".join(map(str, order)))
    places = {"dog": "Köter", "man": "Kerl"}
    expected = [places.get(words[i], f"w{i}") for i in order]
    assert source.translated(translation, alignment).text == " ".join(expected)


SPANS = ["{x}", "a@b.org", "https://x.org/a?b=c", "👍"]
OTHERS = ["dog", "Hund", ",", ".", " ", "\n", "123", "日", "-", "124 "]


@given(
    st.lists(st.sampled_from(SPANS + OTHERS), max_size=15),
    st.lists(st.sampled_from(OTHERS), max_size=15),
    st.booleans(),
    st.integers(0, 99),
)
def test_every_kept_span_is_there_once_whatever_comes(parts, others, is_aligned, seed):
    source = Source("".join(parts), keep=KEPT_KINDS)
    translation, alignment = "".join(others), None
    if is_aligned:
        sides = pieces(source.text), pieces(translation)
        weights = np.random.default_rng(seed).random([len(side) for side in sides[::-1]])
        alignment = Alignment(*sides, weights)
    found = source.translated(translation, alignment)
    for text in SPANS:
        assert found.text.count(text) == source.plain.count(text)
    assert sorted(p.target for p in found.placed) == sorted(s.target for s in source.spans)
    if not source.spans:
        assert found.text == translation


def test_placing_needs_neither_tensorflow_nor_keras():
    code = (
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('keras_mt')\n"
        "sys.modules['keras_mt'] = importlib.util.module_from_spec(spec)\n"
        "from keras_mt.text import Glossary, Source\n"
        "print(Source('A dog', Glossary({'dog': 'Hund'})).translated('Un chien').text)\n"
        "print({'keras', 'tensorflow'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == ["Un Hund", "set()"]
