"""Fragments, held to parsers of the standard library: that of HTML, and the strict one of XML."""

import html
import re
import time
import xml.etree.ElementTree as ET
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_mt.text import Alignment, Glossary, Source
from keras_mt.text.markup import HtmlFragment
from keras_mt.text.words import Words

WILD = [
    "<b>", "</b>", '<i class="a&amp;b">', "</i>", "<br>", "<br/>", "<img src='x>y' alt=\"'\">",
    "<!-- a < b & c -->", "<p>", "</p>", '<a href="?q=1&amp;r=2" id="&lt;x&gt;">', "</a>", "</x>",
    "<q/>", "<li>", "&amp;", "&lt;", "&eacute;", "&#233;", "&nbsp;", "& ", "< ", " > ", '"', "'",
    "dog", "Cat ", " ", ".", ",", "\n", "日本", "e\u0301", "😀", "ﬁ", "3 < 4", "-", "„",
    "<I>", "</I>",
]  # fmt: skip
KEPT = ["<code>", "</code>", '<s translate="no">', "</s>", '<u class="x notranslate">', "</u>"]


class Elements(HTMLParser):
    """The start tags with their attributes and the comments of HTML, counted."""

    def __init__(self, text):
        super().__init__()
        self.found = Counter()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found[tag, *attrs] += 1

    def handle_comment(self, data):
        self.found[data] += 1


def as_xml(written):
    """HTML as an XML element; ParseError unless it is well-formed."""
    written = re.sub(r"(<(?:br|img)\b(?:[^>\"']|'[^']*'|\"[^\"]*\")*?)/?>", r"\1/>", written)
    written = re.sub(r"<(/?)([A-Za-z]+)", lambda m: f"<{m[1]}{m[2].lower()}", written)
    return ET.fromstring(f"<root>{written.replace('&nbsp;', ' ').replace('&eacute;', 'é')}</root>")


def translated(text, translation, *alignment, **options):
    alignment = Alignment(*alignment) if alignment else None
    return Source(text, markup="html", **options).translated(translation, alignment).text


def letters(text):
    return "".join(text.split())


def pieces(text):
    return [f"▁{word}" for word in text.split()] + ["</s>"]


@given(st.lists(st.sampled_from(WILD), max_size=25), st.randoms(use_true_random=False))
def test_wild_fragments_come_back_well_formed_with_all_their_elements(parts, rng):
    text = HtmlFragment("".join(parts)).fragment
    words = text.split()
    backwards, shuffled = " ".join(words[::-1]), " ".join(rng.sample(words, len(words) // 2))
    for translation in (text, backwards, shuffled, "", "Ein anderer < Text & mehr."):
        sides = pieces(text), pieces(translation)
        weights = np.random.default_rng(rng.randrange(99)).random([len(s) for s in sides[::-1]])
        for alignment in ((), (*sides, weights)):
            written = translated("".join(parts), translation, *alignment)
            assert letters("".join(as_xml(written).itertext())) == letters(translation), written
            assert Elements(written).found == Elements("".join(parts)).found, written


@given(st.lists(st.sampled_from([*WILD, *KEPT, "{x}"]), max_size=25))
def test_what_is_kept_comes_back_once_whatever_the_translation(parts):
    text = HtmlFragment("".join(parts)).fragment
    kept = [text[e.start : e.end] for e in text.elements if e.kept]
    kept = [own for own in kept if own.strip()]
    for translation in (text, " ".join(text.split()[::-1]), "", "Ein Text"):
        options = {"glossary": Glossary({"dog": "Köter"}), "keep": ["placeholder"]}
        written = translated("".join(parts), translation, **options)
        assert written.count("{x}") == parts.count("{x}")
        root = as_xml(written)
        assert Elements(written).found == Elements("".join(parts)).found, written
        found = Counter()
        stack = [root]
        while stack:
            node = stack.pop()
            if node.tag in ("code", "s", "u"):
                found[letters("".join(node.itertext()))] += 1
            else:
                stack += list(node)
        expected = Counter(letters(text) for text in kept)
        assert found - Counter({"": found[""]}) == expected, written


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_text_without_elements_comes_back_as_entities(text):
    for written in (html.escape(text, quote=False), html.escape(text)):
        assert (
            HtmlFragment(written).fragment == text and not HtmlFragment(written).fragment.elements
        )
        assert translated(written, text) == html.escape(text, quote=False)


@pytest.mark.parametrize(
    ("text", "plain", "written"),
    [
        ("<b>x<i>y</b> z</i>", "xy z", "<b><i>xy</i></b> z"),  # A stray end is left out.
        ("<b>x <i>y", "x y", "<b>x <i>y</i></b>"),
        ("a < b & c <b <3 </ b>", "a < b & c <b <3 </ b>", None),
        ('<a href="x>y', '<a href="x>y', None),
        ("<b it's>x</b>", "x", "<b it's>x</b>"),
        ("<a href=x/>y</a>", "y", "<a href=x/>y</a>"),  # The slash belongs to the value.
        ("<mt-1/>y <!DOCTYPE html><?php x?>", "y ", "<mt-1/>y <!DOCTYPE html><?php x?>"),
        ("<!-- a", "<!-- a", None),
        ("<!-- a --> <!-- b", " <!-- b", "<!-- a --> &lt;!-- b"),
        ("<p>a<p>b", "a\nb", "<p>a</p>\n<p>b</p>"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "a\nb\nc", None),
        ("<b>dog</b><i>&eacute;,</i>", "dogé,", "<b>dogé</b><i>,</i>"),
        ("<p>a</p> and <p>b</p>, c", "a\nand \nb\n, c", "<p>a</p>\nand \n<p>b</p>\n, c"),
        ("<li>a</li> <li> <b>b</b></li>", "a\nb", "<li>a</li>\n<li><b>b</b></li>"),
        ("<p>a</p>\n <p>b</p>", "a\nb", "<p>a</p>\n<p>b</p>"),
        ("x<SCRIPT>if (a<b) {}</Script>y", "xy", None),
        ("<style>b{}", "", "<style>b{}</style>"),
        ("AT&T &copy; &amp;lt; &unknown;", "AT&T © &lt; &unknown;", None),
        ("a > b", "a > b", "a > b"),  # What has neither < nor & is no HTML to be encoded.
        ("dog<br>cat<br/> x", "dog cat  x", "dog<br>cat<br/>  x"),
        ("a <br> b", "a  b", "a <br> b"),
        ("dog<br/>, cat", "dog , cat", "dog<br/>, cat"),
        ("<code>a &copy; <b>b</b>&amp;c & d", "a © b&c & d", None),
    ],
)
def test_what_is_a_tag_and_what_is_text(text, plain, written):
    assert HtmlFragment(text).fragment == plain
    expected = {
        "<ul><li>a<ul><li>b</ul><li>c</ul>": "<ul><li>a\n<ul><li>b</li></ul></li>\n<li>c</li></ul>",
        "x<SCRIPT>if (a<b) {}</Script>y": "xy<SCRIPT>if (a<b) {}</Script>",
        "<code>a &copy; <b>b</b>&amp;c & d": "<code>a &copy; <b>b</b>&amp;c &amp; d</code>",
    }.get(text, html.escape(plain, quote=False))
    assert translated(text, plain) == (written or expected)


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        (
            "<ul><li>A man<li>A dog</ul>",
            "Ein Mann.\nEin Hund rennt.",
            "<ul><li>Ein Mann.</li>\n<li>Ein Hund rennt.</li></ul>",
        ),
        (
            "<p>A man</p> and <p>a <b>dog</b></p>",
            "Ein Mann!\nund\n: ein Hund.",
            "<p>Ein Mann!</p>\nund\n<p>: ein <b>Hund</b>.</p>",
        ),
        (
            "<table><tr><td>A <b>man</b></td><td>dog</td></tr><tr><td>cat</td></tr></table>",
            "Mann\nDas ist ein Hund\nkatze",
            "<table><tr><td><b>Mann</b></td>\n<td>Das ist ein Hund</td></tr>\n"
            "<tr><td>katze</td></tr></table>",
        ),
        (
            "<div>A <i>man</i><div>A <i>dog</i><hr></div>z</div>",
            "Mann Mann\nHund\nz",
            "<div>Mann <i>Mann</i>\n<div><i>Hund</i><hr></div>\nz</div>",
        ),
    ],
)
@pytest.mark.parametrize("attention", [None, "reverse"])
def test_what_stands_in_a_block_stays_in_it(text, translation, written, attention):
    """Even where the attention says that all belongs elsewhere."""
    alignment = ()
    if attention:
        sides = pieces(HtmlFragment(text).fragment), pieces(translation)
        alignment = *sides, np.eye(len(sides[1]), len(sides[0]))[::-1]
    assert translated(text, translation, *alignment) == written


SWAPPED = [[0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1]]  # a b c. becomes C B A.


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        ("<b>a</b> <i>b</i> c", "C B A", "C <i>B</i> <b>A</b>"),
        ("<b>a <i>b</i></b> c", "C B A", "C <b><i>B</i> A</b>"),
        ("<b>a</b> b <b>c</b>", "C B A", "<b>C</b> B <b>A</b>"),
        ("<b>a b c</b>", "C B A.", "<b>C B A.</b>"),
        ("<b> a </b>b c", "C B A", "C B <b>A</b>"),  # White space is outside.
        ("a <img>b c", "C B A", "C <img>B A"),
        ("a<img> b c", "C B A", "C B A<img>"),
        ("<!-- 1 -->a b c<!-- 2 -->", "C B A", "<!-- 1 -->C B A<!-- 2 -->"),
        ("a <a><img></a> <code>b</code> c", "C B A", "C <a><img></a> <code>b</code> A"),
        ("<b></b>a b c", "C B A", "<b></b>C B A"),
        ("<b>a</b><i> b</i> c", "C", "<b></b><i>C</i>"),
    ],
)
def test_elements_follow_their_words(text, translation, written):
    rows = [*("CBA".index(word.strip(".")) for word in translation.split()), 3]
    target = [["▁C", "▁B", "▁A", "</s>"][i] for i in rows]
    weights = np.array(SWAPPED, float)[rows]
    sides = ["▁a", "▁b", "▁c", "</s>"], target
    assert translated(text, translation, *sides, weights) == written


@pytest.mark.parametrize(
    ("text", "translation", "written"),
    [
        ("Say <q>hello</q>, you!", "Sag hallo, du!", "Sag <q>hallo</q>, du!"),
        ("<b>Stop!</b> A dog.", "Halt! Ein Hund.", "<b>Halt!</b> Ein Hund."),
        ("Stop<b>!</b>", "Halt!", "Halt<b>!</b>"),
        (
            "Meet <b>Zoë Kravitz</b> now",
            "Jetzt triff Zoë Kravitz",
            "Jetzt triff <b>Zoë Kravitz</b>",
        ),
        ("In <b>1999</b> it snowed", "Es schneite 1999", "Es schneite <b>1999</b>"),
        ("Type <kbd>git push</kbd> now.", "Gib nun git push ein.", None),
        ("A dog.<br>A cat.", "Ein Hund. Eine Katze.", "Ein Hund.<br>Eine Katze."),
        ("a <b>T-shirt</b>", "ein T-Shirt", "ein <b>T-Shirt</b>"),
        ("犬が<b>好</b>き", "犬が好き", "犬が<b>好</b>き"),
        (" <b>dog</b> ", " Hund ", " <b>Hund</b> "),
    ],
)
def test_without_an_alignment_places_and_letters_count(text, translation, written):
    expected = written or "Gib nun <kbd>git push</kbd> ein."
    assert translated(text, translation) == expected


def test_what_is_kept_replaces_no_more_words_than_it_has():
    weights = np.array([[0.2, 0.8, 0], [0.1, 0.9, 0], [0, 0, 1]])
    alignment = ["▁a", "▁ball", "</s>"], ["▁ein", "▁Spielball", "</s>"], weights
    written = translated("a <code>ball</code>", "ein Spielball", *alignment)
    assert written == "ein <code>ball</code>"
    written = translated("a <b>ball</b>", "ein Spielball", *alignment)
    assert written in ("ein <b>Spielball</b>", "<b>ein Spielball</b>")


def test_a_text_of_kept_parts_alone_passes_with_all_between_them():
    text = "<code>a</code>, <b><code>b</code></b>;<br>"
    assert Source(text, markup="html").passes and translated(text, "x") == text


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("<code>a</code>, <b><code>b</code></b>; <code>c</code>", None),
        ("<p><code>a</code>, <br>(<code>b</code>)</p>", None),
        (
            "<b> <img><code>a</code></b> / <i><code>b</code></i>",
            "<b><img><code>a</code></b> / <i><code>b</code></i>",
        ),
    ],
)
def test_a_line_of_kept_parts_among_others_keeps_what_is_between_them(line, written):
    text = f"<p>A dog</p>{line}<p>A cat</p>"
    lines = translated(text, "Ein Hund\n\nEine Katze").split("\n")
    assert lines == ["<p>Ein Hund</p>", written or line, "<p>Eine Katze</p>"]


def test_a_part_of_a_kept_span_that_leaves_its_element_is_written_once():
    text = "<i>{a} and {x<b>1</b>}</i> are here for you"
    written = translated(text, "123 are here for you and 124", keep=["placeholder"])
    assert re.sub("<.*?>", "", written) == "{a} are here for you and {x1}"


def test_words_and_marks():
    words = Words("It's “T-shirts”, 3.5% of my_x's!\u00a0日本 e\u0301te\u0301 -")
    found = [words[i] for i in range(len(words))]
    assert found == [
        "It's", "“", "T-shirts", "”", ",", "3.5", "%", "of", "my_x's", "!", "日", "本",
        "e\u0301te\u0301", "-",
    ]  # fmt: skip
    assert [words[i] for i in np.flatnonzero(~words.real)] == ["“", "”", ",", "%", "!", "-"]


@pytest.mark.parametrize("part", ["<b>", "<br>", "<!--", "<p", "</b>", "<", "&", "<b>a ", '<a b="'])
def test_long_fragments_take_no_time(part):
    start = time.process_time()
    written = translated(part * 1000, HtmlFragment(part * 1000).fragment[:200])
    assert time.process_time() - start < 5  # It takes less than one.
    assert Elements(written).found.total() == (1000 if part[1:2] == "b" else 0)
