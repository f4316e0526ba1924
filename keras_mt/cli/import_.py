"""`keras-mt import`."""

import click

from keras_mt.cli.command import Command
from keras_mt.cli.progress import quiet_option, suggest_run, waiting
from keras_mt.files import check_new


@click.command("import", cls=Command)
@click.argument("folder", type=click.Path())
@click.argument("output", type=click.Path())
@quiet_option
def import_(folder, output):
    """Import a model of transformers or Marian as a run.

    FOLDER is as Hugging Face transformers writes it, or the name of a model on the hub: MarianMT
    (OPUS-MT), M2M-100, SMaLL-100, NLLB, T5, mT5 or MADLAD-400; or it has Marian's own files, as
    Firefox's models have. No code in it is run.

    The command first prints the license and the languages that the model card names. The run
    translates with FOLDER's own decoding options unless told otherwise. You can evaluate and export
    it, and fine-tune it with `keras-mt train --init`.

    \b
    keras-mt import opus-mt-en-de runs/opus_en_de
    keras-mt import Helsinki-NLP/opus-mt-en-de runs/opus_en_de
    """
    from keras_mt.convert import import_model
    from keras_mt.convert.card import read_card
    from keras_mt.convert.hub import local_folder

    check_new(output)
    local = local_folder(folder)
    click.echo(read_card(local))
    with waiting(f"importing {folder}"):
        import_model(local, output)
    click.echo(f"imported {folder} into {output}")
    suggest_run(output)
