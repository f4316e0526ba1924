"""transformers' folders: MarianMT, M2M-100, NLLB and T5 read, the first written.

No code of a folder is run, and an error names the file or the field that is not understood.
"""

import dataclasses
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
from keras_mt.convert.fields import refusal
from keras_mt.convert.folder import SEARCH, Folder, is_id
from keras_mt.convert.formats import ModelFormat, check_model
from keras_mt.convert.weights import read_weights
from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "transformers",
    {*(option for option, _ in SEARCH.values()), "max_length", "force_end"},
    early_stopping=(True, False, "never"),
)


def read(path: Path, dtype: str | None = None) -> Pretrained:
    """Reads a folder; the dtype is that of the weights if None is given."""
    folder = Folder(path)
    name = folder.config.get("model_type")
    if not isinstance(name, str) or name not in families.FAMILIES:
        raise folder.refuse("model_type", name, f"one of {', '.join(families.FAMILIES)}")
    family = folder.fields(families.FAMILIES[name], "config.json")
    weights = read_weights(folder.path)
    stored = weights.dtype()
    arguments = {"share_embeddings": True, "tie_output": True} | family.arguments(weights)
    rows = min(arguments["vocab_size"], arguments["target_vocab_size"])
    if not is_id(family.pad_token_id, rows):
        raise folder.refuse("pad_token_id", family.pad_token_id, f"a token id, below {rows}")
    if stored == "float16" and not arguments.get("scale_attention", True):
        stored = "float32"  # T5's values are too large for float16.
    # Tensors that differ in the file are not shared, whatever config.json says: transformers issue
    # 45005.
    source, target, head = (
        weights.first(names)[1] for names in (families.SOURCE, families.TARGET, families.OUTPUT)
    )
    arguments["share_embeddings"] &= np.array_equal(source, target)
    arguments["tie_output"] &= np.array_equal(head, target)
    # The model first, whose sizes are checked.
    model = weights.transformer(arguments, family.names_of, dtype or stored)
    tokenizer, languages = family.read_tokenizer(folder)
    generation = _generation(folder, arguments)
    config = folder.tokenizer
    pair = config.source_lang or config.src_lang, config.target_lang or config.tgt_lang
    return Pretrained(model, tokenizer, *pair, generation, languages)


def _generation(folder, arguments):
    """The options of a `keras_mt.Translator` from generation_config.json."""
    given, file = folder.generation, folder.generation_file
    options = {**folder.search, "split_sentences": False}
    limit = arguments["max_length"]
    # transformers' max_length counts the start token too.
    longest = given.max_new_tokens or given.max_length - 1
    if longest > 0:
        limit = min(longest, limit)
        options["max_length"] = limit
    if options["min_length"] > limit:
        raise refusal(file, "min_length", options["min_length"], f"at most {limit}")
    if given.forced_eos_token_id is not None:
        size = arguments["target_vocab_size"]
        end = folder.token_id("eos_token_id", size)
        if folder.token_id("forced_eos_token_id", size) != end:
            raise refusal(file, "forced_eos_token_id", given.forced_eos_token_id, str(end))
        options["force_end"] = True
    return options


def to_huggingface(translator: Translator, directory: str | os.PathLike) -> None:
    """Writes a folder of MarianMT, from a post-norm Transformer or an imported MarianMT.

    `max_length` of the generation config is that of the translator, or else of the model.
    """
    FORMAT.check(translator, directory)
    model, tokenizer = translator.models[0], translator.tokenizer
    if tokenizer.languages or not isinstance(tokenizer, (Tokenizer, PretrainedTokenizer)):
        raise InputError(
            "MarianMT takes a Tokenizer, or that of an imported MarianMT, and none of several "
            f"languages. Received: {tokenizer.description}"
        )
    # Sinusoids are the same, permuted.
    known = {"positions": ("marian", "sinusoidal"), "pre_norm": (False,)}
    check_model("MarianMT", model, known | {"final_norm": (None, False)})
    arguments = _arguments_of(model)
    weights = _weights_of(model)
    weights.setdefault(families.BIAS, np.zeros((1, arguments["target_vocab_size"]), "float32"))
    ids = {
        "pad_token_id": tokenizer.padding_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "decoder_start_token_id": tokenizer.bos_id,
    }
    models, files = _tokenizer_files(translator)
    files["config.json"] = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        **{x.name: arguments[x.metadata["argument"]] for x in dataclasses.fields(families.Bart)},
        "normalize_before": False,
        "static_position_embeddings": True,
        "is_encoder_decoder": True,
        "dtype": "float32",
        **ids,
    }
    files["generation_config.json"] = ids | _generation_config(translator)
    with new_folder(directory) as folder:
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        for side, content in zip(("source", "target"), models, strict=True):
            (folder / f"{side}.spm").write_bytes(content)
        for name, content in files.items():
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "README.md").write_text(_readme(translator.card), encoding="utf-8")


def _arguments_of(model):
    """The arguments of a Transformer, with what None stands for."""
    config = model.get_config()
    common = {"target_vocab_size": config["vocab_size"]}
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
        dtype = "float16" if variable.dtype == "float16" else "float32"
        values = keras.ops.convert_to_numpy(keras.ops.cast(variable, dtype))
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


def _generation_config(translator):
    """The fields of generation_config.json besides the ids."""
    options, tokenizer = translator.options, translator.tokenizer
    forced = tokenizer.forced_ids(None)
    return {
        **{field: getattr(options, ours) for field, (ours, _) in SEARCH.items()},
        **({"forced_eos_token_id": tokenizer.eos_id} if options.force_end else {}),
        **({} if forced is None else {"forced_bos_token_id": int(forced[0, 0])}),
        # transformers counts the start token too.
        "max_length": (options.max_length or translator.models[0].max_length) + 1,
        "bad_words_ids": [[i] for i in tokenizer.forbidden_ids],
    }


def _readme(card):
    """The model card."""
    header = {"tags": ["translation", "marian"]}
    header["language"] = [card[side] for side in ("source", "target") if card.get(side)]
    if license := card.get("license"):
        # The hub takes its own ids, and other names apart.
        known = re.fullmatch(r"[\w.+-]+", license)
        other = {"license": "other", "license_name": license}
        header |= {"license": license.lower()} if known else other
    lines = [f"{field}: {json.dumps(x, ensure_ascii=False)}" for field, x in header.items() if x]
    return "\n".join(["---", *lines, "---", "", "# A translator, written by keras_mt", ""])
