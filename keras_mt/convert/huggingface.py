"""transformers' folders: MarianMT, Pegasus, M2M-100, NLLB and T5 read, the first two written.

No code of a folder is run, and an error names the file or the field that is not understood.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import keras
import numpy as np
from safetensors.numpy import save_file

from keras_mt.convert import families
from keras_mt.convert.card import Pretrained
from keras_mt.convert.fields import check_search, check_sizes, refusal
from keras_mt.convert.folder import Folder, is_id
from keras_mt.convert.formats import ModelFormat, check_model
from keras_mt.convert.weights import read_weights
from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.models import Transformer, ensure_built
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

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
FORMAT = ModelFormat(
    "transformers",
    {*GENERATION.values(), "max_length", "force_end"},
    early_stopping=(True, False, "never"),
)
# The families that are written, by whether they normalise first: `model_type`, the name that
# messages have, and the model's name in transformers.
_WRITTEN = {
    False: ("marian", "MarianMT", "MarianMTModel"),
    True: ("pegasus", "Pegasus", "PegasusForConditionalGeneration"),
}


def read(path: Path, dtype: str | None = None) -> Pretrained:
    """Reads a folder; the dtype is that of the weights if None is given."""
    folder = Folder(path)
    name = folder.config.get("model_type")
    if not isinstance(name, str) or name not in families.FAMILIES:
        raise folder.refuse("model_type", name, f"one of {', '.join(families.FAMILIES)}")
    family = folder.fields(families.FAMILIES[name], "config.json")
    weights = read_weights(folder.path)
    stored = weights.dtype(family.spare)
    if stored == "float16" and not family.takes_float16:
        raise InputError(
            f"{folder.path}: the weights of {name} must be bfloat16 or float32, since what it "
            "computes is too large for float16. Received: float16"
        )
    arguments = _arguments(folder, family, weights)
    tokenizer, languages = family.read_tokenizer(folder, arguments)
    generation = _generation(folder, arguments)
    model = ensure_built(Transformer(**arguments, dtype=dtype or stored))
    weights.fill(model, family.names_of, family.spare)
    config = folder.tokenizer
    pair = config.source_lang or config.src_lang, config.target_lang or config.tgt_lang
    return Pretrained(model, tokenizer, *pair, generation, languages)


def _arguments(folder, family, weights):
    """The arguments of the model: sizes are those of the weights, and so is what they share."""
    sizes = family.sizes(weights)
    check_sizes(folder.config, sizes, folder.path / "config.json")
    shared = {"share_embeddings": True, "tie_output": True}
    arguments = shared | family.arguments(folder, sizes, weights)
    rows = min(sizes["vocab_size"], sizes.get("decoder_vocab_size", sizes["vocab_size"]))
    if not is_id(family.pad_token_id, rows):
        raise folder.refuse("pad_token_id", family.pad_token_id, f"a token id, below {rows}")
    # Tensors that differ in the file are not shared, whatever config.json says: transformers issue
    # 45005.
    source, target, head = (
        weights.first(names)[1] for names in (families.SOURCE, families.TARGET, families.OUTPUT)
    )
    arguments["share_embeddings"] = arguments["share_embeddings"] and _equal(source, target)
    arguments["tie_output"] = arguments["tie_output"] and _equal(head, target)
    return arguments


def _equal(one, other):
    return one is other or np.array_equal(np.asarray(one), np.asarray(other))


def _generation(folder, arguments):
    """The options of a `keras_mt.Translator` from generation_config.json."""
    given, file = folder.generation, folder.generation_file
    options = {ours: getattr(given, field) for field, ours in GENERATION.items()}
    options["split_sentences"] = False
    limit = arguments["max_length"]
    # transformers' max_length counts the start token too.
    longest = given.max_new_tokens or given.max_length - 1
    if longest > 0:
        options["max_length"] = min(longest, limit)
    check_search(options, GENERATION, file)
    longest = options.get("max_length", limit)
    if given.min_length > longest:
        expected = f"at most {longest}, the tokens that max_length allows"
        raise refusal(file, "min_length", given.min_length, expected)
    if given.forced_eos_token_id is not None:
        size = arguments.get("target_vocab_size", arguments["vocab_size"])
        end = folder.token_id("eos_token_id", size)
        if folder.token_id("forced_eos_token_id", size) != end:
            raise refusal(file, "forced_eos_token_id", given.forced_eos_token_id, str(end))
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
    FORMAT.check(translator, directory)
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
    model_type, title, model_class = _WRITTEN[arguments["pre_norm"]]
    # Sinusoids are the same, permuted.
    known = {"positions": ("marian", "sinusoidal"), "final_norm": (arguments["pre_norm"],)}
    if model_type == "pegasus":
        known["share_embeddings"] = (True,)
    check_model(title, arguments, known)
    weights = _weights_of(model)
    weights.setdefault(families.BIAS, np.zeros((1, arguments["target_vocab_size"]), "float32"))
    config = {
        "model_type": model_type,
        "architectures": [model_class],
        **{field: arguments[ours] for field, ours in (families.SIZES | families.ARGUMENTS).items()},
        "normalize_before": arguments["pre_norm"],
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "dtype": "float32",
        **_ids(tokenizer),
    }
    models, files = _tokenizer_files(translator)
    files |= {"config.json": config, "generation_config.json": _generation_config(translator)}
    readme = _readme(translator.card, model_type, model_class)
    with new_folder(directory) as folder:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        for side, content in zip(("source", "target"), models, strict=True):
            (folder / f"{side}.spm").write_bytes(content)
        for name, content in files.items():
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "README.md").write_text(readme, encoding="utf-8")


def _arguments_of(model):
    """The arguments of a Transformer, with what None stands for."""
    config = model.get_config()
    common = {"target_vocab_size": config["vocab_size"], "final_norm": config["pre_norm"]}
    for side in ("encoder", "decoder"):
        common[f"num_{side}_layers"] = config["num_layers"]
        common[f"num_{side}_heads"] = config["num_heads"]
        common[f"{side}_d_ff"] = config["d_ff"]
    return config | {n: x for n, x in common.items() if config[n] is None}


def _weights_of(model):
    """The weights by transformers' names; float16 stays float16.

    For the paper's sinusoids the channels are permuted: transformers' sines come first.
    """
    config, order = model.get_config(), np.arange(model.d_model)
    if config["positions"] == "sinusoidal":
        order = np.concatenate([order[0::2], order[1::2]])
    weights = {}
    for variable in model.weights:
        place, _, last = variable.path.rpartition("/")
        half = keras.backend.standardize_dtype(variable.dtype) == "float16"
        values = variable if half else keras.ops.cast(variable, "float32")
        values = keras.ops.convert_to_numpy(values)
        inward = place.endswith(("query", "key", "value", "inner"))
        if last != "logits_bias" and not (inward and last == "bias"):
            # The columns of embeddings and of kernels whose output is d_model wide; else the rows.
            axis = 0 if inward or values.ndim == 1 or last == "reverse_embeddings" else 1
            values = values.take(order, axis)
        (name, *_), transposed = families.Bart.names_of(variable.path)
        if place == "embedding/embedding" and last == "embeddings":
            name = families.SHARED
        if name == families.BIAS:
            values = values[None]
        elif name != families.HEAD:
            name = f"model.{name}"
        weights[name] = np.ascontiguousarray(values.T if transposed else values)
    if families.HEAD in weights and config["share_embeddings"]:
        # transformers looks for embeddings that are not tied throughout by each of their names.
        weights |= dict.fromkeys(
            (f"model.{side}" for side in families.SIDES), weights[f"model.{families.SHARED}"]
        )
    return weights


def _tokenizer_files(translator: Translator) -> tuple[list[bytes], dict[str, dict[str, Any]]]:
    """The SentencePiece models of both sides, and the tokenizer's other files by name."""
    tokenizer = translator.tokenizer
    if isinstance(tokenizer, Tokenizer):
        names = {tokenizer.unknown_id: "<unk>", tokenizer.padding_id: "<pad>"}
        pieces = tokenizer.id_to_string(range(tokenizer.vocab_size)).numpy()
        models = [tokenizer.model]
        tables = [[names.get(i, piece.decode("utf-8")) for i, piece in enumerate(pieces)]]
    else:
        models, tables = tokenizer.models, tokenizer.settings["pieces"]
    files = {
        name: {piece: i for i, piece in enumerate(table) if piece}
        for name, table in zip(("vocab.json", "target_vocab.json"), tables, strict=False)
    }
    files["tokenizer_config.json"] = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": translator.card.get("source"),
        "target_lang": translator.card.get("target"),
        "separate_vocabs": len(tables) > 1,
        "model_max_length": translator.models[0].max_length,
    }
    return [models[0], models[-1]], files


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
        "max_length": (options.max_length or translator.models[0].max_length) + 1,
        "bad_words_ids": [[i] for i in tokenizer.forbidden_ids],
    }


_README = """\
---
{header}
---

# A translator{pair}

Written by keras_mt.

```python
from transformers import {model_class}, AutoTokenizer

model = {model_class}.from_pretrained(".")
tokenizer = AutoTokenizer.from_pretrained(".")
inputs = tokenizer(["A sentence."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```
"""


def _readme(card, model_type, model_class):
    """The model card."""
    languages = [card[side] for side in ("source", "target") if card.get(side)]
    header = {"language": languages, "tags": ["translation", model_type]}
    if license := card.get("license"):
        # The hub takes its own ids, and other names apart.
        known = re.fullmatch(r"[\w.+-]+", license)
        other = {"license": "other", "license_name": license}
        header |= {"license": license.lower()} if known else other
    lines = [f"{field}: {json.dumps(x, ensure_ascii=False)}" for field, x in header.items() if x]
    return _README.format(
        header="\n".join(lines),
        pair=f" from {languages[0]} to {languages[1]}" if len(languages) == 2 else "",
        model_class=model_class,
    )
