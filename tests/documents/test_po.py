import importlib.util
import pathlib
import shutil
import subprocess

import polib
import pytest
from stand_in_translator import texts, through, upper

from keras_mt.errors import InputError
from keras_mt.text import Fragment

HEADER = b"""# A comment.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"
"Language: %s\\n"
"Plural-Forms: %s\\n"

"""
GERMAN = HEADER % (b"de", b"nplurals=2; plural=(n != 1);")
RUSSIAN = HEADER % (
    b"ru",
    b"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || "
    b"n%100>=20) ? 1 : 2);",
)
ENTRIES = b"""#. For translators.
#: app.py:3
#, python-format
msgctxt "menu"
msgid "Save %(name)s at 100%%"
msgstr ""

#, c-format
msgid "%d file of %s"
msgid_plural "%d files of %s"
msgstr[0] ""
msgstr[1] ""

msgid "Open\\n"
msgstr "Auf\\n"

#, fuzzy
msgid "Close"
msgstr "Zu"

#~ msgid "Old"
#~ msgstr "Alt"
"""


def entries(data):
    """The parts of each entry that stay."""
    return [
        (e.msgid, e.msgid_plural, e.msgctxt, e.comment, e.occurrences, e.flags, e.obsolete)
        for e in polib.pofile(data.decode())
    ]


def check(data, folder):
    """Lets gettext itself check a catalogue, where it is installed."""
    if shutil.which("msgfmt"):
        (folder / "checked.po").write_bytes(data)
        command = ["msgfmt", "--check-format", "-o", "/dev/null", str(folder / "checked.po")]
        subprocess.run(command, check=True, capture_output=True)


def test_open_entries_are_filled_and_the_rest_stays(tmp_path):
    data = GERMAN + ENTRIES
    written, refusals = through("po", data, upper)
    assert not refusals and entries(written) == entries(data)
    found = {e.msgid: e for e in polib.pofile(written.decode())}
    assert found["Save %(name)s at 100%%"].msgstr == "SAVE %(name)s AT 100%%"
    assert found["%d file of %s"].msgstr_plural == {0: "%d FILE OF %s", 1: "%d FILES OF %s"}
    assert (found["Open\n"].msgstr, found["Close"].msgstr) == ("Auf\n", "Zu")
    check(written, tmp_path)


def test_placeholders_side_by_side_stay_so():
    data = GERMAN + b'#, python-format\nmsgid "Read %(percent)s%% %(of)s"\nmsgstr ""\n'
    (text,) = texts("po", data)
    assert text == "Read <0:%(percent)s%%/> <1:%(of)s/>"


def test_nothing_new_leaves_the_file_to_the_byte():
    assert through("po", GERMAN + ENTRIES, lambda unit: None)[0] == GERMAN + ENTRIES


@pytest.mark.parametrize("break_", ["\f", "\v", "\x1c", "\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_python_takes_for_a_line_break_shifts_no_entry(break_, newline):
    parts = [
        f"#. One{4 * break_}",
        'msgid "Save"',
        'msgstr ""',
        "",
        'msgid "Open"',
        'msgstr "Auf"',
        "",
        f"# A{break_}",
        f'msgid "Close{break_}"',
        'msgstr ""',
    ]
    data = GERMAN.decode().replace("\n", newline) + newline.join(parts)
    written, refusals = through("po", data.encode(), upper)
    expected = data
    for msgid in ("Save", f"Close{break_}"):
        before = f'msgid "{msgid}"{newline}msgstr "'
        expected = expected.replace(before, before + polib.escape(msgid.upper()))
    assert written.decode() == expected and not refusals


def test_overwritten_where_that_is_asked_for():
    written, _ = through("po", GERMAN + ENTRIES, upper, retranslate=True)
    found = {e.msgid: e for e in polib.pofile(written.decode())}
    assert (found["Open\n"].msgstr, found["Close"].msgstr) == ("OPEN\n", "CLOSE")
    assert found["Close"].fuzzy  # Nobody has checked it.


@pytest.mark.parametrize(
    ("source", "read", "translation", "written"),
    [
        ("&File", "File", "Datei", "&Datei"),
        ("&File", "File", "Profil", "Pro&fil"),
        ("&Print %s", "Print %s", "%s drucken", "%s &drucken"),
        ("E&xit…", "Exit…", "Ende x…", "Ende &x…"),
        ("Save _As", "Save As", "Speichern als", "Speichern _als"),
        ("&File", "File", "文件", "文件(&F)"),
        ("R&D", "R&D", "F&E", "F&E"),
        ("a?b=1&c=2", "a?b=1&c=2", "a?b=1&c=2", "a?b=1&c=2"),
        ("a &amp; &lt;b", "a &amp; &lt;b", "A &amp; &lt;B", "A &amp; &lt;B"),
        ("file_name _x_", "file_name _x_", "Dateiname", "Dateiname"),
    ],
)
def test_access_keys_are_marked_in_the_translation(source, read, translation, written):
    data = GERMAN + f'#, c-format\nmsgid "{source}"\nmsgstr ""\n'.encode()

    def translate(unit):
        assert unit.text == read
        return translation

    found, refusals = through("po", data, translate)
    assert polib.pofile(found.decode())[0].msgstr == written and not refusals


def test_keys_are_kept_from_the_translator():
    data = GERMAN + b'msgid "Press Ctrl+Shift+O"\nmsgstr ""\n\nmsgid "Alt+F4"\nmsgstr ""\n'
    assert texts("po", data) == ["Press <0:Ctrl+Shift+O/>"]
    written, _ = through("po", data, upper)
    assert [e.msgstr for e in polib.pofile(written.decode())] == ["PRESS Ctrl+Shift+O", "Alt+F4"]


def test_as_many_plural_forms_as_the_header_has(tmp_path):
    entry = b'#, c-format\nmsgid "one file"\nmsgid_plural "%d files"\nmsgstr[0] ""\n'
    written, _ = through("po", RUSSIAN + entry, upper)
    # The first form is that of 21, too: without its number it would be wrong.
    forms = polib.pofile(written.decode())[0].msgstr_plural
    assert forms == {0: "%d FILES", 1: "%d FILES", 2: "%d FILES"}
    check(written, tmp_path)
    written, _ = through("po", GERMAN + entry, upper)
    assert polib.pofile(written.decode())[0].msgstr_plural == {0: "ONE FILE", 1: "%d FILES"}
    check(written, tmp_path)


@pytest.mark.parametrize(
    ("flag", "source", "broken"),
    [
        ("python-format", "%(n)s of %(m)s", "%(n)s von %(k)s"),
        ("python-format", "%s of %d", "%d von %s"),
        ("c-format", "%s is 5%%", "%s ist 5%"),
        ("python-format", "in %(dir)s.", "in %(DIR) %(dir)s."),
        ("c-format", "%1$s of %2$d", "%1$s von %1$s"),
        ("python-brace-format", "{a} of {b:.2f}", "{a} von"),
        ("python-brace-format", "one {a}", "eins {a"),
        ("qt-format", "%1 of %n", "%1 von"),
    ],
)
def test_an_entry_without_its_placeholders_stays_empty(flag, source, broken):
    data = GERMAN + f'#, {flag}\nmsgid "{source}"\nmsgstr ""\n'.encode()
    written, refusals = through("po", data, lambda unit: Fragment(broken))
    assert polib.pofile(written.decode())[0].msgstr == ""
    assert len(refusals) == 1 and repr(source) in refusals[0].where
    assert refusals[0].text == source and broken in refusals[0].reason
    written, refusals = through("po", data, upper)
    assert polib.pofile(written.decode())[0].msgstr and not refusals


def test_plural_forms_that_the_header_does_not_tell_are_reported():
    data = HEADER % (b"", b"nplurals=INTEGER; plural=EXPRESSION;") + ENTRIES
    written, refusals = through("po", data, upper, target_language="de")
    assert len(refusals) == 1 and "Plural-Forms" in refusals[0].reason
    assert polib.pofile(written.decode()).metadata["Language"] == "de"


def _real_catalogues():
    found = []
    for package in ("sphinx", "django"):
        spec = importlib.util.find_spec(package)
        if spec:
            folder = pathlib.Path(spec.origin).parent
            found += sorted(folder.glob("**/locale/[adr]*/LC_MESSAGES/*.po"))[:3]
    return found


@pytest.mark.parametrize("path", _real_catalogues())
def test_real_catalogues_are_translated_anew(tmp_path, path):
    data = path.read_bytes()
    assert through("po", data, lambda unit: None, retranslate=True)[0]
    written, refusals = through("po", data, upper, retranslate=True)
    kept = [e[:5] + e[6:] for e in entries(data)]
    assert [e[:5] + e[6:] for e in entries(written)] == kept and not refusals
    assert polib.pofile(written.decode()).percent_translated() == 100
    check(written, tmp_path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"hello\n", "not a PO file"),
        (b'msgid "a\nmsgstr ""\n', "of 1 entries 0 can be read"),
        (GERMAN + b'msgid "a"\n', "its last entry has no msgstr"),
        (GERMAN.replace(b"UTF-8", b"klingon") + ENTRIES, "klingon"),
        (GERMAN + b'msgid "\xff"\nmsgstr ""\n', "encoding UTF-8: "),
    ],
)
def test_what_is_no_catalogue_is_refused_by_name(data, message):
    with pytest.raises(InputError, match=message):
        texts("po", data)
