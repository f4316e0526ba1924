import re

import pytest

from keras_mt.documents.html import HtmlDocument
from keras_mt.text.elements import BLOCKS, HIDDEN, INLINE, KEPT, VOID
from keras_mt.text.markup import Fragment


@pytest.mark.parametrize("name", sorted(INLINE | BLOCKS | VOID | KEPT | HIDDEN))
def test_pages_and_fragments_go_through_an_element_alike(name):
    text = f"Fox <{name}>ape</{name}> cow"
    page = [unit.text for unit in HtmlDocument(text.encode()).units]
    fragment = Fragment(text)
    protected = [fragment.text[a:b] for a, b in fragment.protected]
    kept = re.compile('<span[^<>]*translate="no">[^<]*</span>|<[^<>]*>')
    texts = [kept.sub("", text).split() for text in page]
    lines = [
        [word for word in line.split() if word not in protected]
        for line in fragment.text.split("\n")
    ]
    if name in HIDDEN:  # A page's text ends there, too.
        texts = [[word for text in texts for word in text]]
    assert texts == [line for line in lines if line]


def test_a_page_alone_ends_its_texts_at_unknown_elements():
    text = "Fox <x>ape</x> cow"
    assert [unit.text for unit in HtmlDocument(text.encode()).units] == ["Fox", "ape", "cow"]
    assert Fragment(text).text == "Fox ape cow"
