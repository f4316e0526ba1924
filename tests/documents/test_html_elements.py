import re

import pytest
from stand_in_translator import marked

from keras_mt.documents.html import HtmlDocument
from keras_mt.text.markup import BLOCKS, HIDDEN, INLINE, KEPT, VOID, HtmlFragment

KEPT_PART = re.compile(r"<\d+(?::[^<>]*)?/>|</?\d+>")


@pytest.mark.parametrize("name", sorted(INLINE | BLOCKS | VOID | KEPT | HIDDEN))
def test_pages_and_fragments_go_through_an_element_alike(name):
    text = f"Fox <{name}>ape</{name}> cow"
    page = [
        KEPT_PART.sub("", marked(unit.text)).split() for unit in HtmlDocument(text.encode()).units
    ]
    lines = marked(HtmlFragment(text).fragment).split("\n")
    lines = [KEPT_PART.sub("", line).split() for line in lines]
    if name in HIDDEN:  # A page's text ends there, too.
        page = [[word for text in page for word in text]]
    assert page == [line for line in lines if line]


def test_a_page_alone_ends_its_texts_at_unknown_elements():
    text = "Fox <x>ape</x> cow"
    assert [unit.text for unit in HtmlDocument(text.encode()).units] == ["Fox", "ape", "cow"]
    assert HtmlFragment(text).fragment == "Fox ape cow"
