"""PO, the catalogues of gettext: entries without a translation get one."""

import functools
import gettext
import io
import itertools
import re
import tempfile

from keras_mt.documents.document import Refusal, TextDocument, byte_order_mark
from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder

# What stands for a value, by the flag of the entry; group 1 is there if it has a name or number.
_PLACEHOLDERS = {
    "c-format": re.compile(
        r"%(\d+\$)?[-+ #0'I]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:hh|h|ll|l|L|q|j|z|t)?"
        r"(?:[diouxXeEfFgGaAcCsSpnm%]|<[A-Za-z0-9]+>)"
    ),
    "python-format": re.compile(
        r"%(\([^()]*\))?[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?[hlL]?[diouxXeEfFgGcrsa%]"
    ),
    "python-brace-format": re.compile(
        r"(\{\{|\}\}|\{[^\W\d]?\w*(?:\.\w+|\[[^\[\]{}]*\])*(?:![rsa])?(?::(?:[^{}]|\{\w*\})*)?\})"
    ),
}
_PLACEHOLDERS["javascript-format"] = _PLACEHOLDERS["objc-format"] = _PLACEHOLDERS["c-format"]
# Of every other flag, such as qt-format.
_ANY = re.compile(
    r"(%[({<]\w+[)}>]\w?|%\d+(?:\$\w)?|\$\{\w+\}|\$\w+|\{[\w:.,-]*\})"
    r"|%[-+ #0]*\d*(?:\.\d+)?l{0,2}\w|%%"
)
_MSGID = re.compile(r"^[ \t]*(?:#~[ \t]*)?msgid[ \t]", re.MULTILINE)
_MSGSTR = re.compile(r'^[ \t]*msgstr[^\r\n]*(?:\r?\n[ \t]*(?:msgstr|")[^\r\n]*)*', re.MULTILINE)
_LANGUAGE = re.compile(r'^"Language: *\\n"', re.MULTILINE)
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_KEYS = re.compile(
    r"\b(?:Ctrl|Control|Alt|AltGr|Shift|Meta|Cmd|Command|Option|Super|Win)\+(?:\w+\+)*\w+"
)
# The mark of a menu's access key, in the place of group 1: `&File`, `E&xit`, `_File`.
_ACCESS_KEY = re.compile(r"(?<!\S)[^\W\d_]*(&|(?<!\w)_)(?=[^\W_])(?!\w+;)")


class PoDocument(TextDocument):
    """A catalogue; placeholders, by the flags of an entry, and keys such as `Ctrl+O` are kept."""

    def encoding_of(self, data: bytes) -> tuple[str, bytes]:
        found = re.search(rb'^"Content-Type:[^"]*?charset=([^\\"\s]+)', data, re.MULTILINE)
        name = found[1].decode("ascii", "replace") if found else "CHARSET"  # A template's.
        return byte_order_mark(data) or ("utf-8" if name == "CHARSET" else name, b"")

    def parse(self, source: str) -> None:
        polib = require("polib", "documents", "A PO file")
        ids = len(_MSGID.findall(source))
        if not ids:
            raise InputError("it has no msgid, so it is not a PO file.")
        try:
            # A file, since of a text polib takes more than newlines for the ends of lines.
            with tempfile.NamedTemporaryFile("w", encoding="utf-8", newline="") as copy:
                copy.write(source)
                copy.flush()
                file = polib.pofile(copy.name, encoding="utf-8", wrapwidth=78)
        except (OSError, UnicodeError, ValueError, IndexError) as error:
            raise InputError(f"it is not a PO file: {str(error).replace(source, '')}") from error
        count = ids - bool(file.metadata)
        if len(file) != count:
            raise InputError(f"of {count} entries {len(file)} can be read: see msgfmt -c.")
        code, language = self.target_language, _LANGUAGE.search(source)
        if code and language:
            self.replace(*language.span(), lambda: f'"Language: {code}\\n"')
        self._plural = _plural_forms(file.metadata.get("Plural-Forms", ""))
        sizes = map(len, io.StringIO(source, newline=""))  # Of the lines as polib counts them.
        starts = list(itertools.accumulate(sizes, initial=0))
        for entry in file:
            filled = entry.msgstr or any((entry.msgstr_plural or {}).values())
            if not entry.obsolete and (self.retranslate or not filled):
                # Of a first entry polib has 0.
                place = _MSGSTR.search(source, starts[max(0, entry.linenum - 1)])
                if place is None:
                    raise InputError("its last entry has no msgstr: see msgfmt -c.")
                write = functools.partial(self._msgstr, entry, self._sources(entry))
                self.replace(*place.span(), write)

    def _sources(self, entry):
        """The number of the unit of each form of an entry."""
        place = f"line {entry.linenum}, msgid {entry.msgid[:60]!r}"
        if not entry.msgid_plural:
            return {None: self._add(entry, entry.msgid, place)}
        if self._plural is None:
            self.refusals.append(Refusal(place, "the header has no valid Plural-Forms: give it"))
            return {}
        count, form_of_one, is_alone = self._plural
        one, several = (_placeholders(entry, t) for t in (entry.msgid, entry.msgid_plural))
        texts = dict.fromkeys(range(count), entry.msgid_plural)
        if one == several or is_alone:
            texts[form_of_one] = entry.msgid
        added = {text: self._add(entry, text, place) for text in dict.fromkeys(texts.values())}
        return {form: added[text] for form, text in texts.items()}

    def _add(self, entry, text, place):
        """The number of a text's unit, None if it stands for itself; the text; its access key."""
        patterns = [_PLACEHOLDERS.get(flag, _ANY).pattern for flag in _formats(entry)]
        values = "|".join([*patterns, _KEYS.pattern])  # Those side by side are one.
        kept = re.compile(f"(?:{values})+|{_TAG.pattern}")
        builder, last, key = FragmentBuilder(), 0, _access_key(text)
        plain = text if key is None else text[: key.start(1)] + text[key.end(1) :]
        for match in kept.finditer(plain):
            builder.text(plain[last : match.start()])
            builder.keep(match[0], "" if match[0].startswith("<") else match[0])
            last = match.end()
        builder.text(plain[last:])
        return self.add(builder, place), text, key and (key[1], text[key.end()])

    def _msgstr(self, entry, forms):
        """The lines of an entry's translation; None if it gets none."""
        translations = {form: self._translation(entry, *of) for form, of in forms.items()}
        if not translations or None in translations.values():
            return None
        if None in translations:
            entry.msgstr = translations[None]
        else:
            entry.msgstr_plural = translations
        written = str(entry)
        lines = written[re.search("^msgstr", written, re.MULTILINE).start() :].rstrip("\n")
        return lines.replace("\n", "\r\n") if "\r\n" in self.source else lines

    def _translation(self, entry, number, source, key):
        """The translation of a form of an entry; None if it has none, or one that is refused."""
        if number is None:
            return source
        parts = self.parts(number)
        if parts is None:
            return None
        new = "".join(what for _, what in parts) if key is None else _with_access_key(parts, *key)
        if _placeholders(entry, new) != _placeholders(entry, source):
            reason = f"it stays empty, as its translation has other placeholders: {new!r}"
            self.refusals.append(Refusal(self.units[number].where, reason, source))
            return None
        return new if new.strip() else None


def _placeholders(entry, text):
    """By flag a text's placeholders, their order if values have it, and marks of none."""
    found = []
    for flag in _formats(entry):
        pattern = _PLACEHOLDERS.get(flag, _ANY)
        matches = [*pattern.finditer(text)]
        ordered = [m[0] for m in matches if m[0] == "{}" or not (m[1] or m[0] == "%%")]
        rest = sorted(re.findall("[%{}]", pattern.sub("", text)))
        found.append((sorted(m[0] for m in matches), ordered, rest))
    return found


def _access_key(text):
    """The match of a text's one mark of an access key; `R&D` has none."""
    found = list(_ACCESS_KEY.finditer(text))
    if len(found) != 1 or text.count(found[0][1]) > 1:
        return None
    is_within = found[0].start() < found[0].start(1)
    return None if is_within and text[found[0].end()].isupper() else found[0]


def _with_access_key(parts, mark, letter):
    """The text of parts with the mark before a letter of what was translated.

    Where nothing has cases, as in Chinese, the letter stands behind the text, by custom.
    """
    written = "".join(what for _, what in parts)
    for pattern in (rf"(?<!\w){letter}", letter, r"(?=[^\W\d_])\w"):
        place = 0
        for kind, what in parts:
            match = re.search(pattern, what, re.IGNORECASE) if kind == "text" else None
            if match and match[0].lower() != match[0].upper():
                place += match.start()
                return written[:place] + mark + written[place:]
            place += len(what)
    return f"{written}({mark}{letter.upper()})"


def _formats(entry):
    """The entry's flags of placeholders."""
    return [f for f in entry.flags if f.endswith("-format") and not f.startswith("no-")]


def _plural_forms(header):
    """The number of plural forms, that of 1, and whether it is that of no other number."""
    match = re.fullmatch(r"\s*nplurals\s*=\s*([1-9])\s*;\s*plural\s*=\s*([^;]+?)\s*;?\s*", header)
    if not match:
        return None
    try:
        rule = gettext.c2py(match[2])
        forms = [rule(n) for n in range(1000)]
    except (ValueError, ZeroDivisionError, RecursionError):
        return None
    count = int(match[1])
    return (count, forms[1], forms.count(forms[1]) == 1) if max(forms) < count else None
