"""Fragments of HTML through translators and exports of the fixture's model."""

import re

import numpy as np
import pytest
import tensorflow as tf

from keras_mt import ExportedTranslator
from keras_mt.text import Element, Fragment, Source

MARKED = [
    "O <b>livro</b> está em cima da <i class='x'>mesa</i>.",
    "O livro est&aacute; em cima da mesa.",
    "O livro está em cima da mesa.",
    "<p>O livro está em cima da mesa.<br>O <a href='?a=1&amp;b=2'>gato</a> dorme.</p>",
    "",
    "<!-- nada -->",
]

LONG = pytest.mark.long


@pytest.fixture(scope="module")
def export(exported_whole):
    """Its signatures are loaded once for all tests."""
    return ExportedTranslator(exported_whole)


@pytest.fixture(scope="module")
def litert(exported_litert):
    return ExportedTranslator(exported_litert)


@pytest.fixture(
    scope="module",
    params=["translator", *(pytest.param(x, marks=LONG) for x in ("export", "litert"))],
)
def any_translator(request):
    return request.getfixturevalue(request.param)


def test_the_text_is_that_without_markup(any_translator):
    plain = [Source(text, markup="html").plain for text in MARKED]
    found = any_translator.hypotheses(MARKED, markup="html")
    for text, hypotheses, expected in zip(
        MARKED, found, any_translator.hypotheses(plain), strict=True
    ):
        assert [h.score for h in hypotheses] == pytest.approx([h.score for h in expected], abs=1e-4)
        for hypothesis, other in zip(hypotheses, expected, strict=True):
            words = re.sub("<[^>]*>", " ", hypothesis.text).split()
            assert " ".join(words).replace(" .", ".") == " ".join(other.text.split())
            elements = [sorted(re.findall("<[^>]*>", x)) for x in (text, hypothesis.text)]
            assert elements[0] == elements[1]
    best = [hypotheses[0].text for hypotheses in found]
    assert best[0] == "The <b>book</b> is on the <i class='x'>table</i>."
    assert best[1] == best[2] == "The book is on the table."
    assert best[3].startswith("<p>The book is on the table.<br>")
    assert any_translator(MARKED, markup="html") == [[h.text for h in row] for row in found]
    assert any_translator(MARKED[0], markup="html")[0] == best[0]
    of_tensor = any_translator(tf.constant(MARKED[:1]), markup="html")
    assert of_tensor[0, 0].numpy().decode() == best[0]
    assert any_translator.hypotheses(MARKED[0], markup="html") == [
        h._replace(score=pytest.approx(h.score, abs=1e-4)) for h in found[0]
    ]


def test_a_fragment_becomes_one_with_the_same_elements(any_translator):
    text = Fragment("O livro está em cima da mesa.", [Element(2, 7), Element(24, 28)])
    for found in any_translator.hypotheses([text, str(text)])[0], any_translator.hypotheses(text):
        best = found[0].text
        assert best == "The book is on the table."
        assert [best[e.start : e.end] for e in best.elements] == ["book", "table"]


@LONG
def test_an_export_aligns_as_its_translator(translator, export, sources):
    targets = [best for best, _ in translator(sources)]
    for target in (targets, None):
        for one, other in zip(
            translator.align(sources, target), export.align(sources, target), strict=True
        ):
            assert one[:2] == other[:2]
            np.testing.assert_allclose(one[2], other[2], atol=1e-4)
    assert export.align(sources[0], targets[0])[0] == translator.align(sources[0], targets[0])[0]
    found = export.align(["palavra " * 99, sources[0]], ["word", targets[0]])
    assert found[0] is None and "limit" in found.refusals[0]


@LONG
def test_an_export_aligns_and_scores_with_one_copy_of_its_weights(exported_whole):
    export = ExportedTranslator(exported_whole)
    export.align(MARKED[0])
    sessions = export._engine._sessions
    assert sessions["align"] is sessions["score"]


def test_a_line_too_long_to_be_aligned_has_its_elements_all_the_same(eager, load):
    text = f"O <b>livro</b> está em cima da mesa, {'e a casa é nova, ' * 12}e o <i>gato</i>."
    translator = load(beam_size=1, max_length=6)
    written = translator(text, markup="html")
    assert re.fullmatch(r"The <b>book</b>[^<>]*<i>[^<>]+</i>[^<>]*", written)
    (found,) = translator.hypotheses(text, markup="html", confidence=True)
    assert found.text == written


def test_a_refused_text_leaves_the_others(eager, load):
    translator = load(max_line_bytes=60, max_length=12)
    found = translator.hypotheses([f"<b>{'a' * 61}</b>", MARKED[0]], markup="html")
    assert found[0] is None and "61 bytes" in found.refusals[0]
    assert found[1][0].text.count("<b>") == 1
    with pytest.raises(ValueError, match="The text is refused: a line of 61 bytes"):
        translator(f"<b>{'a' * 61}</b>", markup="html")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t("a", markup="xml"), "markup must be 'html', or None for plain text.*'xml'"),
        (lambda t: t(["a", 3], markup="html"), r"texts\[1\] must be a str. Received: int"),
        (lambda t: t(7, markup="html"), "texts must be a str or a list of str. Received: int"),
    ],
)
def test_what_cannot_be_is_refused_by_name(translator, call, message):
    with pytest.raises(ValueError, match=message):
        call(translator)


def test_a_model_without_attention_takes_no_markup(translator, exported, monkeypatch):
    monkeypatch.setattr(type(translator), "supports_alignment", False)
    export = ExportedTranslator(exported)
    assert not export.supports_alignment
    for each in (translator, export):
        with pytest.raises(ValueError, match="markup='html' needs a model with attention"):
            each("<b>a</b>", markup="html")
        with pytest.raises(ValueError, match="inline elements needs a model with attention"):
            each(Fragment("a", [Element(0, 1)]))
