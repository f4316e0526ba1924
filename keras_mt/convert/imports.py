"""Imports of pretrained models, as a translator or as a run folder."""

import os
from pathlib import Path

from keras_mt.convert import huggingface, marian_reader
from keras_mt.convert.card import read_card
from keras_mt.convert.hub import local_folder
from keras_mt.files import check_new, new_folder
from keras_mt.options import TrainingOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.translation import Translator


def from_huggingface(directory: str | os.PathLike) -> Translator:
    """Loads a translator from a MarianMT, M2M-100, NLLB or T5 folder, as transformers writes it.

    It decodes with the options of the folder's generation_config.json, and translates each line as
    a whole, as transformers does. `translator.with_options(split_sentences=True)` translates
    sentence by sentence.

    Args:
        directory: The folder, with config.json, the weights (model.safetensors, which may be
            sharded, or pytorch_model.bin) and the tokenizer's files; or, if huggingface_hub is
            installed, the name of a model on the hub, such as `Helsinki-NLP/opus-mt-en-de`.

    Returns:
        A `keras_mt.Translator`, which computes in float32.

    Raises:
        FileNotFoundError: If a file is missing; the message says which.
        OSError: If a model cannot be fetched from the hub; the message says why.
        ImportError: If a name is given, and huggingface_hub is not installed.
        ValueError: If the folder is not understood; the message names the file or the field.

    Example:

    >>> translator = from_huggingface("opus-mt-en-de")  # doctest: +SKIP
    >>> translator("The book is on the table.")  # doctest: +SKIP
    'Das Buch liegt auf dem Tisch.'
    """
    return _translator(huggingface, local_folder(directory))


def from_marian(directory: str | os.PathLike) -> Translator:
    """Loads a translator from a folder with Marian's own files.

    Args:
        directory: The folder: a model, `.npz` or `.bin`; its vocabularies, one `.spm` file or one
            for each side, or YAML beside `source.spm` and `target.spm`; and where there is one, the
            configuration of the decoder, `*decoder.yml` or `config*.yml`. Each may be
            `.gz` or `.zst`.

    Returns:
        A `keras_mt.Translator`, which computes in float32, and searches as the configuration of the
        decoder says, or by Marian's defaults.

    Raises:
        FileNotFoundError: If a file is missing; the message says which.
        ValueError: If the folder is not understood; the message names the file and the field.

    Example:

    >>> translator = from_marian("firefox/enru")  # doctest: +SKIP
    >>> translator("The book is on the table.")  # doctest: +SKIP
    'Книга лежит на столе.'
    """
    return _translator(marian_reader, Path(directory))


def import_model(directory: str | os.PathLike, run_dir: str | os.PathLike) -> None:
    """Imports a folder of transformers or with Marian's own files as a run folder.

    This is `keras-mt import`. Weights in half precision are stored in half precision.

    Args:
        directory: As in `from_huggingface` or `from_marian`.
        run_dir: The run folder to write; the write is atomic.

    Raises:
        FileExistsError: If the run folder exists.
        OSError, ValueError: As in `from_huggingface` and `from_marian`.

    Example:

    >>> import_model("opus-mt-en-de", "runs/opus_en_de")  # doctest: +SKIP
    """
    check_new(run_dir)
    path = local_folder(directory)
    reader = marian_reader if marian_reader.has_model(path) else huggingface
    read = reader.read(path)
    config = RunConfig(
        [],
        read.source,
        read.target,
        TrainingOptions(**read.languages),
        license=read_card(path).license,
        model_config=read.model.get_config(),
        generation=read.generation,
    )
    with new_folder(run_dir) as temporary:
        folder = RunFolder(temporary)
        folder.save_tokenizer(read.tokenizer)
        read.model.save(folder.model_file)
        folder.write_config(config)


def _translator(reader, path):
    """The translator of a folder."""
    read = reader.read(path, "float32")
    translator = Translator(read.model, read.tokenizer, **read.generation, **read.languages)
    card = {"source": read.source, "target": read.target, "license": read_card(path).license}
    translator.card = {name: value for name, value in card.items() if value}
    return translator
