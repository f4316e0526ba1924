"""Export of a Transformer as a folder that transformers loads as MarianMT."""

import json
import os

import keras
import numpy as np

from keras_mt.convert.huggingface import ARGUMENTS, GENERATION, names_of
from keras_mt.convert.ids import check_no_shortlist
from keras_mt.convert.weights import write_safetensors
from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder
from keras_mt.models import Transformer
from keras_mt.text import Tokenizer
from keras_mt.translation import Translator

# Options that MarianMT has no switch for, and the only values that it knows.
_FIXED = {
    "pre_norm": False,
    "norm": "layer",
    "positions": "sinusoidal",
    "gated": False,
    "num_key_value_heads": None,
    "encoder_sublayers": None,
    "decoder_sublayers": None,
}


def to_huggingface(translator: Translator, directory: str | os.PathLike) -> None:
    """Writes a folder that `transformers.MarianMTModel` and `MarianTokenizer` load.

    The model's channels are permuted, since Marian's sinusoids come in another order; what it
    computes stays the same. The generation config has the options of the search and the forbidden
    ids; its `max_length` is that of the translator, or else of the model, however short the source,
    and one more, since transformers counts the start token too.

    Args:
        translator: A `Translator` of one `Transformer` with a `Tokenizer`.
        directory: The folder to write.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If MarianMT does not support something in the model or in the search, which the
            message names, or the translator is an ensemble or has a shortlist.

    Example:

    >>> to_huggingface(Translator.load("runs/pt_en"), "pt_en_marian")  # doctest: +SKIP
    """
    check_new(directory)
    model, tokenizer = translator.models[0], translator.tokenizer
    if len(translator.models) > 1:
        raise InputError(f"MarianMT has no ensembles. Received: {len(translator.models)} models")
    if type(model) is not Transformer or not isinstance(tokenizer, Tokenizer):
        raise InputError(
            "Only a Transformer with a Tokenizer can be written as a MarianMT. "
            f"Received: {type(model).__name__} and {type(tokenizer).__name__}"
        )
    check_no_shortlist(translator, "MarianMT")
    options = translator.options
    for name, value in {"temperature": None, "patience": 1}.items():
        if getattr(options, name) != value:
            raise InputError(
                f"A MarianMT folder's generation config knows only {name}={value}. "
                f"Received: {getattr(options, name)}"
            )
    config = model.get_config()
    for name, value in _FIXED.items():
        if config[name] != value:
            raise InputError(f"MarianMT knows only {name}={value!r}. Received: {config[name]!r}")
    with new_folder(directory) as folder:
        write_safetensors(folder / "model.safetensors", _weights(model))
        for side in ("source", "target"):
            (folder / f"{side}.spm").write_bytes(tokenizer.model)
        pieces = tokenizer.id_to_string(range(tokenizer.vocab_size)).numpy()
        names = {"<unk>": tokenizer.unknown_id, "<pad>": tokenizer.padding_id}
        vocabulary = {piece.decode("utf-8"): i for i, piece in enumerate(pieces)} | names
        files = {
            "vocab.json": vocabulary,
            "tokenizer_config.json": {
                "tokenizer_class": "MarianTokenizer",
                "source_lang": translator.card.get("source"),
                "target_lang": translator.card.get("target"),
                "model_max_length": model.max_length,
            },
            "config.json": _config(config, tokenizer),
            "generation_config.json": _generation(translator, tokenizer),
        }
        for name, values in files.items():
            text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "README.md").write_text(_card(translator.card), encoding="utf-8")


def _config(config, tokenizer):
    sizes = {
        "num_encoder_layers": config["num_encoder_layers"] or config["num_layers"],
        "num_decoder_layers": config["num_decoder_layers"] or config["num_layers"],
        "num_encoder_heads": config["num_heads"],
        "num_decoder_heads": config["num_heads"],
        "encoder_d_ff": config["d_ff"],
        "decoder_d_ff": config["d_ff"],
        "scale_embeddings": True,
    }
    fields = {field: {**config, **sizes}[ours] for field, ours in ARGUMENTS.items()}
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **fields,
        "decoder_vocab_size": config["vocab_size"],
        "is_encoder_decoder": True,
        "static_position_embeddings": True,
        "dtype": "float32",
        **_ids(tokenizer),
    }


def _ids(tokenizer):
    return {
        "pad_token_id": tokenizer.padding_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "decoder_start_token_id": tokenizer.bos_id,
    }


def _generation(translator, tokenizer):
    options = translator.options
    return {
        **_ids(tokenizer),
        **{field: getattr(options, ours) for field, ours in GENERATION.items()},
        **({"forced_eos_token_id": tokenizer.eos_id} if options.force_end else {}),
        # transformers counts the start token too.
        "max_length": (translator.max_length or translator.models[0].max_length) + 1,
        "bad_words_ids": [[i] for i in tokenizer.forbidden_ids],
    }


def _weights(model):
    """The weights by transformers' names, permuted so that sines come before cosines."""
    width = model.d_model
    order = np.concatenate([np.arange(0, width, 2), np.arange(1, width, 2)])
    tensors = {
        "final_logits_bias": np.zeros((1, model.vocab_size), "float32"),
    }
    for variable in model.weights:
        place, _, last = variable.path.rpartition("/")
        values = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        inward = place.endswith(("query", "key", "value", "inner"))
        if not (inward and last == "bias"):
            # The columns of embeddings and of kernels whose output is d_model wide; else the rows.
            axis = 0 if inward or values.ndim == 1 or last == "reverse_embeddings" else 1
            values = values.take(order, axis)
        if last in ("kernel", "reverse_embeddings"):
            values = values.T
        tensors[_full_name(variable.path)] = values
    return tensors


def _full_name(path):
    names, last = names_of(path)
    last = "bias" if last in ("bias", "beta") else "weight"
    return f"{'' if names[0] == 'lm_head' else 'model.'}{names[0]}.{last}"


def _card(card):
    """A model card."""
    languages = [card[side] for side in ("source", "target") if side in card]
    header = [
        "---",
        *(["language:", *(f"- {language}" for language in languages)] if languages else []),
        "tags:", "- translation", "- marian",
        *([f"license: {card['license'].lower()}"] if "license" in card else []),
        "---",
    ]  # fmt: skip
    pair = f" from {languages[0]} to {languages[1]}" if len(languages) == 2 else ""
    lines = [*header, "", f"# A translator{pair}", "", "Trained with keras_mt."]
    if "data" in card:
        data = card["data"] if isinstance(card["data"], list) else [card["data"]]
        lines += ["", f"Data: {', '.join(data)}."]
    if "validation" in card:
        measured = ", ".join(f"{name} {value}" for name, value in card["validation"].items())
        lines += ["", f"On its validation set: {measured}."]
    lines += [
        "",
        "```python",
        "from transformers import MarianMTModel, MarianTokenizer",
        "",
        'model = MarianMTModel.from_pretrained(".")',
        'tokenizer = MarianTokenizer.from_pretrained(".")',
        'inputs = tokenizer(["A sentence."], return_tensors="pt", padding=True)',
        "print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))",
        "```",
    ]
    return "\n".join(lines) + "\n"
