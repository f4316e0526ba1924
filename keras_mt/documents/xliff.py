"""XLIFF 1.2: sources into targets that are empty."""

import copy
import html
from collections.abc import Sequence

from keras_mt.documents import xml
from keras_mt.documents.base import Document, DocumentError, Inline, functions_of, has_words
from keras_mt.extras import require

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
            if not self._stays(unit):
                self._add_unit(unit)

    def _stays(self, unit):
        around = [unit, *unit.iterancestors()]
        given = next((e.get("translate") for e in around if e.get("translate")), "yes")
        return given == "no" or unit.get("approved") == "yes"

    def _add_unit(self, unit):
        source, target = unit.find(self._space + "source"), unit.find(self._space + "target")
        filled = target is not None and ("".join(target.itertext()).strip() or len(target))
        if source is None or (filled and not self.options.overwrite):
            return
        segments = unit.find(self._space + "seg-source")
        content = source if segments is None else segments
        inline = Inline()
        if not has_words(self._fill(inline, content)):
            return
        number, bounds = self.add_inline(inline, f"unit {unit.get('id')!r}")
        self._wanted.append((number, source, content, target, inline, bounds))

    def _fill(self, inline, element):
        """Adds an element's content; its text that is to be translated is returned."""
        text = element.text or ""
        inline.text(text)
        for child in element:
            name = _name(child)
            if name == "mrk" and child.get("mtype") == "protected":
                inline.kept(child, "".join(child.itertext()))
            elif name in _PAIRS:
                inline.open(child)
                text += self._fill(inline, child)
                inline.close(child)
            else:  # x, bx, ex, and the document's own codes in ph, bpt, ept, it.
                inline.single(child)
            inline.text(child.tail or "")
            text += child.tail or ""
        return text

    def write(self, translations: Sequence[str | None]) -> bytes:
        changed = False
        for number, source, content, filled, inline, bounds in self._wanted:
            new = translations[number]
            if new is None:
                continue
            changed = True
            target = self._added(source, content) if filled is None else filled
            target[:], target.text = [], ""
            self._write(target, inline.parts(bounds[0] + new.strip() + bounds[1]))
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

    def _write(self, target, parts):
        within = [target]
        for kind, what in parts:
            if kind == "text":
                _append_text(within[-1], xml.valid(html.unescape(what)))
            elif kind == "end":
                within.pop()
            else:
                new = copy.deepcopy(what)
                new.tail = None
                within[-1].append(new)
                if kind == "start":
                    new[:], new.text = [], None
                    within.append(new)


units, write = functions_of(XliffDocument)


def _name(element):
    """A name without its namespace; "" of a comment or an instruction."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _append_text(element, text):
    if len(element):
        element[-1].tail = (element[-1].tail or "") + text
    else:
        element.text = (element.text or "") + text
