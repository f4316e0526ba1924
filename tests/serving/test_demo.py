import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import Glossary
from keras_mt.serving import ExportedTranslator
from keras_mt.serving.demo import alignment, page, translations
from keras_mt.serving.demo_document import translated
from keras_mt.translation.results import Hypothesis, Results

pytestmark = pytest.mark.long

CHROMIUM = shutil.which("chromium")


@pytest.fixture(scope="module")
def reader(exported):
    return ExportedTranslator(exported)


def test_the_list_is_the_n_best_list(eager, reader, load, sources):
    translator, sources = load(beam_size=5, n_best=5), sources[:4]
    for source, expected in zip(sources, translator.hypotheses(sources), strict=True):
        scores = {}
        for hypothesis in expected:
            scores.setdefault(hypothesis.text, hypothesis.score)
        found = {h.text: h.score for h in translations(reader, source)}
        assert list(found) == list(scores)
        assert found == pytest.approx(scores, abs=1e-4)


def test_of_two_alike_the_better_counts():
    rows = {"translations": ["A", "B", "A"], "scores": [-1.0, -2.0, -3.0]}

    class Export:
        @staticmethod
        def tunable(**_):
            return {name: tf.constant([row]) for name, row in rows.items()}

    Export.tunable.structured_outputs = {"scores": tf.TensorSpec([None, 3])}
    Export.signatures = {"tunable": Export.tunable}
    assert [(h.text, h.score) for h in translations(Export, "")] == [("A", -1.0), ("B", -2.0)]


def test_a_glossary_is_lines_with_an_equals_sign(eager, reader, load):
    found = translations(reader, "O livro.", lines="livro = volume\n\n gato")
    translator = load(beam_size=3, n_best=2)
    expected = translator.hypotheses("O livro.", glossary=Glossary({"livro": "volume"}))
    assert [h.text for h in found] == [h.text for h in expected]
    assert all("volume" in h.text for h in found)


def test_a_text_without_a_translation_has_none():
    rows = {"translations": ["", ""], "scores": [-1e9, -1e9]}

    class Export:
        @staticmethod
        def tunable(**_):
            return {name: tf.constant([row]) for name, row in rows.items()}

    Export.tunable.structured_outputs = {"scores": tf.TensorSpec([None, 2])}
    Export.signatures = {"tunable": Export.tunable}
    assert translations(Export, "text") == []


def test_a_text_of_any_length_is_not_taken(exported):
    gradio = pytest.importorskip("gradio")
    blocks = page(exported)
    (box,) = [b for b in blocks.blocks.values() if getattr(b, "elem_id", None) == "text"]
    assert box.max_length == 2000
    translate = next(
        f.fn for f in blocks.fns.values() if f.fn is not None and f.fn.__name__ == "translate"
    )
    with pytest.raises(gradio.Error, match="more than 2,000 characters"):
        translate("a" * 2001, False, "")


def test_html_is_shown_with_its_elements(reader, exported, sources):
    pytest.importorskip("gradio")
    fns = {f.fn.__name__: f.fn for f in page(exported).fns.values() if f.fn is not None}
    marked = f"<b>{sources[0]}</b> &amp;<br>"
    shown = fns["translate"](marked, True, "")
    expected = translations(reader, f"{sources[0]} &")
    assert [value for _, value in shown.choices] == [h.text for h in expected]
    for label, value in shown.choices:
        assert label.partition(" ")[2].startswith("<b>") and label.count("<br>") == 1
        assert "&amp;" in label or "&" not in value
    assert fns["draw"](marked, True, expected[0].text) is not None
    assert fns["translate"]("<br>", True, "").choices == []


@pytest.fixture(scope="module")
def translate_document(exported):
    """What the page does with a document: its translation's bytes, and what is shown besides."""
    pytest.importorskip("gradio")
    functions = [f.fn for f in page(exported).fns.values() if f.fn is not None]
    function = next(f for f in functions if f.__name__ == "translate_document")

    def translate(path, lines=""):
        steps = function(str(path), lines)  # It removes the file when it goes on.
        written, refused = next(steps)
        assert Path(written).name == path.name
        return Path(written).read_bytes().decode(), refused

    return translate


def test_a_document_comes_back_translated(translate_document, reader, sources, tmp_path):
    best = [found[0].text for found in reader.hypotheses(sources[:2])]
    cue = "{}\n00:00:0{},000 --> 00:00:0{},500\n{}\n"
    for name, form in (
        ("a.html", '<!doctype html><p class="x">{}</p><code>olá</code><p>{}'),
        ("a.srt", cue.format(1, 1, 1, "{}") + "\n" + cue.format(2, 9, 9, "{}")),
        ("a.txt", "{}\n{}\n"),
    ):
        (tmp_path / name).write_text(form.format(*sources[:2]), encoding="utf-8")
        written, refused = translate_document(tmp_path / name)
        assert written.split() == form.format(*best).split()
        assert not refused.visible
    (tmp_path / "b.html").write_text("<p>O livro.", encoding="utf-8")
    assert "volume" in translate_document(tmp_path / "b.html", "livro = volume")[0]
    (tmp_path / "b.txt").write_text("Ol\xe1!\n" + "palavra " * 5000, encoding="latin-1")
    written, refused = translate_document(tmp_path / "b.txt")
    assert written == "\n\n" and refused.visible
    assert [line[:20] for line in refused.value.split("\n")] == [
        "line 1: not UTF-8 at", "line 2: a line of 40",
    ]  # fmt: skip


def test_a_document_that_is_refused_is_named(translate_document, tmp_path):
    gradio = pytest.importorskip("gradio")
    for name, data, message in (
        ("a.pdf", b"%PDF", r"^'?a.pdf has no suffix of a known format"),
        ("a.docx", b"PK", r"^'?a.docx: "),
        ("a.txt", b"a" * ((1 << 20) + 1), r"^'?a.txt has more than 1 MiB"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(gradio.Error, match=message):
            translate_document(tmp_path / name)


def test_a_page_is_marked_as_of_the_target_language(tmp_path):
    class Export:
        max_line_bytes, card = None, {"source": "pt", "target": "en"}

        @staticmethod
        def hypotheses(texts, **_):
            found = [[Hypothesis(text.upper(), 0.0)] for text in texts]
            return Results(found, {})

    (tmp_path / "a.html").write_text('<html lang="pt"><p>a</p></html>')
    assert translated(Export, tmp_path / "a.html", tmp_path / "out") == ""
    assert (tmp_path / "out" / "a.html").read_text() == '<html lang="en"><p>A</p></html>'


def test_attention_of_words_is_that_of_their_pieces(reader, translator, sources):
    target = "the book is on the table"
    words, target_words, attention = alignment(reader, sources[0], target)
    assert (words, target_words) == (sources[0].split(), target.split())
    pieces, target_pieces, scores = translator.align(sources[0], target)
    columns = [i for i, piece in enumerate(pieces[:-1]) if piece.startswith("▁")]
    rows = [i for i, piece in enumerate(target_pieces[:-1]) if piece.startswith("▁")]
    summed = np.add.reduceat(scores[:-1, :-1], columns, axis=1)  # All that goes to a word.
    sizes = np.diff([*rows, len(target_pieces) - 1])[:, None]
    expected = np.add.reduceat(summed, rows, axis=0) / sizes  # A word's mean over its pieces.
    np.testing.assert_allclose(attention, expected, atol=1e-5)
    assert alignment(reader, "palavra " * 500, target)[0] == []


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium (Debian's chromium)")
def test_a_visitor_types_and_sees(exported, reader, sources, tmp_path):
    from playwright.sync_api import sync_playwright

    _, url, _ = page(exported).launch(
        server_name="127.0.0.1", prevent_thread_lock=True, quiet=True
    )  # fmt: skip
    best, *others = translations(reader, sources[0])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        visit = browser.new_page(viewport={"width": 1000, "height": 1100})
        visit.goto(url)
        visit.locator("#text textarea").fill(sources[0])
        visit.get_by_role("button", name="Translate").click()
        choices = visit.locator("#found label")
        choices.nth(len(others)).wait_for()
        assert choices.first.inner_text() == f"{best.score:.3f} {best.text}"
        picture = visit.locator("#attention img")
        picture.wait_for()
        first = picture.get_attribute("src")
        choices.nth(1).click()  # Another translation has another picture.
        visit.wait_for_function(
            "src => document.querySelector('#attention img')?.src != src", arg=first
        )
        (tmp_path / "a.txt").write_text(f"{sources[0]}\n", encoding="utf-8")
        visit.locator("#document input[type=file]").set_input_files(tmp_path / "a.txt")
        with visit.expect_download() as download:
            visit.locator("#translated a[download]").first.click()
        assert download.value.suggested_filename == "a.txt"
        assert Path(download.value.path()).read_text(encoding="utf-8") == f"{best.text}\n"
        visit.screenshot(path=tmp_path / "demo.png", full_page=True)
        visit.goto(f"{url}?text=Ol%C3%A1!")
        choices.first.wait_for()
        assert visit.locator("#text textarea").input_value() == "Olá!"
        browser.close()
    assert (tmp_path / "demo.png").stat().st_size > 20_000
