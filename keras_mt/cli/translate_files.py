"""`keras-mt translate-files`."""

import contextlib
import hashlib
import time

import click

from keras_mt.cli.command import Command
from keras_mt.cli.models import load_translator
from keras_mt.cli.options import given, glossary_option, search_options
from keras_mt.cli.output import progress_bar

# The formats that an option means something for.
_FORMATS_OF = {
    "overwrite": ("po", "xliff"),
    "lang": ("html", "po", "xliff"),
    "markup": ("lines",),
}


@click.command(cls=Command, interrupted="interrupted: give the same command again to go on.")
@click.argument("model", type=click.Path(exists=True), metavar="RUN_DIR_OR_SAVED_MODEL")
@click.argument("output", type=click.Path(file_okay=False), metavar="OUTPUT_DIR")
@click.argument(
    "files",
    type=click.Path(exists=True, dir_okay=False),
    nargs=-1,
    required=True,
    metavar="FILE...",
)
@click.option(
    "--format",
    metavar="NAME",
    help="The format of all FILEs, such as lines.  [default: by the suffix]",
)
@click.option(
    "--part-lines",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Lines that are translated and written together; what is killed loses no more.",
)
@click.option(
    "--overwrite", is_flag=True, help="Translate entries of a catalogue that have a translation."
)
@click.option(
    "--lang",
    metavar="CODE",
    help="The code of the target that documents get, such as de.  [default: the model's]",
)
@search_options
@glossary_option
@click.option(
    "--markup",
    type=click.Choice(["html"]),
    help="Each line of a file of lines is a fragment of HTML.  [default: plain text]",
)
def translate_files(model, output, files, format, part_lines, overwrite, lang, markup, **options):
    """Translate FILEs into OUTPUT_DIR, each under its name.

    Each file is read by its suffix: .txt, or any name with .gz or .zst, has lines, which are
    translated as by `translate`. What is compressed is compressed again.

    A file is written when all of it is translated, and appears whole. Give the same command again
    to go on with what was stopped; until all is done OUTPUT_DIR remembers the model, the options
    and the files, and takes no others. One process writes into a folder; a second one is refused.

    A text that is refused is left empty or as it was, and OUTPUT_DIR/errors.jsonl names it; the
    exit status is then 1. A text of a document whose translation lacks marks is named there, too.

    \b
    keras-mt translate-files runs/en_de translated de.txt
    """
    from keras_mt.documents import DocumentOptions
    from keras_mt.documents import translate_files as translate
    from keras_mt.documents.resumable import formats_of, translating

    if options["n_best"] not in (None, 1):
        raise click.UsageError("--n-best must be 1: each text gets one translation.")
    formats = {*formats_of(files, output, format).values()}
    _check_meant({"overwrite": overwrite, "lang": lang, "markup": markup}, formats)
    start = time.monotonic()
    with contextlib.closing(progress_bar(None)) as bar:
        translator = load_translator(model, options)

        def progress(done, total):
            bar.total = total
            bar.update(done - bar.n)

        report = translate(
            translating(translator, markup),
            files,
            output,
            {"model": translator.fingerprint, "markup": markup},
            hints=_hints(options),
            format=format,
            part_lines=part_lines,
            max_line_bytes=translator.options.max_line_bytes,
            options=DocumentOptions(lang or translator.target_language, overwrite),
            progress=progress,
        )
    _say(report, output, time.monotonic() - start)


def _check_meant(options, formats):
    """Refuses an option that means nothing for any of the files."""
    for name in filter(options.get, options):
        if not formats & {*_FORMATS_OF[name]}:
            raise click.UsageError(
                f"--{name} is for {', '.join(_FORMATS_OF[name])} alone, and no FILE is of these."
            )


def _hints(options):
    """The options that the model's fingerprint depends on, so that an error can name one."""
    hints = given(options)
    for name in ("glossary", "shortlist"):
        if name in hints:
            with open(hints[name], "rb") as file:
                hints[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hints


def _count(number, things):
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def _say(report, output, seconds):
    for name, done in report.items():
        counts = [_count(done[units], units) for units in ("lines", "texts") if units in done]
        counts += [f"{done['refused']:,} refused"] if done["refused"] else []
        counts += [_count(done["warned"], "warnings")] if done["warned"] else []
        click.echo(f"{name}: {', '.join(counts)}", err=True)
    for reason in report.failures.values():
        click.echo(f"refused: {reason}", err=True)
    click.echo(f"wrote {_count(len(report), 'files')} to {output} in {seconds:,.0f} s", err=True)
    refused = bool(report.refused or report.failures)
    if refused or any(done["warned"] for done in report.values()):
        click.echo(f"{output}/errors.jsonl names what was refused or warned of.", err=True)
    if refused:
        raise click.exceptions.Exit(1)
