"""XLIFF 1.2: sources into targets that are empty."""

import copy

from keras_mt.documents import xml
from keras_mt.documents.document import Document
from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder


class XliffDocument(Document):
    """XLIFF 1.2: empty targets are written, with the source's inline elements and segments."""

    def read(self, data: bytes) -> None:
        require("lxml", "documents", "An XLIFF file")
        self._data = data
        self._tree = xml.parsed(data, "the file")
        root = self._tree.getroot()
        version = root.get("version", "")
        if _name(root) != "xliff" or not version.startswith("1."):
            raise InputError(f"it is not XLIFF 1.2, but <{_name(root)} version={version!r}>.")
        self._space = root.tag[: -len("xliff")]
        self._wanted = []
        for unit in root.iter(self._space + "trans-unit"):
            if not _stays(unit):
                self._add_unit(unit)

    def _add_unit(self, unit):
        source, target = unit.find(self._space + "source"), unit.find(self._space + "target")
        filled = target is not None and ("".join(target.itertext()).strip() or len(target))
        if source is None or (filled and not self.retranslate):
            return
        segments = unit.find(self._space + "seg-source")
        content = source if segments is None else segments
        builder = FragmentBuilder()
        _fill(builder, content)
        number = self.add(builder, f"unit {unit.get('id')!r}")
        if number is not None:
            self._wanted.append((number, content, target))

    def written(self) -> bytes:
        wanted = [(self.parts(number), *elements) for number, *elements in self._wanted]
        wanted = [each for each in wanted if each[0] is not None]
        if not wanted:
            return self._data
        for parts, content, filled in wanted:
            target = filled
            if target is None:  # A new one goes behind the source, or behind its segments.
                target = content.makeelement(self._space + "target")
                target.tail = content.tail
                content.addnext(target)
            _write(target, parts)
        for file in self._tree.getroot().iter(self._space + "file"):
            if self.target_language and not file.get("target-language"):
                file.set("target-language", self.target_language)
        return xml.written(self._tree, self._data)


def _stays(unit):
    given = unit.xpath("ancestor-or-self::*/@translate")  # The last is the nearest one's.
    return given[-1:] == ["no"] or unit.get("approved") == "yes"


def _name(element):
    """A name without its namespace; "" of a comment or an instruction."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _fill(builder, element):
    """Adds an element's content."""
    builder.text(element.text or "")
    for child in element:
        name = _name(child)
        if name == "mrk" and child.get("mtype") == "protected":
            builder.keep(child, "".join(child.itertext()))
        elif name in ("g", "mrk"):
            builder.open(child)
            _fill(builder, child)
            builder.close()
        else:  # x, bx, ex, and the document's own codes in ph, bpt, ept, it.
            builder.keep(child)
        builder.text(child.tail or "")


def _write(target, parts):
    """Fills a target with the parts of a translation."""
    target[:], target.text = [], ""
    within = [target]
    for kind, what in parts:
        element = within[-1]
        if kind == "text" and len(element):
            element[-1].tail = (element[-1].tail or "") + xml.valid(what)
        elif kind == "text":
            element.text = (element.text or "") + xml.valid(what)
        elif kind == "end":
            within.pop()
        else:
            new = copy.deepcopy(what)
            new.tail = None
            element.append(new)
            if kind == "start":
                new[:], new.text = [], None
                within.append(new)
