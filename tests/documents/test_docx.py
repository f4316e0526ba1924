import io
import zipfile

import docx
import pytest
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from stand_in_translator import same, texts, through, upper

from keras_mt.documents import docx as module
from keras_mt.errors import InputError


def saved(document):
    data = io.BytesIO()
    document.save(data)
    return data.getvalue()


@pytest.fixture
def letter():
    """A document with what a text can be split by."""
    document = docx.Document()
    document.add_heading("A heading")
    paragraph = document.add_paragraph("One ")
    paragraph.add_run("text in ")
    paragraph.add_run("two").bold = True
    paragraph.add_run(" runs").bold = True
    paragraph.add_run(" and a")
    paragraph.add_run("\ttab")
    paragraph.runs[-1].add_picture(io.BytesIO(PNG))
    link = '<w:hyperlink w:anchor="a" %s><w:r><w:t>this link</w:t></w:r></w:hyperlink>'
    paragraph = document.add_paragraph("See ")
    paragraph._p.append(parse_xml(link % nsdecls("w")))
    paragraph.add_run(" now.")
    paragraph = document.add_paragraph("Page ")
    for kind, code in (("begin", ""), ("", "PAGE"), ("separate", ""), ("", "3"), ("end", "")):
        tag = (
            f'<w:fldChar w:fldCharType="{kind}"/>' if kind else f"<w:instrText>{code}</w:instrText>"
        )
        tag = "<w:t>3</w:t>" if code == "3" else tag
        paragraph._p.append(parse_xml(f"<w:r {nsdecls('w')}>{tag}</w:r>"))
    document.add_table(1, 2).cell(0, 1).text = "A cell"
    document.sections[0].header.paragraphs[0].text = "A header"
    document.sections[0].footer.paragraphs[0].text = "12"
    return saved(document)


PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b550000000a49444154789c636000"
    "00000200015e5b8d6b0000000049454e44ae426082"
)


def test_a_paragraph_of_many_runs_is_one_text(letter):
    assert sorted(texts("docx", letter)) == [
        "A cell",
        "A header",
        "A heading",
        "One text in <0>two runs</0> and a<1: />tab",
        "Page",
        "See <0>this link</0> now.",
    ]


def test_runs_links_fields_and_pictures_are_kept(letter):
    written, refusals = through("docx", letter, upper)
    assert not refusals
    document = docx.Document(io.BytesIO(written))
    found = {p.text: p for p in document.paragraphs}
    assert set(found) == {
        "A HEADING",
        "ONE TEXT IN TWO RUNS AND A\tTAB",
        "SEE THIS LINK NOW.",
        "PAGE 3",
    }
    runs = found["ONE TEXT IN TWO RUNS AND A\tTAB"].runs
    assert [run.text for run in runs if run.bold] == ["TWO RUNS"]
    assert len(document.inline_shapes) == 1
    assert found["SEE THIS LINK NOW."].hyperlinks[0].text == "THIS LINK"
    assert found["PAGE 3"]._p.xpath("count(.//w:fldChar)") == 3
    assert document.tables[0].cell(0, 1).text == "A CELL"
    assert document.sections[0].header.paragraphs[0].text == "A HEADER"


def files(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_what_has_no_new_text_stays_to_the_byte(letter):
    assert files(through("docx", letter, lambda unit: unit.text)[0]) == files(letter)
    before, after = files(letter), files(through("docx", letter, upper)[0])
    assert list(before) == list(after)
    changed = [name for name in before if before[name] != after[name]]
    assert sorted(changed) == ["word/document.xml", "word/header1.xml"]
    document = docx.Document(io.BytesIO(through("docx", letter, same)[0]))
    texts_before = [p.text for p in docx.Document(io.BytesIO(letter)).paragraphs]
    assert [p.text for p in document.paragraphs] == texts_before


def packed(contents):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return data.getvalue()


BOMB = b'<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><a>&c;</a>'
FILE = b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>'


@pytest.mark.parametrize("document", [BOMB, FILE, b"<a>", b"\xff", BOMB.decode().encode("utf-16")])
def test_entities_and_damaged_xml_are_refused(letter, document):
    data = packed({**files(letter), "word/document.xml": document})
    with pytest.raises(InputError, match=r"word/document.xml (declares|is not XML)"):
        texts("docx", data)


def test_bombs_and_what_is_no_document_are_refused(letter, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(InputError, match="MiB together"):
        texts("docx", packed({"a": bytes((1 << 20) + 1)}))
    with pytest.raises(InputError, match="files of"):
        texts("docx", packed({str(i): b"" for i in range(10_001)}))
    with pytest.raises(InputError, match="not a DOCX"):
        texts("docx", packed({"a.txt": b"a"}))
    with pytest.raises(InputError, match="not a DOCX"):
        texts("docx", letter[:-200])
    with pytest.raises(InputError, match="not a DOCX"):
        texts("docx", letter[: len(letter) // 2] + bytes(99) + letter[-300:])
