import pytest
from lxml import etree
from stand_in_translator import texts, through, upper

from keras_mt.errors import InputError

FILE = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
  <file original="a.html" source-language="en" datatype="html">
    <body>
      <trans-unit id="1">
        <source>Press <g id="a" ctype="bold">the <x id="b"/> key</g> &amp; wait</source>
        <note>Not this</note>
      </trans-unit>
      <trans-unit id="2" approved="yes"><source>Done</source><target/></trans-unit>
      <trans-unit id="3"><source>Filled</source>
        <target state="translated">Gefüllt</target>
        <alt-trans><source>Other</source><target>Andere</target></alt-trans></trans-unit>
      <trans-unit id="4"><source>Open</source><target state="new"></target></trans-unit>
      <trans-unit id="5" translate="no"><source>Stays</source></trans-unit>
      <group translate="no"><trans-unit id="6"><source>Stays</source></trans-unit></group>
      <trans-unit id="7"><source>One. Two.</source>
        <seg-source><mrk mtype="seg" mid="1">One.</mrk>
          <mrk mtype="seg" mid="2">Two.</mrk></seg-source>
      </trans-unit>
      <trans-unit id="8"><source><bpt id="1">&lt;b></bpt>Bold<ept id="1">&lt;/b></ept>
        <ph id="2">{0}</ph>
        <mrk mtype="protected">Name</mrk></source></trans-unit>
    </body>
  </file>
</xliff>
"""
NAMES = {"x": "urn:oasis:names:tc:xliff:document:1.2"}


def test_targets_that_are_empty_get_the_source_s_elements():
    data = FILE.encode()
    assert texts("xliff", data)[1:2] == ["Open"]
    written, refusals = through("xliff", data, upper, target_language="de")
    assert not refusals
    before, after = etree.fromstring(data), etree.fromstring(written)
    assert after.find("x:file", NAMES).get("target-language") == "de"
    for unit in after.iterfind(".//x:trans-unit", NAMES):
        source, target = unit.find("x:source", NAMES), unit.find("x:target", NAMES)
        if unit.get("id") in ("1", "4", "7", "8"):
            same = unit.find("x:seg-source", NAMES)
            same = source if same is None else same
            assert [(e.tag, dict(e.attrib)) for e in target.iter()][1:] == [
                (e.tag, dict(e.attrib)) for e in same.iter()
            ][1:]
            unit.remove(target)
        target = before.find(f".//x:trans-unit[@id='{unit.get('id')}']/x:target", NAMES)
        if unit.get("id") == "4":
            target.getparent().remove(target)
    del after.find("x:file", NAMES).attrib["target-language"]
    lines = [etree.tostring(tree, method="c14n").split() for tree in (before, after)]
    assert lines[0] == lines[1]
    text = written.decode()
    assert (
        '<target>PRESS <g id="a" ctype="bold">THE <x id="b"/> KEY</g> &amp; WAIT</target>' in text
    )
    assert '<target state="new">OPEN</target>' in text
    assert '</bpt>BOLD<ept id="1">' in text and '<mrk mtype="protected">Name</mrk></target>' in text


def test_nothing_new_leaves_the_file_to_the_byte_and_filled_ones_are_kept():
    assert through("xliff", FILE.encode(), lambda unit: None)[0] == FILE.encode()
    written, _ = through("xliff", FILE.encode(), upper, retranslate=True)
    assert '<target state="translated">FILLED</target>' in written.decode()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'<!DOCTYPE a [<!ENTITY b "c">]><xliff version="1.2">&b;</xliff>', "document type"),
        (b'<!DOCTYPE a SYSTEM "file:///etc/hostname"><xliff version="1.2"/>', "document type"),
        (b"<xliff>", "not XML"),
        (b'<?xml version="1.0" encoding="utf-8"?><xliff>\xff</xliff>', "not XML"),
        (b'<xliff version="2.0"/>', "not XLIFF 1.2"),
        (b"<html/>", "not XLIFF 1.2"),
        (b"<a>" * 100_000, "not XML"),
    ],
)
def test_what_is_no_xliff_is_refused_by_name(data, message):
    with pytest.raises(InputError, match=message):
        texts("xliff", data)
