"""DOCX: the paragraphs of Word documents, with their headers, footers and notes."""

import copy
import io
import re
import zipfile
import zlib
from collections import Counter

from keras_mt.documents import xml
from keras_mt.documents.document import Document
from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder

MAX_UNPACKED = 256 << 20
MAX_FILES = 10_000
_TYPES = "[Content_Types].xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# The types of the files that have text; the names of the files may be any.
_TEXT = re.compile(r"wordprocessingml\.(document\.main|header|footer|footnotes|endnotes)\+xml$")
# Elements of a paragraph whose runs are text of it.
_AROUND = frozenset(
    _W + name for name in ("bdo", "dir", "hyperlink", "ins", "moveTo", "sdt", "smartTag")
)
_GAPS = frozenset(_W + name for name in ("br", "cr", "ptab", "tab"))
# Fields whose result is text: that of others, such as page numbers, is made anew.
_TEXT_FIELDS = frozenset(["HYPERLINK", "TOC"])
# What two runs may differ in and look the same.
_UNSEEN = frozenset(_W + name for name in ("lang", "noProof"))


class DocxDocument(Document):
    """A Word document: a paragraph is one text, whatever runs it is split into."""

    def read(self, data: bytes) -> None:
        require("lxml", "documents", "A DOCX file")
        self._files = _unpacked(data)
        contents = {info.filename: content for info, content in self._files}
        if _TYPES not in contents:
            raise InputError(f"it is a ZIP file, but not a DOCX file: it has no {_TYPES}.")
        self._trees = {}
        for part in xml.parsed(contents[_TYPES], _TYPES).getroot():
            name = part.get("PartName", "").lstrip("/")
            if name in contents and _TEXT.search(part.get("ContentType", "")):
                self._trees[name] = xml.parsed(contents[name], name)
        spaces = {tree.getroot().tag.rpartition("}")[0] + "}" for tree in self._trees.values()}
        if spaces != {_W}:
            raise InputError("it has no text of Word: save it as DOCX, not as Strict Open XML.")
        self._paragraphs = []
        for name, tree in self._trees.items():
            fields = []
            for paragraph in tree.iter(_W + "p"):
                self._add_paragraph(name, paragraph, fields)

    def _add_paragraph(self, name, paragraph, fields):
        pieces = _joined(_pieces(paragraph, fields))
        sizes, formattings = Counter(), {}
        for kind, what, formatting in pieces:
            if kind == "text":
                sizes[_look(formatting)] += len(what)
                formattings.setdefault(_look(formatting), formatting)
        if not sizes:
            return
        base = max(sizes, key=sizes.get)
        builder = FragmentBuilder()
        for kind, what, more in pieces:
            if kind == "text" and _look(more) != base:
                builder.open(("formatting", more))
                builder.text(what)
                builder.close()
            elif kind == "text":
                builder.text(what)
            elif kind == "kept":
                builder.keep(what, is_space=more)
            elif kind == "open":
                builder.open(("around", what))
            else:
                builder.close()
        where = f"{name}, paragraph {builder.fragment.strip()[:60]!r}"
        number = self.add(builder, where)
        if number is not None:
            self._paragraphs.append((number, name, paragraph, formattings[base]))

    def written(self) -> bytes:
        changed = set()
        for number, name, paragraph, plain in self._paragraphs:
            if self.is_new(number):
                changed.add(name)
                for child in list(paragraph):
                    if child.tag != _W + "pPr":
                        paragraph.remove(child)
                _fill(paragraph, self.parts(number), plain)
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as archive:
            for info, content in self._files:
                is_changed = info.filename in changed
                new = xml.written(self._trees[info.filename], content) if is_changed else content
                archive.writestr(info, new)
        return output.getvalue()


def _unpacked(data):
    """The files of an archive with what is said about each."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            size = sum(info.file_size for info in infos)
            if len(infos) > MAX_FILES or size > MAX_UNPACKED:
                raise InputError(
                    f"it holds {len(infos):,} files of {size >> 20:,} MiB together; the most are "
                    f"{MAX_FILES:,} files and {MAX_UNPACKED >> 20} MiB."
                )
            return [(info, archive.read(info)) for info in infos]
    except InputError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"it is not a DOCX file, or it has a password: {error}") from error


def _pieces(element, fields):
    """The pieces of a paragraph, or of what is around a part of its text.

    ("text", str, the run's properties or None), ("kept", a pair of a run or None and an element, in
    a list, whether between words it is a space), ("open", element, None), ("close", element, None).
    """
    for child in element:
        if child.tag == _W + "r":
            yield from _pieces_of_run(child, fields)
        elif child.tag in _AROUND:
            yield "open", child, None
            yield from _pieces(_content(child), fields)
            yield "close", child, None
        elif child.tag != _W + "pPr":
            yield "kept", [(None, child)], False


def _pieces_of_run(run, fields):
    formatting = run.find(_W + "rPr")
    for child in run:
        _follow(fields, child)
        if child.tag == _W + "t" and all(is_text for _, is_text in fields):
            text, stays = child.text or "", child.get(_SPACE) == "preserve"
            yield "text", text if stays else text.strip(" \t\r\n"), formatting
        elif child is not formatting:
            yield "kept", [(run, child)], child.tag in _GAPS


def _joined(pieces):
    """The pieces, of which those side by side that look the same are one."""
    joined = []
    for kind, what, more in pieces:
        last, before, of_last = joined[-1] if joined else (None, None, None)
        if kind == last == "kept":
            joined[-1] = kind, before + what, of_last or more
        elif kind == last == "text" and _look(more) == _look(of_last):
            joined[-1] = kind, before + what, more
        elif kind != "text" or what:
            joined.append((kind, what, more))
    return joined


def _content(element):
    """The element whose children are the content of one around text."""
    content = element.find(_W + "sdtContent")
    return element if content is None else content


def _follow(fields, element):
    """Keeps what fields an element is in: for each its code, and whether its result is text."""
    if element.tag == _W + "instrText" and fields:
        fields[-1][0] += element.text or ""
    elif element.tag == _W + "fldChar":
        kind = element.get(_W + "fldCharType")
        if kind == "begin":
            fields.append(["", False])
        elif kind == "separate" and fields:
            words = fields[-1][0].upper().split()
            fields[-1][1] = bool(words) and words[0] in _TEXT_FIELDS
        elif kind == "end" and fields:
            fields.pop()


def _look(formatting):
    """Bytes that are the same for runs that look the same."""
    from lxml import etree

    seen = [e for e in (() if formatting is None else formatting) if e.tag not in _UNSEEN]
    return b"".join(etree.tostring(e, with_tail=False) for e in seen)


def _fill(paragraph, parts, plain):
    """Puts the parts of a translation into an empty paragraph."""
    within, formatting = [paragraph], [plain]
    for kind, what in parts:
        if kind == "text":
            content = paragraph.makeelement(_W + "t", {_SPACE: "preserve"})
            content.text = xml.valid(what)
            _add_run(within[-1], formatting[-1]).append(content)
        elif kind == "kept":
            for run, element in what:
                parent = within[-1] if run is None else _add_run(within[-1], run.find(_W + "rPr"))
                parent.append(element)
        elif what[0] == "formatting":
            formatting = [*formatting, what[1]] if kind == "start" else formatting[:-1]
        elif kind == "start":
            around = copy.deepcopy(what[1])
            content = _content(around)
            content[:] = []
            within[-1].append(around)
            within.append(content)
        else:
            within.pop()


def _add_run(parent, formatting):
    """Appends a run of some formatting, and returns it."""
    run = parent.makeelement(_W + "r")
    if formatting is not None:
        run.append(copy.deepcopy(formatting))
    parent.append(run)
    return run
