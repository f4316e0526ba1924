"""DOCX: the paragraphs of Word documents, with their headers, footers and notes."""

import copy
import html
import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence

from keras_mt.documents import xml
from keras_mt.documents.base import Document, DocumentError, Inline, functions_of, has_words
from keras_mt.extras import require

MAX_UNPACKED = 256 << 20
MAX_FILES = 10_000
_TYPES = "[Content_Types].xml"
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
# The types of the files that have text; the names of the files may be any.
_TEXT = re.compile(
    r"wordprocessingml\.((document|template)\.main|header|footer|footnotes|endnotes)\+xml$"
    r"|word\.(document|template)\.macroEnabled\.main\+xml$",
    re.IGNORECASE,
)
# Of names in an archive: a folder above, or from the root, for any system.
_LEADS_OUT = re.compile(r"^[/\\]|^\w:|(?:^|[/\\])\.\.(?:[/\\]|$)")
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
    """A Word document: a paragraph is one text, whatever runs it is split into.

    Text that looks different from most of its paragraph, links and insertions are elements.
    Pictures, fields, notes' marks, bookmarks and deletions keep their place.
    """

    def read(self, data: bytes) -> None:
        require("lxml", "documents", "A DOCX file")
        self._files = _unpacked(data)
        contents = {info.filename: content for info, content in self._files}
        if _TYPES not in contents:
            raise DocumentError(f"it is a ZIP file, and no DOCX: it has no {_TYPES}.")
        self._trees = {}
        for part in xml.parsed(contents[_TYPES], _TYPES).getroot():
            name = part.get("PartName", "").lstrip("/")
            if name in contents and _TEXT.search(part.get("ContentType", "")):
                self._trees[name] = xml.parsed(contents[name], name)
        spaces = {tree.getroot().tag.rpartition("}")[0] + "}" for tree in self._trees.values()}
        if spaces != {_W}:
            raise DocumentError(
                "it has no text of Word: save it as DOCX (and not as Strict Open XML) first."
            )
        self._paragraphs, self._changed = [], set()
        for name, tree in self._trees.items():
            fields = []
            for paragraph in tree.iter(_W + "p"):
                self._add_paragraph(name, paragraph, fields)

    def _add_paragraph(self, name, paragraph, fields):
        pieces = _pieces(paragraph, fields)
        if not has_words("".join(what for kind, what, _ in pieces if kind == "text")):
            return
        sizes = Counter()
        for kind, what, looks in pieces:
            if kind == "text":
                sizes[_key(looks)] += len(what)
        base = max(sizes, key=sizes.get)
        plain = next(p[2] for p in pieces if p[0] == "text" and _key(p[2]) == base)
        first = next(i for i, piece in enumerate(pieces) if piece[0] != "single")
        last = next(i for i in range(len(pieces), 0, -1) if pieces[i - 1][0] != "single")
        inline = Inline()
        for kind, what, more in pieces[first:last]:
            if kind == "text" and _key(more) != base:
                inline.open(("looks", more))
                inline.text(what)
                inline.close(("looks", more))
            elif kind == "text":
                inline.text(what)
            elif kind == "single":
                inline.single(("single", what), space=more)
            else:
                getattr(inline, kind)(("around", what))
        where = f"{name}, paragraph {inline.content[0].strip()[:60]!r}"
        number, bounds = self.add_inline(inline, where)
        around = [what for _, what, _ in pieces[:first]], [what for _, what, _ in pieces[last:]]
        self._paragraphs.append((number, name, paragraph, inline, plain, bounds, around))

    def write(self, translations: Sequence[str | None]) -> bytes:
        for number, name, paragraph, inline, plain, bounds, around in self._paragraphs:
            new = translations[number]
            if new is None or new == self.units[number].text:
                continue
            self._changed.add(name)
            parts = list(inline.parts(bounds[0] + new.strip() + bounds[1]))
            for child in list(paragraph):
                if child.tag != _W + "pPr":
                    paragraph.remove(child)
            for elements in around[0]:
                _put(paragraph, elements)
            _fill(paragraph, parts, plain)
            for elements in around[1]:
                _put(paragraph, elements)
        output = io.BytesIO()
        with zipfile.ZipFile(output, "w") as archive:
            for info, content in self._files:
                changed = info.filename in self._changed
                new = xml.written(self._trees[info.filename], content) if changed else content
                archive.writestr(info, new)
        return output.getvalue()


units, write = functions_of(DocxDocument)


def _unpacked(data):
    """The files of an archive with what is said about each."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            infos = archive.infolist()
            size = sum(info.file_size for info in infos)
            if len(infos) > MAX_FILES or size > MAX_UNPACKED:
                raise DocumentError(
                    f"it may hold {MAX_FILES} files of {MAX_UNPACKED >> 20} MiB together, and "
                    f"holds {len(infos)} of {size >> 20} MiB."
                )
            if len({info.filename for info in infos}) < len(infos):
                raise DocumentError("it holds two files of one name.")
            for info in infos:
                if _LEADS_OUT.search(info.filename):
                    raise DocumentError(
                        f"its file {info.filename!r} leads out of the folder that it is unpacked "
                        "into: save the document anew."
                    )
            if any(info.flag_bits & 1 for info in infos):
                raise DocumentError("it has a password: save it without.")
            return [(info, archive.read(info)) for info in infos]
    except DocumentError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError) as error:
        raise DocumentError(f"it is no DOCX, or it has a password: {error}") from error


def _pieces(paragraph, fields):
    """The pieces of a paragraph, tuples of three.

    ("text", str, the run's properties or None), ("single", pairs of a run or None and an element,
    whether between words they are a space), ("open", element, None), ("close", element, None).
    """
    pieces = []

    def add(kind, what, more=None):
        last = pieces[-1] if pieces else (None, None, None)
        if kind == "text" == last[0] and _key(more) == _key(last[2]):
            pieces[-1] = (kind, last[1] + what, last[2])
        elif kind == "single" == last[0]:
            pieces[-1] = (kind, last[1] + what, last[2] or more)
        else:
            pieces.append((kind, what, more))

    def walk(element):
        for child in element:
            if child.tag == _W + "r":
                walk_run(child)
            elif child.tag in _AROUND:
                add("open", child)
                content = child.find(_W + "sdtContent") if child.tag == _W + "sdt" else child
                walk(content if content is not None else ())
                add("close", child)
            elif child.tag != _W + "pPr":
                add("single", [(None, child)], False)

    def walk_run(run):
        looks = run.find(_W + "rPr")
        for child in list(run):
            if child is looks:
                continue
            _follow(fields, child)
            text = child.text or ""
            if child.get(_SPACE) != "preserve":
                text = text.strip(" \t\r\n")
            if child.tag == _W + "t" and all(_is_text(field) for field in fields):
                if text:
                    add("text", text, looks)
                continue
            add("single", [(run, child)], child.tag in _GAPS)

    walk(paragraph)
    return pieces


def _follow(fields, element):
    """Keeps what fields an element is in: for each its code, and whether that has ended."""
    if element.tag == _W + "instrText" and fields:
        fields[-1][0] += element.text or ""
    elif element.tag == _W + "fldChar":
        kind = element.get(_W + "fldCharType")
        if kind == "begin":
            fields.append(["", False])
        elif kind == "separate" and fields:
            fields[-1][1] = True
        elif kind == "end" and fields:
            fields.pop()


def _is_text(field):
    code, ended = field
    return ended and (code.split() or [""])[0].upper() in _TEXT_FIELDS


def _key(looks):
    """Bytes that are the same for runs that look the same."""
    from lxml import etree

    if looks is None:
        return b""
    return b"".join(etree.tostring(e, with_tail=False) for e in looks if e.tag not in _UNSEEN)


def _fill(paragraph, parts, plain):
    """Puts the parts of a translation into an empty paragraph."""
    within, looks = [paragraph], [plain]
    for kind, what in parts:
        if kind == "text":
            content = paragraph.makeelement(_W + "t", {_SPACE: "preserve"})
            content.text = xml.valid(html.unescape(what))
            _add_run(within[-1], looks[-1]).append(content)
        elif kind == "single":
            _put(within[-1], what[1])
        elif what[0] == "looks":
            looks = [*looks, what[1]] if kind == "start" else looks[:-1]
        elif kind == "start":
            around = copy.deepcopy(what[1])
            content = around.find(_W + "sdtContent") if around.tag == _W + "sdt" else around
            content[:] = []
            within[-1].append(around)
            within.append(content)
        else:
            within.pop()


def _put(parent, elements):
    """Appends elements that stay: a run's children in runs again."""
    last, new = None, None
    for run, element in elements:
        if run is None:
            parent.append(element)
        else:
            if run is not last:
                new = _add_run(parent, run.find(_W + "rPr"))
            new.append(element)
        last = run


def _add_run(parent, looks):
    """Appends a run that looks so, and returns it."""
    run = parent.makeelement(_W + "r")
    if looks is not None:
        run.append(copy.deepcopy(looks))
    parent.append(run)
    return run
