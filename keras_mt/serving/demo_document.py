"""The part of the demo page that takes a document."""

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_mt.documents import DocumentOptions, translate_files
from keras_mt.documents.formats import FORMATS
from keras_mt.documents.run import translating
from keras_mt.errors import InputError
from keras_mt.translation.exported import ExportedTranslator
from keras_mt.translation.glossary import Glossary

_MOST_BYTES = 1 << 20  # Some minutes.


def document_part(exported: ExportedTranslator, inputs: Sequence[Any]) -> None:
    """Adds it to the page that is being made.

    `inputs` are the page's boxes for a glossary and, if there is a choice, for the two languages.
    """
    import gradio

    def translate_document(path: str, lines: str, *codes: str) -> Iterator[tuple]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                refused = translated(exported, path, folder, codes, lines)
            except InputError as error:
                raise gradio.Error(str(error)) from error
            shown = gradio.Textbox(refused, visible=bool(refused))
            yield str(Path(folder, Path(path).name)), shown  # Of which the page makes a copy.

    gradio.Markdown("A document, with the languages and the glossary above:")
    suffixes = [suffix for of_format in FORMATS.values() for suffix in of_format]
    given = gradio.File(label=" ".join(suffixes), elem_id="document")
    found = gradio.File(label="Its translation", interactive=False, elem_id="translated")
    refused = gradio.Textbox(label="Without a translation", visible=False, elem_id="refused")
    given.upload(translate_document, [given, *inputs], [found, refused])


def translated(
    exported: ExportedTranslator,
    path: str | os.PathLike,
    output: str | os.PathLike,
    codes: Sequence[str] = (),
    lines: str = "",
) -> str:
    """Translates a document into a folder; returns a line for each text without a translation.

    `codes` and `lines` are as for `translations`. InputError if the document is too large, or not
    what its suffix says.
    """
    path = Path(path)
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(
            f"{path.name} has more than {_MOST_BYTES >> 20} MiB: use `keras-mt translate-files`."
        )
    languages = dict(zip(("source_language", "target_language"), codes, strict=False))
    shown = codes or [exported.card.get(side) for side in ("source", "target")]
    glossary = Glossary(terms_of(lines)) if lines.strip() else None
    try:
        report = translate_files(
            translating(exported, glossary=glossary, **languages),
            [path],
            output,
            {},
            max_line_bytes=exported.max_line_bytes or _MOST_BYTES,
            options=DocumentOptions(shown[1]),
        )
    except InputError as error:
        raise InputError(str(error).replace(str(path), path.name)) from error
    for failure in report.failures.values():
        raise InputError(failure.replace(str(path), path.name))
    if not report.refused:
        return ""
    with open(Path(output, "errors.jsonl"), encoding="utf-8") as file:
        return "\n".join("{where}: {error}".format(**json.loads(line)) for line in file)


def terms_of(lines: str) -> list[str | list[str]]:
    """The terms of lines `source = target`, or of a source alone: what a `Glossary` takes.

    >>> terms_of("Bank = Institut\\n\\nKeras")
    [['Bank', 'Institut'], 'Keras']
    """
    rows = [list(filter(None, map(str.strip, line.split("=", 1)))) for line in lines.splitlines()]
    return [row if len(row) > 1 else row[0] for row in rows if row]
