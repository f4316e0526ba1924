"""A web page to try out an exported model."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mt.errors import InputError
from keras_mt.extras import require
from keras_mt.plots import alignment_figure
from keras_mt.serving.demo_document import document_part, terms_of
from keras_mt.text import Fragment
from keras_mt.translation.exported import ExportedTranslator
from keras_mt.translation.fragments import put_back
from keras_mt.translation.results import Hypothesis, as_hypotheses

_BEAM_SIZE = 5
_MOST_CHARACTERS = 2000
_HOUR, _DAY = 3600, 86400


def page(directory: str | os.PathLike) -> Any:
    """A Gradio page: a text box, the best translations with their scores, and their alignments.

    With its check box, the text is a fragment of HTML, whose elements are put around what their
    words became. A document, in any format of `keras_mt.documents`, comes back translated, with the
    same languages and glossary. `page(...).launch()` opens it. The address `?text=...` translates
    that text at once.

    Args:
        directory: An export, such as `saved_models/en_de` or a version in it.

    Returns:
        A `gradio.Blocks`.

    Raises:
        FileNotFoundError: If there is no export at `directory`.
        ValueError: If Gradio is not installed.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    require("gradio", "demo", "The page")
    import gradio

    exported = ExportedTranslator(directory)
    if "tunable" not in exported.signatures:
        raise InputError(
            f"{directory} has no signature tunable, which the page uses: export the run again, "
            "with all signatures."
        )
    aligns = exported.aligns
    codes = [exported.source_language, exported.target_language] if exported.languages else []
    codes = [code or exported.languages[0] for code in codes]
    translations(exported, "", codes)  # So that the first user does not wait for the first run.
    if aligns:
        alignment(exported, "", "", codes)
    languages = [exported.card.get(side, side) for side in ("source", "target")]
    title = f"{exported.card.get('name', directory)}: {' to '.join(languages)}"

    def translate(text, is_html, lines, *codes):
        """The list of translations, with the best one selected."""
        if len(text) > _MOST_CHARACTERS:
            raise gradio.Error(f"The text has more than {_MOST_CHARACTERS:,} characters.")
        choices = _choices(exported, text, is_html, lines, codes)
        if choices is None:
            gradio.Warning("The model has no translation of this text with these terms.")
        return gradio.Radio(choices=choices or [], value=choices[0][1] if choices else None)

    def draw(text, is_html, translation, *codes):
        if not translation:
            return None
        text = Fragment(text).text if is_html else text
        source, target, attention = alignment(exported, text, translation, codes)
        return alignment_figure(source, target, attention) if source and target else None

    def from_address(request: gradio.Request):
        text = request.query_params.get("text")
        if not text:
            return gradio.skip(), gradio.skip()
        return text, translate(text, False, "", *codes)

    with gradio.Blocks(title=title, delete_cache=(_HOUR, _DAY)) as blocks:
        gradio.Markdown(f"# {title}")
        label = f"Text ({languages[0]})"
        text = gradio.Textbox(label=label, lines=3, max_length=_MOST_CHARACTERS, elem_id="text")
        html = gradio.Checkbox(label="HTML", visible=aligns, elem_id="html")
        chosen = [
            gradio.Dropdown(list(exported.languages), value=code, label=f"Language of the {side}")
            for side, code in zip(("text", "translations"), codes, strict=False)
        ]
        lines = gradio.Textbox(
            label="Glossary: a term and its translation on each line, with = between",
            lines=2,
            max_length=_MOST_CHARACTERS,
            visible="constrained" in exported.signatures,
            elem_id="glossary",
        )
        button = gradio.Button("Translate", variant="primary")
        found = gradio.Radio(label=f"Translations ({languages[1]}), best first", elem_id="found")
        inputs = [text, html, lines, *chosen]
        gradio.on([button.click, text.submit], translate, inputs, found)
        if aligns:
            gradio.Markdown("Which words of the text each word of the translation attends to:")
            plot = gradio.Plot(show_label=False, elem_id="attention")
            found.change(draw, [text, html, found, *chosen], plot)
        document_part(exported, [lines, *chosen])
        blocks.load(from_address, None, [text, found])
    return blocks


def _choices(exported, text, is_html, lines, codes):
    """For each translation what the list shows of it, and its text; None if there are none."""
    fragment = Fragment(text) if is_html else None
    plain = fragment.text if is_html else text
    if not plain.strip():
        return []
    found = translations(exported, plain, codes, lines)
    texts = [hypothesis.text for hypothesis in found]
    written = put_back(exported, [fragment] * len(texts), texts, *codes) if is_html else texts
    return [
        (f"{hypothesis.score:.3f} {shown}", hypothesis.text)
        for hypothesis, shown in zip(found, written, strict=True)
    ] or None


def translations(
    exported: ExportedTranslator, text: str, codes: Sequence[str] = (), lines: str = ""
) -> list[Hypothesis]:
    """The best translations of a text, best first, without duplicates; empty if there are none.

    `codes` are the source's and the target's language, for a model of several languages; `lines`
    are terms, `source = target` or a source alone. With terms there are as many translations as
    the export's `n_best`.
    """
    if lines.strip():
        rows = ([row] if isinstance(row, str) else row for row in terms_of(lines))
        terms = "\n".join(map("\t".join, rows))
        outputs = _row(exported.signatures["constrained"], codes, text=text, terms=terms)
        return as_hypotheses(outputs) or []
    tunable = exported.signatures["tunable"]
    beam_size = min(_BEAM_SIZE, tunable.structured_outputs["scores"].shape[1])
    options = {"beam_size": beam_size, "n_best": beam_size, "length_penalty": 1.0, "max_length": 0}
    outputs = _row(tunable, codes, text=text, **options)
    best = {}
    for hypothesis in as_hypotheses(outputs) or []:  # Different pieces may make up the same text.
        best.setdefault(hypothesis.text, hypothesis)
    return list(best.values())


def alignment(
    exported: ExportedTranslator, text: str, translation: str, codes: Sequence[str] = ()
) -> tuple[list[str], list[str], np.ndarray]:
    """Words of a text and of its translation, and the attention `[target_words, source_words]`.

    All are empty if the text is over the model's limit.
    """
    outputs = _row(exported.signatures["align"], codes, text=text, target=translation)
    sides = []
    for side in ("source", "target"):
        pieces = outputs[f"{side}_tokens"][: outputs[f"{side}_lengths"]]
        sides.append(_words([piece.decode() for piece in pieces]))
    (source, columns), (target, rows) = sides
    attention = outputs["attention"][: rows.shape[1], : columns.shape[1]]
    return source, target, (rows / rows.sum(axis=1, keepdims=True)) @ attention @ columns.T


def _row(signature, codes, **inputs):
    """A signature's outputs for one row, as NumPy arrays."""
    inputs |= dict(zip(("source_language", "target_language"), codes, strict=False))
    outputs = signature(**{name: tf.constant([value]) for name, value in inputs.items()})
    return {name: tensor[0].numpy() for name, tensor in outputs.items()}


def _words(pieces):
    """Words, and which pieces each has, `[words, pieces]`; the end token belongs to no word."""
    end = pieces[-1] if pieces else None  # If there are several lines, each has one.
    begins = [
        i == 0 or piece.startswith("▁") or end in pieces[i - 1 : i + 1]
        for i, piece in enumerate(pieces)
    ]
    numbers = np.cumsum(begins) - 1
    words = [""] * (numbers[-1] + 1 if pieces else 0)
    for number, piece in zip(numbers, pieces, strict=True):
        words[number] += piece.replace("▁", "")
    kept = [i for i, word in enumerate(words) if word != end]
    of_word = numbers[None] == np.array(kept, int)[:, None]
    return [words[i] for i in kept], of_word.astype(np.float32)
