"""transformers' folders: MarianMT, Pegasus, M2M-100, NLLB and T5 read, the first two written.

No code of a folder is run, and an error names the file or the field that is not understood.
"""

import json
import os
import re

import numpy as np
from safetensors.numpy import save_file

from keras_mt.convert import m2m_100, marian_mt, pegasus, t5, tensors
from keras_mt.convert.formats import FORMATS, check_model
from keras_mt.convert.hub import local_folder
from keras_mt.convert.imports import as_run, as_translator, imported_config
from keras_mt.convert.pretrained import Folder
from keras_mt.convert.weights import read_weights
from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder
from keras_mt.models import Transformer
from keras_mt.options import TranslationOptions
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

# The families by their `model_type`.
FAMILIES = {"marian": marian_mt, "m2m_100": m2m_100, "pegasus": pegasus, "t5": t5, "mt5": t5}
# Fields of config.json: the arguments of Transformer that they give, and transformers' defaults,
# if they are the same for all families.
_FIELDS = {
    "vocab_size": ("vocab_size", None),
    "d_model": ("d_model", 1024),
    "encoder_layers": ("num_encoder_layers", 12),
    "decoder_layers": ("num_decoder_layers", 12),
    "encoder_attention_heads": ("num_encoder_heads", 16),
    "decoder_attention_heads": ("num_decoder_heads", 16),
    "encoder_ffn_dim": ("encoder_d_ff", 4096),
    "decoder_ffn_dim": ("decoder_d_ff", 4096),
    "max_position_embeddings": ("max_length", 1024),
    "pad_token_id": ("padding_id", None),
    "dropout": ("dropout", 0.1),
    "activation_function": ("activation", None),
    "scale_embedding": ("scale_embeddings", None),
    "share_encoder_decoder_embeddings": ("share_embeddings", True),
    "tie_word_embeddings": ("tie_output", True),
}
ARGUMENTS = {field: name for field, (name, _) in _FIELDS.items()}
_ACTIVATIONS = "relu", "gelu", "silu", "swish"
_MAX_POSITIONS = 2**16

# Fields of generation_config.json and the options of a Translator that they give.
GENERATION = {
    "num_beams": "beam_size",
    "num_return_sequences": "n_best",
    "length_penalty": "length_penalty",
    "early_stopping": "early_stopping",
    "min_length": "min_length",
    "repetition_penalty": "repetition_penalty",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "renormalize_logits": "renormalize",
}
# Fields that are not supported: without effect if they are 0, false or empty; the last ones if 1.
_UNSUPPORTED = (
    "do_sample", "diversity_penalty", "encoder_no_repeat_ngram_size", "min_new_tokens",
    "begin_suppress_tokens", "force_words_ids", "constraints", "sequence_bias",
    "exponential_decay_length_penalty", "penalty_alpha", "watermarking_config",
    "forced_decoder_ids", "num_beam_groups", "encoder_repetition_penalty", "guidance_scale",
)  # fmt: skip


_USE = """
```python
from transformers import {model}, AutoTokenizer

model = {model}.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
inputs = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```
"""


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
        ValueError: If the folder is not understood; the message names the file or the field.

    Example:

    >>> translator = from_huggingface("opus-mt-en-de")  # doctest: +SKIP
    >>> translator("The book is on the table.")  # doctest: +SKIP
    'Das Buch liegt auf dem Tisch.'
    """
    return as_translator(*_read(directory, "float32"))


def import_huggingface(directory: str | os.PathLike, run_dir: str | os.PathLike) -> None:
    """Imports a folder of transformers as a run folder, as `keras-mt import` does.

    Weights in half precision are stored in half precision.

    Args:
        directory: As in `from_huggingface`.
        run_dir: The run folder to write; the write is atomic.

    Raises:
        FileExistsError: If the run folder exists.
        OSError, ValueError: As in `from_huggingface`.

    Example:

    >>> import_huggingface("opus-mt-en-de", "runs/opus_en_de")  # doctest: +SKIP
    """
    check_new(run_dir)
    as_run(run_dir, *_read(directory))


def _read(directory, dtype=None):
    folder = Folder(local_folder(directory))
    name = folder.config.get("model_type")
    if name not in FAMILIES:
        raise folder.refuse("model_type", name, f"one of {', '.join(FAMILIES)}")
    family = FAMILIES[name]
    # T5 has other fields, and other names of weights, than those that come from BART.
    arguments = t5.read_arguments(folder) if family is t5 else _arguments(folder, family)
    reader = t5 if family is t5 else tensors
    weights = read_weights(folder.path)
    reader.check_sizes(folder, arguments, weights)
    tokenizer, languages = family.read_tokenizer(folder, arguments)
    generation = _generation(folder, arguments)
    model = reader.read_model(folder, arguments, weights, dtype)
    pair = (
        folder.tokenizer.get(long) or folder.tokenizer.get(short) or ""
        for long, short in (("source_lang", "src_lang"), ("target_lang", "tgt_lang"))
    )
    config = imported_config(folder.path, model, pair, options=languages, generation=generation)
    return model, tokenizer, config


def _arguments(folder, family):
    """The arguments of the model, from config.json."""
    defaults = {field: default for field, (_, default) in _FIELDS.items()} | family.DEFAULTS
    config = defaults | folder.config
    for field, value in family.SWITCHES.items():
        if config.get(field, value) not in (value, None):
            raise folder.refuse(field, config[field], repr(value))
    for field, default in defaults.items():
        folder.check_type(field, config[field], type(default))
    for side in ("encoder", "decoder"):
        heads = config[f"{side}_attention_heads"]
        if heads < 1 or config["d_model"] % heads:
            raise folder.refuse(f"{side}_attention_heads", heads, "a divisor of d_model")
    activation, longest = config["activation_function"], config["max_position_embeddings"]
    if activation not in _ACTIVATIONS:
        raise folder.refuse("activation_function", activation, f"one of {_ACTIVATIONS}")
    if not 0 < longest <= _MAX_POSITIONS:
        raise folder.refuse("max_position_embeddings", longest, f"from 1 to {_MAX_POSITIONS}")
    if not 0 <= config["dropout"] < 1:
        raise folder.refuse("dropout", config["dropout"], "at least 0 and below 1")
    arguments = {name: config[field] for field, name in ARGUMENTS.items()}
    if not arguments["share_embeddings"]:
        size = config.get("decoder_vocab_size") or arguments["vocab_size"]
        arguments["target_vocab_size"] = size
        if arguments["padding_id"] >= size:
            raise folder.refuse("pad_token_id", arguments["padding_id"], f"below {size}")
    return {**arguments, **family.ARGUMENTS}


def _generation(folder, arguments):
    """The options of a `keras_mt.Translator` from generation_config.json."""
    given = folder.generation
    for field in _UNSUPPORTED:
        value = given.get(field)
        if value and not (value == 1 and field in _UNSUPPORTED[-3:]):
            raise folder.refuse_generation(field, given[field], "left out: it is not supported")
    options = {"beam_size": 1, "early_stopping": False, "split_sentences": False}
    options |= {ours: given[field] for field, ours in GENERATION.items() if field in given}
    # transformers' max_length counts the start token too.
    longest = given.get("max_new_tokens") or given.get("max_length", 0) - 1
    if longest > 0:
        options["max_length"] = min(longest, arguments["max_length"])
    try:
        valid = TranslationOptions(**options)
    except ValueError as error:
        fields = [f for f, ours in GENERATION.items() if f in given and ours in str(error)]
        file = folder.path / folder.generation_file(fields[0])
        raise InputError(f"{file}: {', '.join(fields)}: {error}") from None
    longest = valid.max_length or arguments["max_length"]
    if valid.min_length > longest:
        expected = f"at most {longest}, the tokens that max_length allows"
        raise folder.refuse_generation("min_length", valid.min_length, expected)
    if "forced_eos_token_id" in given:
        size = arguments.get("target_vocab_size", arguments["vocab_size"])
        if folder.id("forced_eos_token_id", size) != folder.id("eos_token_id", size):
            raise folder.refuse_generation(
                "forced_eos_token_id", given["forced_eos_token_id"], "eos_token_id"
            )
        options["force_end"] = True
    return options


def to_huggingface(translator: Translator, directory: str | os.PathLike) -> None:
    """Writes a folder that transformers loads, of MarianMT or, if it is pre-norm, of Pegasus.

    Channels of a model with the paper's sinusoids are permuted, since Marian's come in another
    order; what it computes stays the same. The generation config has the options of the search and
    the forbidden ids; its `max_length` is that of the translator, or else of the model, however
    short the source, and one more, since transformers counts the start token too.

    Args:
        translator: A `Translator` of one `Transformer` with a `Tokenizer`, or of a model imported
            from such a folder; without languages.
        directory: The folder to write.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If transformers does not support something in the model or in the search, which
            the message names, or the translator is an ensemble or has a shortlist.

    Example:

    >>> to_huggingface(Translator.load("runs/pt_en"), "pt_en_marian")  # doctest: +SKIP
    """
    check_new(directory)
    FORMATS["huggingface"].check(translator)
    model, tokenizer = translator.models[0], translator.tokenizer
    ours = isinstance(tokenizer, (Tokenizer, PretrainedTokenizer))
    if type(model) is not Transformer or not ours:
        raise InputError(
            "Only a Transformer with a Tokenizer, or an imported model, can be written for "
            f"transformers. Received: {type(model).__name__} and {type(tokenizer).__name__}"
        )
    if tokenizer.languages:
        raise InputError(
            "A model of several languages cannot be written for transformers: MarianMT and Pegasus "
            "have none."
        )
    arguments = _arguments_of(model)
    name = "pegasus" if arguments["pre_norm"] else "marian"
    family = FAMILIES[name]
    # Sinusoids are the same, permuted.
    known = {"positions": ("marian", "sinusoidal"), "final_norm": (arguments["pre_norm"],)}
    if family is pegasus:
        known["share_embeddings"] = (True,)
    check_model(family.NAME, arguments, known)
    weights = tensors.tensors_of(model)
    if "final_logits_bias" not in weights:
        weights["final_logits_bias"] = np.zeros((1, arguments["target_vocab_size"]), "float32")
    config = _config(name, arguments, tokenizer)
    files = marian_mt.tokenizer_files(translator) | {
        "config.json": config,
        "generation_config.json": _generation_config(translator),
        "README.md": _readme(translator.card, config).encode(),
    }
    with new_folder(directory) as folder:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        for name, content in files.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
                (folder / name).write_text(text, encoding="utf-8")


def _arguments_of(model):
    """The arguments of a Transformer, with what None stands for."""
    config = model.get_config()
    common = {"target_vocab_size": config["vocab_size"], "final_norm": config["pre_norm"]}
    for side in ("encoder", "decoder"):
        common[f"num_{side}_layers"] = config["num_layers"]
        common[f"num_{side}_heads"] = config["num_heads"]
        common[f"{side}_d_ff"] = config["d_ff"]
    return config | {n: x for n, x in common.items() if config[n] is None}


def _config(name, arguments, tokenizer):
    """The fields of config.json."""
    return {
        "model_type": name,
        "architectures": [FAMILIES[name].CLASS],
        **{field: arguments[ours] for field, ours in ARGUMENTS.items()},
        **FAMILIES[name].SWITCHES,
        "decoder_vocab_size": arguments["target_vocab_size"],
        "is_encoder_decoder": True,
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


def _generation_config(translator):
    """The fields of generation_config.json."""
    options, tokenizer = translator.options, translator.tokenizer
    forced = tokenizer.forced_ids(None)
    return {
        **_ids(tokenizer),
        **{field: getattr(options, ours) for field, ours in GENERATION.items()},
        **({"forced_eos_token_id": tokenizer.eos_id} if options.force_end else {}),
        **({} if forced is None else {"forced_bos_token_id": int(forced[0, 0])}),
        # transformers counts the start token too.
        "max_length": (translator.max_length or translator.models[0].max_length) + 1,
        "bad_words_ids": [[i] for i in tokenizer.forbidden_ids],
    }


def _license(name):
    """The lines of a model card: the hub takes its own ids, and other names apart."""
    if re.fullmatch(r"[\w.+-]+", name):
        return [f"license: {name.lower()}"]
    return ["license: other", f"license_name: {json.dumps(name, ensure_ascii=False)}"]


def _readme(card, config):
    """The model card."""
    languages = [card[side] for side in ("source", "target") if card.get(side)]
    header = [
        "---",
        *(["language:", *(f"- {language}" for language in languages)] if languages else []),
        "tags:", "- translation", f"- {config['model_type']}",
        *(_license(card["license"]) if "license" in card else []),
        "---",
    ]  # fmt: skip
    pair = f" from {languages[0]} to {languages[1]}" if len(languages) == 2 else ""
    lines = [*header, "", f"# A translator{pair}", "", "Written by keras_mt."]
    if card.get("data"):
        data = card["data"] if isinstance(card["data"], list) else [card["data"]]
        lines += ["", f"Data: {', '.join(data)}."]
    if "validation" in card:
        measured = ", ".join(f"{name} {value}" for name, value in card["validation"].items())
        lines += ["", f"On its validation set: {measured}."]
    lines.append(_USE.format(model=config["architectures"][0]))
    return "\n".join(lines)
