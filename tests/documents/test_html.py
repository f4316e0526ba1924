import glob
import pathlib
import random

import html5lib
import pytest
from stand_in_translator import same, texts, through, upper

from keras_mt.errors import InputError

PAGE = b"""<!DOCTYPE html>
<html lang="en"><!-- a comment -->
<head><meta charset="utf-8"><title>A page &amp; more</title>
<meta name="description" content="What it is"><meta name="viewport" content="width=device-width">
<style>p > a { color: red }</style><script>if (a < b) { say("<p>no</p>") }</script></head>
<body>
<p>A <b class=x>red</b> ball
   and <code>x = 1</code> more.<p title='It&#39;s a title'>Next <a href="a.html">one</a>
<ul><li>First<li>Second</ul>
<div translate="no">Not this <p>nor this</div>
<pre>or this</pre> <a href="#"><div>Within a link</div></a>
<img src="a.png" alt="A picture"><input type=submit value=Send placeholder="Name">
<p>42</p></body></html>
"""


def shape(data):
    """Elements with their attributes, and their texts, as html5lib reads them."""
    tree = html5lib.parse(data, namespaceHTMLElements=False)
    names, read = [], []
    for element in tree.iter():
        is_tag = isinstance(element.tag, str)
        attributes = sorted((k, " ".join(v.split())) for k, v in element.attrib.items())
        names.append((element.tag if is_tag else "comment", attributes))
        read += [" ".join((t or "").split()) for t in (element.text, element.tail)]
    return names, read


def test_texts_are_those_that_readers_see():
    assert texts("html", PAGE) == [
        "A page & more",
        "What it is",
        "A <0>red</0> ball and <1:x = 1/> more.",
        "It's a title",
        "Next <0>one</0>",
        "First",
        "Second",
        "Within a link",
        "A picture",
        "Send",
        "Name",
    ]


def test_everything_else_stays_to_the_letter():
    written, _ = through("html", PAGE, lambda unit: None)
    assert written == PAGE
    written, _ = through("html", PAGE, upper, target_language="de")
    for line in (
        '<html lang="de"><!-- a comment -->',
        "<title>A PAGE &amp; MORE</title>",
        "<p>A <b class=x>RED</b> BALL AND <code>x = 1</code> MORE.<p title='IT&#39;S A TITLE'>NEXT",
        "<ul><li>FIRST<li>SECOND</ul>",
        '<input type=submit value="SEND" placeholder="NAME">',
    ):
        assert line in written.decode()
    assert shape(PAGE)[0][0][1] == [("lang", "en")] and shape(written)[0][0][1] == [("lang", "de")]


def _real_pages():
    pages = glob.glob("/usr/share/doc/**/*.html", recursive=True)
    return random.Random(1).sample(sorted(pages), min(len(pages), 5))


@pytest.mark.parametrize("path", _real_pages())
def test_real_pages_keep_their_form(path):
    data = pathlib.Path(path).read_bytes()
    assert through("html", data, lambda unit: unit.text)[0] == data
    names, read = shape(data)
    assert shape(through("html", data, same)[0]) == (names, read)
    shouted = shape(through("html", data, upper)[0])
    assert [text.lower() for text in shouted[1]] == [text.lower() for text in read]
    assert [name for name, _ in shouted[0]] == [name for name, _ in names]


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b'<meta charset="windows-1251">', "windows-1251"),
        (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
    ],
)
def test_encodings_by_mark_or_declaration(head, encoding):
    data = head + "<p>мир</p>".encode(encoding)
    written, _ = through("html", data, upper)
    assert written == head + "<p>МИР</p>".encode(encoding)


def test_letters_that_an_encoding_does_not_have_are_references():
    for head in (b"", b'<meta charset="latin1">'):
        written, _ = through("html", head + b"<p>a</p>", lambda unit: "мир")
        assert written == head + b"<p>&#1084;&#1080;&#1088;</p>"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"<p>\xff</p>", "not in the encoding utf-8"),
        (b'<meta charset="utf-8"><p>\xff</p>', "not in the encoding utf-8"),
        (b'<meta charset="klingon"><p>a</p>', "unknown encoding: klingon"),
        (b"\xff\xfe<p>", "utf-16-le"),
        (b"<p>\0</p>", "NUL characters"),
        (b"a" * (65 << 20), "64 MiB"),
    ],
)
def test_what_is_no_page_is_refused_by_name(data, message):
    with pytest.raises(InputError, match=message):
        texts("html", data)


@pytest.mark.parametrize("piece", ["<a ", "<!--", '<a "', "<a b='", "</", "<b>", "<![CDATA[", "<"])
def test_damaged_pages_take_no_more_than_their_length(piece):
    data = (piece * 20_000).encode() + b"text"
    assert through("html", data, lambda unit: unit.text)[0] == data
