"""XML that documents are made of, read without what makes it dangerous."""

import re
from typing import Any

from keras_mt.errors import InputError


def parsed(data: bytes, name: str) -> Any:
    """The `lxml` element tree of an XML file that declares no document type."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False, load_dtd=False, no_network=True, huge_tree=False, remove_pis=False
    )
    try:
        tree = etree.fromstring(data, parser).getroottree()
    except (etree.XMLSyntaxError, ValueError) as error:
        raise InputError(f"{name} is not XML that can be read: {error}") from error
    if tree.docinfo.internalDTD is not None:
        raise InputError(
            f"{name} declares a document type, whose entities can read other files: take the "
            "<!DOCTYPE> out."
        )
    return tree


def written(tree: Any, source: bytes) -> bytes:
    """The bytes of a tree, in the encoding and with the declaration that it was read with."""
    from lxml import etree

    encoding = tree.docinfo.encoding or "UTF-8"
    head = re.match(rb"(?:\xef\xbb\xbf)?(?:<\?xml[^>]*\?>)?\s*", source)[0]
    if not source[len(head) :].startswith(b"<"):  # UTF-16.
        return etree.tostring(tree, xml_declaration=True, encoding=encoding)
    end = source[len(source.rstrip()) :]
    return head + etree.tostring(tree, xml_declaration=False, encoding=encoding) + end


def valid(text: str) -> str:
    """A text without the characters that XML cannot have."""
    return re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "", text)
