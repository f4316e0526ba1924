"""`keras-mt export`."""

import dataclasses

import click

from keras_mt import convert
from keras_mt.cli.command import Command
from keras_mt.cli.models import load_run
from keras_mt.cli.options import RUN, given, n_best_option, option, options_of, search_options
from keras_mt.cli.progress import suggest, waiting
from keras_mt.convert.formats import FORMATS, ExportOptions, load_format
from keras_mt.convert.hub import local_run
from keras_mt.files import check_new


@click.command(cls=Command)
@click.argument("run", type=RUN)
@click.argument("output", type=click.Path())
@option(
    "--format",
    "name",
    type=click.Choice([*FORMATS]),
    metavar="FORMAT",
    default=next(iter(FORMATS)),
    help="Write " + ", ".join(f"{name} ({engine})" for name, engine in FORMATS.items()) + ".",
)
@options_of(ExportOptions)
@n_best_option
@search_options
def export(run, output, name, **options):
    """Export a run for TensorFlow Serving or another engine.

    OUTPUT is a version folder, such as saved_models/en_de/1; with another --format any folder, and
    with argos a file. It must not exist yet.

    \b
    keras-mt export runs/en_de saved_models/en_de/1
    keras-mt export runs/en_de en_de_ct2 --format ctranslate2 --quantization int8
    keras-mt export runs/en_de en_de.argosmodel --format argos
    keras-mt export runs/en_de en_de_litert --format litert
    """
    options = given(options)
    check_new(output)  # Before anything is loaded.
    declared = load_format(name)
    foreign = [n for n, x in options.items() if n != "architecture" and not declared.takes(n, x)]
    if foreign:
        flags = ", ".join(f"--{each.replace('_', '-')}" for each in foreign)
        raise click.UsageError(f"leave {flags} out: --format {name} has no place for that.")
    names = {field.name for field in dataclasses.fields(ExportOptions)}
    of_format = {each: options.pop(each) for each in names & {*options}}
    if "signatures" in of_format:
        of_format["signatures"] = [x.strip() for x in of_format["signatures"].split(",")]
    run = local_run(run)
    with waiting(f"loading {run}"):
        translator = load_run(run, dtype=None, **options)
    with waiting(f"exporting {output}"):
        convert.export(translator, output, name, **of_format)
    click.echo(f"exported {output}")
    if name in ("saved_model", "litert"):
        codes = translator.source_language, translator.target_language
        suggest(output, translator.card, translator.languages, *codes)
