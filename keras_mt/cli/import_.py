"""`keras-mt import`."""

import click

from keras_mt.cli.command import Command
from keras_mt.files import check_new


@click.command("import", cls=Command)
@click.argument("directory", type=click.Path())
@click.argument("run_dir", type=click.Path())
def import_(directory, run_dir):
    """Import a folder of transformers or of Marian itself as a run folder.

    DIRECTORY is a folder as Hugging Face transformers writes it or, where huggingface_hub is
    installed, the name of a model on the hub: MarianMT (OPUS-MT), M2M-100, SMaLL-100, NLLB, T5,
    mT5 or MADLAD-400; or a folder with Marian's own files, such as Firefox's models. No code in it
    is run. The command first prints the license and the languages that the model card names. By
    default the run folder translates with the options of generation_config.json, or of Marian's
    decoder. It can be evaluated, exported and fine-tuned (`train --init RUN_DIR`).

    \b
    keras-mt import opus-mt-en-de runs/opus_en_de
    """
    from keras_mt.convert import import_model
    from keras_mt.convert.card import read_card
    from keras_mt.convert.hub import local_folder

    check_new(run_dir)
    folder = local_folder(directory)
    click.echo(read_card(folder))
    import_model(folder, run_dir)
    click.echo(f"imported {directory} into {run_dir}")
