"""DOCX: the paragraphs of Word documents, with their headers, footers and notes."""

import copy
import io
import re
import zipfile
import zlib
from collections import Counter

from keras_mt.documents import xml
from keras_mt.documents.document import Document, DocumentError
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder

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
            raise DocumentError(f"it is a ZIP file, but not a DOCX file: it has no {_TYPES}.")
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
        self._paragraphs = []
        for name, tree in self._trees.items():
            fields = []
            for paragraph in tree.iter(_W + "p"):
                self._add_paragraph(name, paragraph, fields)

    def _add_paragraph(self, name, paragraph, fields):
        pieces = _pieces(paragraph, fields)
        texts = [(what, formatting) for kind, what, formatting in pieces if kind == "text"]
        if not texts:
            return
        sizes = Counter()
        for what, formatting in texts:
            sizes[_key(formatting)] += len(what)
        base = max(sizes, key=sizes.get)
        plain = next(formatting for _, formatting in texts if _key(formatting) == base)
        builder = FragmentBuilder()
        for kind, what, more in pieces:
            if kind == "text" and _key(more) != base:
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
            self._paragraphs.append((number, name, paragraph, plain))

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
        raise DocumentError(f"it is not a DOCX file, or it has a password: {error}") from error


def _pieces(paragraph, fields):
    """The pieces of a paragraph, tuples of three.

    ("text", str, the run's properties or None), ("kept", pairs of a run or None and an element,
    whether between words they are a space), ("open", element, None), ("close", element, None).
    """
    pieces = []

    def add(kind, what, more=None):
        last = pieces[-1] if pieces else (None, None, None)
        if kind == "text" == last[0] and _key(more) == _key(last[2]):
            pieces[-1] = (kind, last[1] + what, last[2])
        elif kind == "kept" == last[0]:
            pieces[-1] = (kind, last[1] + what, last[2] or more)
        else:
            pieces.append((kind, what, more))

    def walk(element):
        for child in element:
            if child.tag == _W + "r":
                walk_run(child)
            elif child.tag in _AROUND:
                add("open", child)
                walk(_content(child))
                add("close", child)
            elif child.tag != _W + "pPr":
                add("kept", [(None, child)], False)

    def walk_run(run):
        formatting = run.find(_W + "rPr")
        for child in run:
            if child is formatting:
                continue
            _follow(fields, child)
            text = child.text or ""
            if child.get(_SPACE) != "preserve":
                text = text.strip(" \t\r\n")
            if child.tag == _W + "t" and all(_is_text(field) for field in fields):
                if text:
                    add("text", text, formatting)
                continue
            add("kept", [(run, child)], child.tag in _GAPS)

    walk(paragraph)
    return pieces


def _content(element):
    """The element whose children are the content of one around text."""
    content = element.find(_W + "sdtContent")
    return element if content is None else content


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


def _key(formatting):
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
            _put(within[-1], what)
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


def _add_run(parent, formatting):
    """Appends a run of some formatting, and returns it."""
    run = parent.makeelement(_W + "r")
    if formatting is not None:
        run.append(copy.deepcopy(formatting))
    parent.append(run)
    return run
