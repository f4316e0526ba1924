import gzip
import re
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from keras_mt.data import load_corpus
from keras_mt.data.corpus import has_split, open_corpus
from keras_mt.data.tmx import tmx_pairs
from keras_mt.errors import CorpusError

HEAD = (
    '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>'
)
UNITS = """
<tu><tuv xml:lang="EN-us"><seg>A <bpt i="1">{\\b <sub>no</sub></bpt>big<ept i="1">}</ept>
  dog &amp; <hi>a cat</hi>.</seg></tuv>
  <tuv xml:lang="de-DE"><seg>Ein Hund.</seg></tuv>
  <tuv xml:lang="de_AT"><seg>A Hund.</seg></tuv></tu>
<tu><tuv xml:lang="fr"><seg>Un chat.</seg></tuv><tuv xml:lang="en"><seg>A cat.</seg></tuv></tu>
<tu><tuv lang="de"><seg>Maus</seg></tuv><tuv lang="en"><seg>mouse</seg></tuv></tu>
"""


def write(path, units, head=HEAD, encoding="utf-8"):
    path.write_bytes(f"{head}{units}</body></tmx>".encode(encoding))
    return path


def test_a_memory_is_read_by_language_without_codes_of_a_format(tmp_path):
    path = write(tmp_path / "memory.tmx", UNITS)
    expected = [(b"A big dog & a cat.", b"Ein Hund."), (b"mouse", b"Maus")]
    assert list(load_corpus(path, "en", "de", "train").as_numpy_iterator()) == expected
    assert list(tmx_pairs(path, "en-US", "de-AT")) == [(b"A big dog & a cat.", b"A Hund.")]
    assert list(tmx_pairs(path, "fr", "en")) == [(b"Un chat.", b"A cat.")]
    assert has_split(path, "en", "de", "train") and not has_split(path, "en", "de", "test")
    packed = tmp_path / "memory.tmx.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list(load_corpus(packed, "en", "de", "train").as_numpy_iterator()) == expected


@pytest.mark.parametrize("order", [("en", "en-GB"), ("en-GB", "en")])
def test_a_language_and_a_variant_of_it_are_two_sides_in_any_order(tmp_path, order):
    texts = {"en": "color", "en-GB": "colour"}
    sides = "".join(f'<tuv xml:lang="{x}"><seg>{texts[x]}</seg></tuv>' for x in order)
    path = write(tmp_path / "memory.tmx", f"<tu>{sides}</tu>")
    assert list(tmx_pairs(path, "en", "en-GB")) == [(b"color", b"colour")]
    assert list(tmx_pairs(path, "en_gb", "EN")) == [(b"colour", b"color")]


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pairs=st.lists(st.tuples(texts, texts), min_size=1),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)
def test_what_another_library_writes_comes_back(tmp_path, pairs, encoding):
    root = ElementTree.Element("tmx", version="1.4")
    body = ElementTree.SubElement(root, "body")
    for pair in pairs:
        unit = ElementTree.SubElement(body, "tu")
        for language, text in zip(("en", "de"), pair, strict=True):
            variant = ElementTree.SubElement(unit, "tuv", {"xml:lang": language})
            ElementTree.SubElement(variant, "seg").text = text
    path = tmp_path / "memory.tmx"
    ElementTree.ElementTree(root).write(path, encoding=encoding, xml_declaration=True)
    folded = [tuple(re.sub(" +", " ", text).strip(" ").encode() for text in pair) for pair in pairs]
    assert list(open_corpus(path, "en", "de").pairs("train", checked=False)) == folded


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ('<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">', "declares entities"),
        ('<!ENTITY a SYSTEM "file:///etc/passwd">', "declares entities"),
        ('<!ENTITY % a SYSTEM "http://localhost/evil.dtd"> %a;', "declares entities"),
    ],
)
def test_entities_are_refused(tmp_path, declaration, message):
    head = f'<?xml version="1.0"?><!DOCTYPE tmx [{declaration}]><tmx><body>'
    unit = (
        '<tu><tuv xml:lang="en"><seg>&b;&a;</seg></tuv><tuv xml:lang="de"><seg>b</seg></tuv></tu>'
    )
    path = write(tmp_path / "memory.tmx", unit, head)
    with pytest.raises(CorpusError, match=rf"memory\.tmx {message}"):
        load_corpus(path, "en", "de", "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<tmx><body><tu></body></tmx>", r"memory\.tmx:1 is no XML: mismatched tag"),
        ("", r"memory\.tmx:1 is no XML: no element found"),
        ("en\tde\n", r"memory\.tmx:1 is no XML"),
        ("<html></html>", "no unit with both .* its languages are none"),
        (f"{HEAD}</body></tmx>", "no unit with both 'en' and 'de'; its languages are none"),
        (
            f"{HEAD}{UNITS}</body></tmx>".replace("de", "it"),
            "no unit with both 'en' and 'de'; its languages are EN-us, en, fr, it, it-DE, it_AT",
        ),
        (f"{HEAD}{UNITS}</body></tmx>".replace("Maus", " "), "pair 2 is blank"),
        (f"{HEAD}{UNITS}</body></tmx>".replace("Maus", "&maus;"), r"memory\.tmx .*uses those of"),
        ("<?xml version='1.0' encoding='shift_jis'?><tmx/>", r"memory\.tmx: multi-byte enc.*UTF-8"),
        ("<?xml version='1.0' encoding='x'?><tmx/>", r"memory\.tmx: unknown encoding: x: convert"),
    ],
)
def test_what_is_no_memory_of_the_languages_is_refused(tmp_path, content, message):
    path = tmp_path / "memory.tmx"
    path.write_text(content)
    with pytest.raises(CorpusError, match=message):
        load_corpus(path, "en", "de", "train")
