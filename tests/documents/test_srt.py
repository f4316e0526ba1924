import pytest
import srt
from stand_in_translator import texts, through, upper

from keras_mt.errors import InputError
from keras_mt.text import Element, Fragment

SRT = """7
00:00:01,000 --> 00:00:02,500  X1:40 X2:600
The <i>quick</i>
<i>brown</i> fox

8
00:00:02.600 --> 00:00:04,000
jumps over
the dog.

9
00:00:05,000 --> 00:00:06,000
- Who is it?
- It is 5 & 6.

10
00:00:07,000 --> 00:00:08,000
{\\an8}1984

11
00:00:20,000 --> 00:00:21,000
A long silence,
12
00:00:29,000 --> 00:00:30,000
then speech
"""
VTT = """WEBVTT - a title

NOTE Not a text

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Ann Smith>Salt &amp; pepper
for the <c.red>soup</c></v>

00:03.000 --> 00:04.000
One <00:03.500>two
"""


def test_sentences_over_cues_are_one_text():
    assert texts("srt", SRT.encode()) == [
        "The <0>quick brown</0> fox jumps over the dog.",
        "Who is it?",
        "It is 5 & 6.",
        "A long silence,",
        "then speech",
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_numbers_and_times_stay_to_the_letter(newline, encoding):
    data = SRT.replace("\n", newline).encode(encoding)
    assert through("srt", data, lambda unit: unit.text)[0] == data
    written = through("srt", data, upper)[0].decode(encoding)
    expected = SRT.upper().replace("</I>\n<I>", "\n").replace("<I>", "<i>").replace("</I>", "</i>")
    assert written == expected.replace("{\\AN8}", "{\\an8}").replace("\n", newline)


def test_a_longer_translation_is_broken_by_length():
    long = " ".join(["wort"] * 20 + ["ende"] * 10)
    long = Fragment(long, [Element(0, 99)])
    written, _ = through("srt", SRT.encode(), lambda u: long if "quick" in u.text else u.text)
    first, second = [cue.content for cue in srt.parse(written.decode())][:2]
    assert all(len(line) <= 42 + len("<i></i>") for line in (first + "\n" + second).split("\n"))
    assert first.count("<i>") == first.count("</i>") == 1 and second.count("<i>") <= 1
    joined = (first + " " + second).replace("<i>", "").replace("</i>", "").split()
    assert joined == ["wort"] * 20 + ["ende"] * 10
    short, _ = through("srt", SRT.encode(), lambda u: Fragment("ja"))
    assert [cue.content for cue in srt.parse(short.decode())][:2] == ["ja", "…"]


def test_who_speaks_stays_as_it_is():
    cues = [
        "- I am not sure\nthat you are.\n- MARY: <i>Is it?</i>",
        "{\\an8}MARY: It is\na dog.",
        "<i>\u2013 Yes, he said: no.</i>",
        "Who is it?\n-It's me.",
        "ANN: Hello.\nBOB: Hello.",
        "It is 5 o'clock:\nGo. UN: no",
    ]
    data = "".join(
        f"{i}\n00:00:{i:02},000 --> 00:00:{i:02},900\n{cue}\n\n" for i, cue in enumerate(cues, 1)
    ).encode()
    assert texts("srt", data) == [
        "I am not sure that you are.",
        "Is it?",
        "It is a dog.",
        "Yes, he said: no.",
        "Who is it?",
        "It's me.",
        "Hello.",
        "Hello.",
        "It is 5 o'clock: Go. UN: no",
    ]
    assert through("srt", data, lambda unit: unit.text)[0] == data
    written = through("srt", data, upper)[0].decode()
    assert written == data.decode().upper().replace("{\\AN8}", "{\\an8}").replace(
        "<I>", "<i>"
    ).replace("</I>", "</i>")


def test_vtt_keeps_its_blocks_voices_and_times():
    assert texts("vtt", VTT.encode()) == [
        "Salt & pepper for the <0>soup</0>",
        "One <0/>two",
    ]
    written = through("vtt", VTT.encode(), upper)[0].decode()
    expected = VTT
    for text in ("Salt", "pepper", "for the", "soup", "One", "two"):
        expected = expected.replace(text, text.upper())
    assert written == expected


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("srt", b"hello\n", "no times"),
        ("srt", "1\n00:00:01,000 --> 00:00:02,000\né".encode("latin-1"), "encoding utf-8"),
        ("vtt", SRT.encode(), "WEBVTT"),
    ],
)
def test_what_are_no_subtitles_is_refused_by_name(name, data, message):
    with pytest.raises(InputError, match=message):
        texts(name, data)
