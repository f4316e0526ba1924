"""`keras-mt export`."""

import json

import click

from keras_mt.cli.errors import Command
from keras_mt.cli.lines import check_standard_input, read_lines
from keras_mt.cli.models import load_run
from keras_mt.cli.options import flags, search_options
from keras_mt.errors import InputError
from keras_mt.options import QUANTIZATIONS


@click.command(cls=Command)
@click.argument("run_dir", type=click.Path(exists=True))
@click.argument("saved_model_dir", type=click.Path())
@search_options
@click.option(
    "--format",
    "format_",
    type=click.Choice(["saved_model", "ctranslate2", "huggingface", "litert", "onnx"]),
    default="saved_model",
    show_default=True,
    help="What to write: a SavedModel, a folder for CTranslate2, a MarianMT for transformers, or "
    "a model from ids to ids for LiteRT (search included) or ONNX (encoder and decoder step).",
)
@click.option(
    "--quantization",
    type=click.Choice(QUANTIZATIONS),
    help="How --format ctranslate2 stores the weights; --format litert takes only int8.  "
    "[default: float32]",
)
@click.option(
    "--dtype",
    type=click.Choice(["float32", "bfloat16", "float16"]),
    default="float32",
    show_default=True,
    help="Dtype of the weights and of the computation.",
)
@click.option(
    "--freeze",
    is_flag=True,
    help="Write the weights as constants: faster, above all with bfloat16 and small batches, but "
    "takes more memory.",
)
@click.option(
    "--confidence",
    is_flag=True,
    help="Also write a signature `confidence`: translations with measures of confidence.",
)
@click.option(
    "--card",
    type=click.File("rb"),
    metavar="FILE",
    help="JSON object with fields for the model card, such as license.",
)
@click.option(
    "--warmup-texts",
    type=click.File("rb"),
    metavar="FILE",
    help="Sentences, one per line, for the warm-up requests.  [default: the tokenizer's words]",
)
def export(
    run_dir,
    saved_model_dir,
    format_,
    quantization,
    dtype,
    freeze,
    confidence,
    card,
    warmup_texts,
    **search,
):
    """Export a run as a SavedModel: strings in, beam-searched translations out.

    SAVED_MODEL_DIR is a version folder, such as saved_models/en_de/1. With another --format it is
    any folder. It must not exist yet.

    \b
    keras-mt export runs/en_de saved_models/en_de/1
    keras-mt export runs/en_de en_de_ct2 --format ctranslate2 --quantization int8
    keras-mt export runs/en_de en_de_marian --format huggingface
    keras-mt export runs/en_de en_de_litert --format litert --quantization int8 --beam-size 1
    keras-mt export runs/en_de en_de_onnx --format onnx
    """
    if quantization and format_ not in ("ctranslate2", "litert"):
        raise click.UsageError("--quantization goes with --format ctranslate2 or litert.")
    if format_ != "saved_model":
        if freeze or confidence or warmup_texts or card or dtype != "float32":
            raise click.UsageError(
                "--dtype, --freeze, --confidence, --card and --warmup-texts do not go with "
                f"--format {format_}: leave them out."
            )
        kept = ("ensemble", "architecture", "shortlist", "source_language", "target_language")
        if format_ in ("ctranslate2", "onnx") and (given := flags(search, kept)):
            raise click.UsageError(
                f"--format {format_} has no search inside: leave {given} out, and give them to "
                "what searches."
            )
        from keras_mt import convert
        from keras_mt.files import check_new

        check_new(saved_model_dir)  # Before anything is loaded.
        translator = load_run(run_dir, dtype=None, **search)
        options = {"quantization": quantization} if quantization else {}
        getattr(convert, f"to_{format_}")(translator, saved_model_dir, **options)
        click.echo(f"exported {saved_model_dir}")
        return
    from keras_mt.serving.export import check_absent

    check_standard_input(card, warmup_texts)
    check_absent(saved_model_dir)  # Before anything is loaded.
    card = _json_object(card) if card else None
    warmup_texts = read_lines(warmup_texts) if warmup_texts else None
    translator = load_run(run_dir, dtype=None, **search)
    translator.export(
        saved_model_dir,
        dtype=dtype,
        freeze=freeze,
        confidence=confidence,
        card=card,
        warmup_texts=warmup_texts,
    )
    click.echo(f"exported {saved_model_dir}")


def _json_object(file):
    try:
        value = json.load(file)
    except ValueError as error:
        raise InputError(f"{file.name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f'{file.name} must hold a JSON object, such as {{"license": "MIT"}}.')
    return value
