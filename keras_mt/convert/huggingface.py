"""Import of transformers' MarianMT, M2M-100 and NLLB as keras_mt models and tokenizers.

The folder is not trusted: no code in it is run, and what is not understood is refused with an error
that names the file or the field.
"""

import importlib.util
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece

from keras_mt.convert import languages
from keras_mt.convert.weights import read_weights
from keras_mt.errors import InputError
from keras_mt.files import check_new, new_folder
from keras_mt.models import PretrainedTransformer, built
from keras_mt.options import TranslationOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import PretrainedTokenizer
from keras_mt.translation import Translator

# transformers' defaults for fields that config.json does not have.
_DEFAULTS = {
    "max_position_embeddings": 1024,
    "encoder_layers": 12,
    "encoder_ffn_dim": 4096,
    "encoder_attention_heads": 16,
    "decoder_layers": 12,
    "decoder_ffn_dim": 4096,
    "decoder_attention_heads": 16,
    "d_model": 1024,
    "dropout": 0.1,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}
# What is read of a model on the hub: these files, and the first of the weights that it has.
_FILES = (
    "README.md", "added_tokens.json", "config.json", "generation_config.json",
    "model.safetensors.index.json", "sentencepiece.bpe.model", "source.spm", "target.spm",
    "target_vocab.json", "tokenizer.json", "tokenizer_config.json", "vocab.json",
)  # fmt: skip
_WEIGHTS = ("model.safetensors", "model-*.safetensors", "pytorch_model.bin", "tf_model.h5")
# Fields of config.json and the arguments of PretrainedTransformer that they give.
ARGUMENTS = {
    "vocab_size": "vocab_size",
    "d_model": "d_model",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_attention_heads": "num_encoder_heads",
    "decoder_attention_heads": "num_decoder_heads",
    "encoder_ffn_dim": "encoder_d_ff",
    "decoder_ffn_dim": "decoder_d_ff",
    "max_position_embeddings": "max_length",
    "pad_token_id": "padding_id",
    "dropout": "dropout",
    "activation_function": "activation",
    "scale_embedding": "scale_embeddings",
    "share_encoder_decoder_embeddings": "share_embeddings",
    "tie_word_embeddings": "tie_output",
}
_ACTIVATIONS = ("relu", "gelu", "silu", "swish")
_MOST_POSITIONS = 2**16

# Our names of weights, and theirs. In a block:
_BLOCK = {
    "self_attention/query": "self_attn.q_proj",
    "self_attention/key": "self_attn.k_proj",
    "self_attention/value": "self_attn.v_proj",
    "self_attention/output": "self_attn.out_proj",
    "self_attention_norm": "self_attn_layer_norm",
    "cross_attention/query": "encoder_attn.q_proj",
    "cross_attention/key": "encoder_attn.k_proj",
    "cross_attention/value": "encoder_attn.v_proj",
    "cross_attention/output": "encoder_attn.out_proj",
    "cross_attention_norm": "encoder_attn_layer_norm",
    "feed_forward/inner": "fc1",
    "feed_forward/output": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
# Outside the blocks, the first one found: of tied weights a file may hold any.
_SHARED = ("shared", "decoder.embed_tokens", "encoder.embed_tokens", "lm_head")
_OUTSIDE = {
    "embedding/embedding/embeddings": _SHARED,
    "source_embedding/embedding/embeddings": ("encoder.embed_tokens", "shared"),
    "target_embedding/embedding/embeddings": ("decoder.embed_tokens", "shared", "lm_head"),
    "source_embedding/norm": ("encoder.layernorm_embedding",),
    "target_embedding/norm": ("decoder.layernorm_embedding",),
    "encoder_norm": ("encoder.layer_norm",),
    "decoder_norm": ("decoder.layer_norm",),
}
# Last parts of names: ours, PyTorch's and those of tf_model.h5.
_LAST = {
    "kernel": ("weight", "kernel"),
    "bias": ("bias", "bias"),
    "gamma": ("weight", "gamma"),
    "beta": ("bias", "beta"),
    "embeddings": ("weight", "embeddings"),
    "reverse_embeddings": ("weight", "weight"),
}
# Weights that need no reading: they are computed, or tied to another.
_SPARE = re.compile(
    r"(encoder|decoder)\.embed_positions\..*|((encoder|decoder)\.embed_tokens|shared|lm_head)\..*"
)

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
# Fields that are not supported, and the values at which they have no effect.
_NEUTRAL = {
    "do_sample": (False,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0,),
    "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_new_tokens": (0,),
    "begin_suppress_tokens": ([],),
    "force_words_ids": (),
    "constraints": (),
    "sequence_bias": (),
    "exponential_decay_length_penalty": (),
    "penalty_alpha": (0,),
    "guidance_scale": (1,),
    "watermarking_config": (),
    "forced_decoder_ids": (),
}
# The types of fields that nothing below checks by their values.
_DECODING = {
    "max_length": int,
    "max_new_tokens": int,
    "bad_words_ids": list,
    "suppress_tokens": list,
}
_TYPES = {
    "config.json": {
        "model_type": str,
        "tokenizer_class": str,
        "decoder_vocab_size": int,
        "normalize_embedding": bool,
        "add_final_layer_norm": bool,
        **_DECODING,
    },
    "generation_config.json": _DECODING,
    "tokenizer_config.json": {
        "tokenizer_class": str,
        "source_lang": str,
        "target_lang": str,
        "src_lang": str,
        "tgt_lang": str,
        "language_codes": str,
        "separate_vocabs": bool,
        "legacy_behaviour": bool,
        "added_tokens_decoder": dict,
    },
}
_WORDS = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


class _Folder:
    """A folder's files by name, and its configuration."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = self.json("config.json")
        tokenizer = self.json("tokenizer_config.json", optional=True)
        self.tokenizer = {n: x for n, x in tokenizer.items() if x is not None}
        generation = self.json("generation_config.json", optional=True)
        # Older folders have all of it in config.json; null means absent.
        ids = ("eos_token_id", "decoder_start_token_id")
        more = {n: self.config.get(n) for n in ids} if generation else self.config
        self._generated = {*generation}
        self.generation = {n: x for n, x in {**more, **generation}.items() if x is not None}

    def json(self, name: str, optional: bool = False) -> dict[str, Any]:
        if optional and not (self.path / name).is_file():
            return {}
        try:
            value = json.loads(self.read(name).decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self.path / name} is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InputError(f"{self.path / name} must hold a JSON object.")
        for field, kind in _TYPES.get(name, {}).items():
            if value.get(field) is not None and type(value[field]) is not kind:
                raise self.refuse(field, value[field], _WORDS[kind], name)
        return value

    def read(self, name: str) -> bytes:
        path = self.path / name
        if not path.is_file():
            raise FileNotFoundError(f"{self.path} is not a folder to import: it has no {name}.")
        if path.stat().st_size > 2**28:
            raise InputError(f"{path} is too large.")
        return path.read_bytes()

    def refuse(
        self, field: str, value: Any, expected: str, file: str = "config.json"
    ) -> ValueError:
        """The error that names the file and field."""
        return InputError(
            f"{self.path / file}: {field} must be {expected}. Received: {field}={value!r}"
        )

    def generation_file(self, field: str) -> str:
        """The file that has a field of the generation config."""
        return "generation_config.json" if field in self._generated else "config.json"

    def refuse_generation(self, field: str, value: Any, expected: str) -> ValueError:
        """As `refuse`, of a field of the generation config, which may be from config.json."""
        return self.refuse(field, value, expected, self.generation_file(field))

    def id(self, field: str, size: int) -> int:
        """A token id of the generation config, of a vocabulary of so many tokens."""
        value = self.generation.get(field)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if not _is_id(value, size):
            raise self.refuse_generation(field, value, f"a token id, below {size}")
        return value

    def vocabulary(self, name: str, optional: bool = False) -> dict[str, int]:
        ids = self.json(name, optional)
        if not all(type(i) is int and i >= 0 for i in ids.values()):
            raise InputError(f"{self.path / name} must give each piece its id, an integer.")
        return ids

    def sentencepiece(self, name: str) -> bytes:
        model = self.read(name)
        try:
            sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise InputError(f"{self.path / name} is not a SentencePiece model.") from None
        return model


class _Imported(NamedTuple):
    model: PretrainedTransformer
    tokenizer: PretrainedTokenizer
    generation: dict[str, Any]
    languages: dict[str, str]
    card: dict[str, Any]


def from_huggingface(directory: str | os.PathLike) -> Translator:
    """Loads a translator from a MarianMT, M2M-100 or NLLB folder, as transformers writes it.

    It decodes with the options of the folder's generation_config.json, and translates each line as
    a whole, as transformers does. `translator.with_options(split_sentences=True)` translates
    sentence by sentence.

    Args:
        directory: The folder, with config.json, the weights (model.safetensors, which may be
            sharded, pytorch_model.bin or tf_model.h5) and the tokenizer's files; or, if
            huggingface_hub is installed, the name of a model on the hub, such as
            `Helsinki-NLP/opus-mt-en-de`.

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
    imported = _read(directory, "float32")
    options = imported.generation | imported.languages
    translator = Translator(imported.model, imported.tokenizer, **options)
    translator.card = imported.card
    return translator


def import_huggingface(directory: str | os.PathLike, run_dir: str | os.PathLike) -> None:
    """Imports a MarianMT, M2M-100 or NLLB folder as a run folder, as `keras-mt import` does.

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
    run_dir = Path(run_dir)
    check_new(run_dir)
    imported = _read(directory)
    with new_folder(run_dir) as temporary:
        folder = RunFolder(temporary)
        folder.save_tokenizer(imported.tokenizer)
        imported.model.save(folder.model_file)
        folder.write_config(_run_config(imported))


def _run_config(imported):
    return RunConfig(
        data=[],
        source=imported.card["source"],
        target=imported.card["target"],
        options=imported.languages,
        model=imported.model.get_config(),
        license=imported.card.get("license"),
        generation=imported.generation,
    )


def _read(directory, dtype=None):
    folder = _Folder(_local(directory))
    family = folder.config.get("model_type")
    if family not in _FAMILIES:
        raise folder.refuse("model_type", family, f"one of {', '.join(_FAMILIES)}")
    arguments, read_tokenizer = _FAMILIES[family]
    arguments = _arguments(folder, arguments)
    weights = read_weights(folder.path)
    _check_sizes(folder, arguments, weights)
    tokenizer, languages = read_tokenizer(folder, arguments)
    generation = _generation(folder, arguments)
    model = _model(folder, arguments, weights, dtype or _dtype(weights))
    return _Imported(model, tokenizer, generation, languages, _card(folder))


def _local(directory):
    path = Path(directory)
    if path.is_dir():
        return path
    if path.exists() or not re.fullmatch(r"[\w.-]+/[\w.-]+", str(directory)):
        raise FileNotFoundError(
            f"There is no folder {path}, nor is that a name on the hub, which is OWNER/NAME."
        )
    if importlib.util.find_spec("huggingface_hub") is None:
        raise FileNotFoundError(
            f"There is no folder {path}. If it is the name of a model on the hub, "
            "pip install 'keras_mt[hub]' to download it."
        )
    return _downloaded(str(directory))


def _downloaded(name):
    """The folder of a model of the hub, in the cache of huggingface_hub."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        # One kind of weights after the other: what there is cannot be asked for without a network,
        # and then huggingface_hub gives what its cache has.
        for weights in _WEIGHTS:
            patterns = [*_FILES, weights]
            folder = Path(huggingface_hub.snapshot_download(name, allow_patterns=patterns))
            if any(folder.glob(weights)):
                break
        return folder
    except errors.GatedRepoError:
        raise PermissionError(
            f"{name} is for those who have agreed to its terms: agree to them on the hub's page of "
            "the model, then `hf auth login`, or set HF_TOKEN."
        ) from None
    except errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"There is neither a folder {name} nor a model of this name on the hub. If it is "
            "private, `hf auth login` first, or set HF_TOKEN."
        ) from None
    except Exception as error:  # Those of a broken connection are of another package.
        reason = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        raise OSError(
            f"There is no folder {name}, and it cannot be fetched from the hub: {reason}. Try "
            f"again, or run `hf download {name}` where there is a network: give the path of the "
            "folder that it prints."
        ) from error


def _arguments(folder, fixed):
    """The arguments of the model, from config.json."""
    config = {**_DEFAULTS, **fixed["defaults"], **folder.config}
    for field, value in fixed["switches"].items():
        if config.get(field, value) not in (value, None):
            raise folder.refuse(field, config[field], repr(value))
    arguments = {ours: config.get(field) for field, ours in ARGUMENTS.items()}
    fields = {ours: field for field, ours in ARGUMENTS.items()}
    for name, value in arguments.items():
        field = fields[name]
        if name == "activation":
            if value not in _ACTIVATIONS:
                raise folder.refuse(field, value, f"one of {', '.join(_ACTIVATIONS)}")
        elif name in ("scale_embeddings", "share_embeddings", "tie_output"):
            if type(value) is not bool:
                raise folder.refuse(field, value, "true or false")
        elif name == "dropout":
            if type(value) not in (int, float) or not 0 <= value < 1:
                raise folder.refuse(field, value, "at least 0 and below 1")
        elif type(value) is not int or value < (name != "padding_id"):
            least = "an integer of at least 0" if name == "padding_id" else "a positive integer"
            raise folder.refuse(field, value, least)
    for side in ("encoder", "decoder"):
        if arguments["d_model"] % (heads := arguments[f"num_{side}_heads"]):
            raise folder.refuse(f"{side}_attention_heads", heads, "a divisor of d_model")
    if arguments["max_length"] > _MOST_POSITIONS:
        raise folder.refuse(
            "max_position_embeddings", arguments["max_length"], f"at most {_MOST_POSITIONS}"
        )
    if not arguments["share_embeddings"]:
        size = config.get("decoder_vocab_size") or arguments["vocab_size"]
        if size < 1:
            raise folder.refuse("decoder_vocab_size", size, "a positive integer")
        arguments["target_vocab_size"] = size
        if arguments["padding_id"] >= size:
            raise folder.refuse("pad_token_id", arguments["padding_id"], f"below {size}")
    return {**arguments, **fixed["arguments"]}


def _check_sizes(folder, arguments, weights):
    """Checks config.json against the shapes of the weights, before memory is allocated."""
    names = ("shared", "encoder.embed_tokens", "lm_head")
    sizes = [
        ("vocab_size", names, 0, "vocab_size"),
        ("d_model", names, 1, "d_model"),
        ("encoder_ffn_dim", ("encoder.layers.0.fc1",), 0, "encoder_d_ff"),
        ("decoder_ffn_dim", ("decoder.layers.0.fc1",), 0, "decoder_d_ff"),
    ]
    if not arguments["share_embeddings"]:
        names = ("decoder.embed_tokens", "shared", "lm_head")
        sizes.append(("decoder_vocab_size", names, 0, "target_vocab_size"))
        sizes.append(("d_model", names, 1, "d_model"))
    for field, names, axis, argument in sizes:
        shape = _tensor(weights, names, "bias" if "fc1" in names[0] else "embeddings")[0].shape
        if len(shape) <= axis or shape[axis] != arguments[argument]:
            raise folder.refuse(
                field, arguments[argument], f"that of {names[0]}, whose shape is {tuple(shape)}"
            )
    for side in ("encoder", "decoder"):
        layers = {n.split(".")[2] for n in weights if n.startswith(f"{side}.layers.")}
        if len(layers) != (number := arguments[f"num_{side}_layers"]):
            raise folder.refuse(f"{side}_layers", number, f"{len(layers)}, as the weights have")
        for path, shape in _block_shapes(arguments["d_model"], arguments[f"{side}_d_ff"]).items():
            for i in range(number):
                if side == "decoder" or not path.startswith("cross_attention"):
                    _tensor_of(folder, weights, f"{side}_{i}/{path}", shape)


def _block_shapes(d_model, d_ff):
    """The shapes of the weights of a block, by our names."""
    shapes = {}
    for place in _BLOCK:
        if place.endswith("_norm"):
            shapes |= {f"{place}/gamma": (d_model,), f"{place}/beta": (d_model,)}
            continue
        rows = d_ff if place == "feed_forward/output" else d_model
        columns = d_ff if place == "feed_forward/inner" else d_model
        shapes |= {f"{place}/kernel": (rows, columns), f"{place}/bias": (columns,)}
    return shapes


def _dtype(weights):
    """The dtype of the weights if that is half precision; else float32."""
    dtypes = {str(x.dtype) for name, x in weights.items() if len(x.shape) > 1 and not _spare(name)}
    dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    return dtype if dtype in ("float16", "bfloat16") else "float32"


def _model(folder, arguments, weights, dtype):
    """The model with the folder's weights."""
    arguments["normalize_embeddings"] = _has(weights, "encoder.layernorm_embedding")
    arguments["final_norm"] = _has(weights, "encoder.layer_norm")
    for field, argument in (
        ("normalize_embedding", "normalize_embeddings"), ("add_final_layer_norm", "final_norm"),
    ):  # fmt: skip
        if folder.config.get(field) and not arguments[argument]:
            raise folder.refuse(field, True, "false, as the weights have no such normalisation")
    model = built(PretrainedTransformer(**arguments, dtype=dtype))
    used = set()
    for variable in model.variables:
        if "seed_generator" in variable.path:
            continue
        name, transposed = _tensor_of(folder, weights, variable.path, tuple(variable.shape))
        if name is None:
            continue
        used.add(name)
        values = np.asarray(weights[name])
        values = (values.T if transposed else values).reshape(variable.shape)
        variable.assign(values)
    if unknown := sorted(name for name in weights if name not in used and not _spare(name)):
        raise InputError(f"{folder.path} has weights that are not understood: {unknown[0]}.")
    return model


def _tensor_of(folder, weights, path, expected):
    """The name of a variable's tensor, None for a missing logits bias; and if it is transposed."""
    names, last = names_of(path)
    if not last and names[0] not in weights:
        return None, False
    tensor, name = _tensor(weights, names, last)
    transposed = last == "reverse_embeddings" or (last == "kernel" and name.endswith(".weight"))
    shape = tuple(tensor.shape)[::-1] if transposed else tuple(tensor.shape)
    if shape != expected and (last or shape != (1, *expected)):
        raise InputError(
            f"{folder.path}: {name} must have the shape {expected}, to agree with config.json. "
            f"It has the shape {shape}."
        )
    return name, transposed


def names_of(path: str) -> tuple[Sequence[str], str]:
    """The names that one of our weights may have in transformers, and the last part of our name.

    Args:
        path: The path of a variable, such as `encoder_0/self_attention/query/kernel`.

    Returns:
        The names without their last part, and the last part of our name, "" for
        `final_logits_bias`.

    Example:

    >>> names_of("encoder_0/self_attention/query/kernel")
    (('encoder.layers.0.self_attn.q_proj',), 'kernel')
    """
    place, _, last = path.rpartition("/")
    if last == "logits_bias":
        return ("final_logits_bias",), ""
    if last == "reverse_embeddings":
        return ("lm_head",), last
    if block := re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", place):
        return (f"{block[1]}.layers.{block[2]}.{_BLOCK[block[3]]}",), last
    return _OUTSIDE[f"{place}/{last}" if last == "embeddings" else place], last


def _tensor(weights, names, last):
    """The first tensor found, and its name."""
    lasts = [f".{each}" for each in dict.fromkeys((*_LAST[last], "weight"))] if last else [""]
    for name in names:
        for each in lasts:
            if f"{name}{each}" in weights:
                return weights[f"{name}{each}"], f"{name}{each}"
    raise InputError(f"The weights have no {names[0]}{lasts[0]}.")


def _has(weights, name):
    return any(each.startswith(f"{name}.") for each in weights)


def _spare(name):
    return _SPARE.fullmatch(name) is not None


def _generation(folder, arguments):
    """The options of a `keras_mt.Translator` from generation_config.json."""
    given = folder.generation
    for field, neutral in _NEUTRAL.items():
        if given.get(field) is not None and given[field] not in neutral:
            raise folder.refuse_generation(field, given[field], "left out: it is not supported")
    found = {ours: given[field] for field, ours in GENERATION.items() if field in given}
    options = {"beam_size": 1, "early_stopping": False, **found, "split_sentences": False}
    # transformers' max_length counts the start token too.
    longest = given.get("max_new_tokens") or given.get("max_length", 0) - 1
    if longest > 0:
        options["max_length"] = min(longest, arguments["max_length"])
    try:
        checked = TranslationOptions(**options)
    except ValueError as error:
        fields = [f for f, ours in GENERATION.items() if f in given and ours in str(error)]
        file = folder.path / folder.generation_file(fields[0])
        raise InputError(f"{file}: {', '.join(fields)}: {error}") from None
    longest = checked.max_length or arguments["max_length"]
    if checked.min_length > longest:
        expected = f"at most {longest}, the tokens that max_length allows"
        raise folder.refuse_generation("min_length", checked.min_length, expected)
    if "forced_eos_token_id" in given:
        size = arguments.get("target_vocab_size", arguments["vocab_size"])
        if folder.id("forced_eos_token_id", size) != folder.id("eos_token_id", size):
            raise folder.refuse_generation(
                "forced_eos_token_id", given["forced_eos_token_id"], "eos_token_id"
            )
        options["force_end"] = True
    return options


def _is_id(value, size):
    return type(value) is int and 0 <= value < size


def _forbidden(folder, size):
    """The token ids that generation_config.json forbids, of a vocabulary of so many tokens."""
    words = folder.generation.get("bad_words_ids", [])
    suppressed = folder.generation.get("suppress_tokens", [])
    if not all(isinstance(w, list) and len(w) == 1 and _is_id(w[0], size) for w in words):
        expected = f"single token ids below {size}, each in a list"
        raise folder.refuse_generation("bad_words_ids", words, expected)
    if not all(_is_id(token, size) for token in suppressed):
        expected = f"a list of token ids below {size}"
        raise folder.refuse_generation("suppress_tokens", suppressed, expected)
    return sorted({*suppressed, *(token for (token,) in words)})


def _card(folder):
    """The fields of the model card: source and target language, and the licence if known."""
    sides = [
        folder.tokenizer.get(f"{side}_lang") or folder.tokenizer.get(f"{short}_lang") or ""
        for side, short in (("source", "src"), ("target", "tgt"))
    ]
    card = {"source": sides[0], "target": sides[1]}
    readme = folder.path / "README.md"
    if readme.is_file():
        head = readme.read_text(encoding="utf-8", errors="replace")[:65536].split("\n---")[0]
        if found := re.search(r"^license:[ \t]*(\S+)", head, re.MULTILINE):
            card["license"] = found[1].strip("\"'")
    return card


def _marian_tokenizer(folder, arguments):
    apart = folder.tokenizer.get("separate_vocabs", False) or not arguments["share_embeddings"]
    vocabularies = [folder.vocabulary("vocab.json")]
    if apart and (folder.path / "target_vocab.json").is_file():
        vocabularies.append(folder.vocabulary("target_vocab.json"))
    marks = {p: i for p, i in vocabularies[0].items() if p.startswith(">>") and p.endswith("<<")}
    _check_special(folder, vocabularies[0], arguments)
    models = [folder.sentencepiece(f"{side}.spm") for side in ("source", "target")]
    sizes = [arguments["vocab_size"], arguments.get("target_vocab_size", arguments["vocab_size"])]
    forced = "forced_bos_token_id"
    tokenizer = PretrainedTokenizer(
        models if models[0] != models[1] else models[:1],
        [
            _by_id(folder, vocabulary, size)
            for vocabulary, size in zip(vocabularies, sizes, strict=False)
        ],
        special=["<unk>", "</s>", "<pad>"],
        padding_id=arguments["padding_id"],
        bos_id=folder.id("decoder_start_token_id", sizes[1]),
        eos_id=folder.id("eos_token_id", sizes[1]),
        source_eos_id=_special(folder, vocabularies[0], "</s>"),
        forbidden_ids=_forbidden(folder, sizes[1]),
        marks=marks,
        forced=[folder.id(forced, sizes[1])] if forced in folder.generation else [],
        description="MarianMT's: SentencePiece with vocab.json",
    )
    return tokenizer, {}


def _multilingual_tokenizer(folder, arguments):
    """The tokenizer of M2M-100, or of NLLB, which has no vocab.json."""
    kind = folder.tokenizer.get("tokenizer_class") or folder.config.get("tokenizer_class")
    if kind not in (None, "M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"):
        raise folder.refuse(
            "tokenizer_class", kind, "M2M100Tokenizer or NllbTokenizer", "tokenizer_config.json"
        )
    model = folder.sentencepiece("sentencepiece.bpe.model")
    if kind == "M2M100Tokenizer" or (kind is None and (folder.path / "vocab.json").is_file()):
        name, token = "M2M-100", "__{}__"
        vocabulary, codes = _m2m100_vocabulary(folder)
    else:
        name, token = "NLLB", "{}"
        vocabulary, codes = _nllb_vocabulary(folder, model)
    size = arguments["vocab_size"]
    codes = {code: id for code, id in codes.items() if _is_id(id, size)}
    _check_special(folder, vocabulary, arguments)
    if not codes or folder.id("eos_token_id", size) != vocabulary["</s>"]:
        raise folder.refuse("vocab_size", size, "such that the languages have ids")
    defaults = {
        "source_language": folder.tokenizer.get("src_lang"),
        "target_language": folder.tokenizer.get("tgt_lang"),
    }
    if "forced_bos_token_id" in folder.generation:
        forced = folder.id("forced_bos_token_id", size)
        defaults["target_language"] = next((c for c, id in codes.items() if id == forced), None)
    tokenizer = PretrainedTokenizer(
        [model],
        [_by_id(folder, vocabulary | {token.format(c): id for c, id in codes.items()}, size)],
        special=["<unk>", "<s>", "<pad>", "</s>"],
        padding_id=arguments["padding_id"],
        bos_id=folder.id("decoder_start_token_id", size),
        eos_id=folder.id("eos_token_id", size),
        forbidden_ids=_forbidden(folder, size),
        languages=codes,
        language_first=not folder.tokenizer.get("legacy_behaviour", False),
        description=f"{name}'s: SentencePiece and languages",
    )
    return tokenizer, {name: code for name, code in defaults.items() if code in codes}


def _m2m100_vocabulary(folder):
    vocabulary = folder.vocabulary("vocab.json")
    known = {"m2m100": languages.M2M100, "wmt21": languages.WMT21}
    codes = folder.tokenizer.get("language_codes", "m2m100")
    if codes not in known:
        raise folder.refuse("language_codes", codes, " or ".join(known), "tokenizer_config.json")
    return vocabulary, {code: len(vocabulary) + i for i, code in enumerate(known[codes].split())}


def _nllb_vocabulary(folder, model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    if (processor.unk_id(), processor.bos_id(), processor.eos_id()) != (0, 1, 2):
        raise InputError(
            f"{folder.path / 'sentencepiece.bpe.model'} must have the ids 0, 1, 2 for unknown, "
            f"start and end. It has {processor.unk_id()}, {processor.bos_id()}, "
            f"{processor.eos_id()}."
        )
    number = processor.get_piece_size()
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    pieces = {processor.id_to_piece(i): i + 1 for i in range(3, number)}
    return {**pieces, **special}, _nllb_languages(folder, number + 1)


def _nllb_languages(folder, first):
    """The ids of the languages, from whichever file lists them; else those of NLLB-200."""
    file, field = "tokenizer_config.json", "added_tokens_decoder"
    added = folder.tokenizer.get(field, {})
    listed = folder.vocabulary("added_tokens.json", optional=True)
    if not added and not listed:
        file, field = "tokenizer.json", "added_tokens"
        added = folder.json(file, optional=True).get(field, [])
    try:
        entries = added.items() if isinstance(added, dict) else [(e["id"], e) for e in added]
        found = {str(entry["content"]): int(str(id)) for id, entry in entries} | listed
    except (KeyError, TypeError, ValueError):
        raise folder.refuse(field, added, "the ids and contents of tokens", file) from None
    found = {code: id for code, id in found.items() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", code)}
    return found or {code: first + i for i, code in enumerate(languages.NLLB.split())}


def _special(folder, vocabulary, piece):
    if piece not in vocabulary:
        raise InputError(f"{folder.path / 'vocab.json'} must have {piece}.")
    return vocabulary[piece]


def _check_special(folder, vocabulary, arguments):
    for piece in ("<unk>", "</s>", "<pad>"):
        _special(folder, vocabulary, piece)
    if vocabulary["<pad>"] != arguments["padding_id"]:
        raise folder.refuse(
            "pad_token_id", arguments["padding_id"], f"{vocabulary['<pad>']}, that of <pad>"
        )


def _by_id(folder, vocabulary, size):
    """The pieces in the order of their ids, with "" for ids without a piece."""
    pieces = [""] * size
    for piece, id in vocabulary.items():
        if id >= size:
            raise folder.refuse("vocab_size", size, f"more than {id}, the id of {piece!r}")
        pieces[id] = piece.encode("utf-8", "replace").decode("utf-8")
    return pieces


# For each model_type: defaults of config.json, fields that must have these values, arguments of the
# model; and a function that returns the tokenizer and the default languages.
_FAMILIES: dict[str, tuple[dict[str, dict], Callable]] = {
    "marian": (
        {
            "defaults": {
                "vocab_size": 58101,
                "pad_token_id": 58100,
                "activation_function": "gelu",
                "scale_embedding": False,
            },
            "switches": {"normalize_before": False, "static_position_embeddings": True},
            "arguments": {"positions": "marian", "pre_norm": False, "logits_bias": True},
        },
        _marian_tokenizer,
    ),
    "m2m_100": (
        {
            "defaults": {
                "vocab_size": 128112,
                "pad_token_id": 1,
                "activation_function": "relu",
                "scale_embedding": True,
            },
            "switches": {},
            "arguments": {"positions": "fairseq", "pre_norm": True, "logits_bias": False},
        },
        _multilingual_tokenizer,
    ),
}
