"""A translator that changes letters alone, and documents through it."""

from keras_mt.documents.registry import document_class
from keras_mt.text import Fragment


def upper(unit):
    """The unit's text in upper case, with its elements."""
    letters = (c.upper() if len(c.upper()) == 1 else c for c in unit.text)
    return Fragment("".join(letters), unit.text.elements)


def same(unit):
    """The unit's text as it is, written anew: what is equal to the source is not."""
    return Fragment(unit.text + " ", unit.text.elements)


def through(name, data, translate, **options):
    """The bytes of a document whose units went through a translator, and the refusals."""
    document = document_class(name)(data, **options)
    return document.write([translate(unit) for unit in document.units]), document.refusals


def texts(name, data, **options):
    """The units' texts, with `<0>` and `</0>` around an element, and `<1:code/>` for a kept one."""
    return [marked(unit.text) for unit in document_class(name)(data, **options).units]


def marked(text):
    """A fragment's text with the numbers of its elements."""
    forms = {"text": "{}", "start": "<{}>", "end": "</{}>", "kept": "<{}{}/>"}
    found = ""
    for kind, what in text.parts():
        own = text[slice(*text.elements[what][:2])] if kind == "kept" else ""
        found += forms[kind].format(what, own and f":{own}")
    return found
