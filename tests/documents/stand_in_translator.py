"""A translator that changes letters alone, and documents through it."""

import re

from keras_mt.documents import DocumentOptions
from keras_mt.documents.formats import load_format


def upper(unit):
    """The unit's text in upper case; markup and entities as they are."""
    if not unit.markup:
        return unit.text.upper()
    return re.sub(r"<[^<>]*>|&#?\w+;|([^<&]+)", lambda m: m[1].upper() if m[1] else m[0], unit.text)


def same(unit):
    """The unit's text as it is, written anew: what is equal to the source is not."""
    return unit.text + " "


def through(folder, name, data, translate, **options):
    """The bytes of a document whose units went through a translator, and the refusals."""
    path, output, options = folder / "in", folder / "out", DocumentOptions(**options)
    path.write_bytes(data)
    module = load_format(name)
    translations = [translate(unit) for unit in module.units(path, options)]
    refusals = list(module.write(path, output, translations, options))
    return output.read_bytes(), refusals


def texts(folder, name, data, **options):
    """The units' texts."""
    path = folder / "in"
    path.write_bytes(data)
    return [unit.text for unit in load_format(name).units(path, DocumentOptions(**options))]
