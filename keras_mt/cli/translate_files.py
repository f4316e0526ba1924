"""`keras-mt translate-files`."""

import time
from pathlib import Path

import click

from keras_mt.cli.command import Command
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import (
    FOLDER,
    MODEL,
    count_option,
    given,
    markup_option,
    option,
    translation_options,
)
from keras_mt.cli.output import confidence_fields
from keras_mt.cli.progress import progress_bar


@click.command(cls=Command, interrupted="interrupted: give the same command again to go on.")
@click.argument("model", type=MODEL)
@click.argument("output", type=FOLDER)
@click.argument(
    "files", type=click.Path(exists=True), nargs=-1, required=True, metavar="FILE_OR_FOLDER..."
)
@option("--format", metavar="FORMAT", help="Read all files in this format.  [default: by suffix]")
@option("--retranslate", is_flag=True, help="Also translate what a catalogue has translations of.")
@option("--report", type=click.Path(dir_okay=False), help="Write the confidence in them here.")
@option(
    "--document-language",
    metavar="CODE",
    help="Mark documents as written in this language.  [default: the model's target]",
)
@markup_option
@translation_options
@count_option(
    "--part-lines", default=1000, help="Write this many lines together: a kill loses no more."
)
def translate_files(model, output, files, report, document_language, markup, **options):
    """Translate documents and files of lines into a folder.

    Each file appears in OUTPUT under its name when all of it is translated. The suffix tells the
    format. A file .txt, or of any name with .gz or .zst, has lines; it is compressed again. A
    folder stands for its files of known formats, which keep their paths.

    Give the same command again to go on after a stop. Until all is done, other models,
    options, files and processes are refused.

    A refused text stays empty or as it was, and makes the exit status 1. OUTPUT/errors.jsonl names
    it, and translations that lack marks.

    \b
    keras-mt translate-files runs/en_de docs_de docs terms.txt
    """
    from keras_mt.documents import translate_files as translate
    from keras_mt.documents.finding import find_files
    from keras_mt.documents.resumable import PARTS
    from keras_mt.files import check_new

    of_files = {name: options.pop(name) for name in ("format", "part_lines", "retranslate")}
    # What this refuses need not wait for the model.
    _, left_out = find_files(files, output, of_files["format"])
    if report and not Path(output, PARTS).exists():  # Else it is that of the same command.
        check_new(report)
    if left_out:
        suffixes = ", ".join(sorted({path.suffix or path.name for path in left_out}))
        number = _count(len(left_out), "files")
        click.echo(f"left out: {number} of no known format ({suffixes})", err=True)
    start = time.monotonic()
    translator = load_translator(model, options)
    glossary = translator.glossary
    terms = None if glossary is None else glossary.fingerprint
    identity = given(options) | {
        "model": translator.fingerprint,
        "glossary": terms,
        "markup": markup,
    }

    confidence = bool(report)
    translator.hypotheses([], confidence=confidence)  # It refuses an export without one.

    def translations(texts):
        results = translator.hypotheses(texts, markup=markup, confidence=confidence)
        best = [found[0] if found else None for found in results]
        measures = [[*map(_confidence, texts, best)]] if report else []
        return [own and own.text for own in best], results.refusals, *measures

    with progress_bar() as progress:
        outcome = translate(
            translations,
            files,
            output,
            identity,
            max_line_bytes=translator.options.max_line_bytes,
            target_language=document_language or translator.target_language,
            report=report,
            progress=progress,
            **of_files,
        )
    _say(outcome, output, time.monotonic() - start)


def _confidence(text, best):
    """The confidence in a translation; None of what passes through, which has no token."""
    passes = best is None or (best.worst_token is None and best.text == text)
    return None if passes else confidence_fields(best)


def _say(report, output, seconds):
    """Prints the outcome; exit status 1 if something was refused."""
    for name, done in report.items():
        units = next(iter(done))
        if units == "error":
            click.echo(f"refused: {done['error']}", err=True)
            continue
        counts = [_count(done[units], units)]
        counts += [f"{done['refused']:,} refused"] if done["refused"] else []
        counts += [_count(done["warned"], "warnings")] if done["warned"] else []
        click.echo(f"{name}: {', '.join(counts)}", err=True)
    number = sum("error" not in done for done in report.values())
    click.echo(f"wrote {_count(number, 'files')} to {output} in {seconds:,.0f} s", err=True)
    refused = any(done.get("error") or done.get("refused") for done in report.values())
    if refused or any(done.get("warned") for done in report.values()):
        click.echo(f"{output}/errors.jsonl names what was refused or warned of.", err=True)
    if refused:
        raise click.exceptions.Exit(1)


def _count(number, things):
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"
