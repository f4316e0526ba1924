"""XLIFF 1.2: sources into targets that are empty."""

import copy

from keras_mt.documents import xml
from keras_mt.documents.document import Document, DocumentError
from keras_mt.extras import require
from keras_mt.text.fragment import FragmentBuilder

_PAIRS = frozenset(["g", "mrk"])
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"


class XliffDocument(Document):
    """XLIFF 1.2: empty targets are written, with the source's inline elements and segments."""

    def read(self, data: bytes) -> None:
        require("lxml", "documents", "An XLIFF file")
        self._data = data
        self._tree = xml.parsed(data, "the file")
        root = self._tree.getroot()
        version = root.get("version", "")
        if _name(root) != "xliff" or not version.startswith("1."):
            raise DocumentError(
                f"it is not XLIFF 1.2: its root is <{_name(root)} version={version!r}>."
            )
        self._space = root.tag[: -len("xliff")]
        self._wanted = []
        for unit in root.iter(self._space + "trans-unit"):
            if not _stays(unit):
                self._add_unit(unit)

    def _add_unit(self, unit):
        source, target = unit.find(self._space + "source"), unit.find(self._space + "target")
        filled = target is not None and ("".join(target.itertext()).strip() or len(target))
        if source is None or (filled and not self.options.overwrite):
            return
        segments = unit.find(self._space + "seg-source")
        content = source if segments is None else segments
        builder = FragmentBuilder()
        _fill(builder, content)
        number = self.add(builder, f"unit {unit.get('id')!r}")
        if number is not None:
            self._wanted.append((number, source, content, target))

    def written(self) -> bytes:
        changed = False
        for number, source, content, filled in self._wanted:
            parts = self.parts(number)
            if parts is not None:
                changed = True
                target = self._added(source, content) if filled is None else filled
                _write(target, parts)
        if not changed:
            return self._data
        code = self.options.target_language
        for file in self._tree.getroot().iter(self._space + "file"):
            if code and not file.get("target-language"):
                file.set("target-language", code)
        return xml.written(self._tree, self._data)

    def _added(self, source, content):
        """A new target behind the source, or behind its segments."""
        target = source.makeelement(self._space + "target")
        if _SPACE in source.attrib:
            target.set(_SPACE, source.get(_SPACE))
        target.tail = content.tail
        content.addnext(target)
        return target


def _stays(unit):
    around = [unit, *unit.iterancestors()]
    given = next((e.get("translate") for e in around if e.get("translate")), "yes")
    return given == "no" or unit.get("approved") == "yes"


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
        elif name in _PAIRS:
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
        if kind == "text":
            _append_text(within[-1], xml.valid(what))
        elif kind == "end":
            within.pop()
        else:
            new = copy.deepcopy(what)
            new.tail = None
            within[-1].append(new)
            if kind == "start":
                new[:], new.text = [], None
                within.append(new)


def _append_text(element, text):
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
