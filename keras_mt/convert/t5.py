"""T5, mT5 and MADLAD-400: their configuration, weights and tokenizer."""

import re
from collections.abc import Mapping
from typing import Any

from keras import ops

from keras_mt.convert import tensors
from keras_mt.convert.pretrained import Folder
from keras_mt.errors import InputError
from keras_mt.layers.feed_forward import gelu_tanh
from keras_mt.models import Transformer, ensure_built
from keras_mt.text import PretrainedTokenizer
from keras_mt.text.tokenizer import sentencepiece_processor

_MODEL = "spiece.model"
# Fields of config.json: the arguments of Transformer that they give, and transformers' defaults.
_FIELDS = {
    "vocab_size": ("vocab_size", 32128),
    "d_model": ("d_model", 512),
    "d_kv": ("key_dim", 64),
    "d_ff": ("d_ff", 2048),
    "num_layers": ("num_encoder_layers", 6),
    "num_decoder_layers": ("num_decoder_layers", 6),
    "num_heads": ("num_heads", 8),
    "dropout_rate": ("dropout", 0.1),
    "layer_norm_epsilon": ("norm_epsilon", 1e-6),
    "pad_token_id": ("padding_id", 0),
    "feed_forward_proj": (None, "relu"),
}
_MT5 = {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6}
_MT5 |= {"feed_forward_proj": "gated-gelu"}
_SIZES = "vocab_size", "d_model", "d_kv", "d_ff", "num_layers", "num_decoder_layers", "num_heads"
_MAX_LENGTH = 1024  # There is no table of positions that would limit it.
_FEED_FORWARD = {
    "relu": {"activation": "relu", "gated": False},
    "gated-gelu": {"activation": gelu_tanh, "gated": True},
    "gated-silu": {"activation": "silu", "gated": True},
}
_FIXED = {"relative_attention_num_buckets": 32, "relative_attention_max_distance": 128}
_ARGUMENTS = {
    "positions": "relative",
    "pre_norm": True,
    "norm": "rms",
    "use_bias": False,
    "scale_attention": False,
    "scale_embeddings": False,
    "max_length": _MAX_LENGTH,
}
_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}
_ATTENTION = {"self_attention": "SelfAttention", "cross_attention": "EncDecAttention"}
_LANGUAGE = re.compile(r"<2([\w-]+)>")  # MADLAD-400's pieces of the target's language.
# Weights that need no reading: tied to another, or without effect.
_SPARE = re.compile(
    r"((encoder|decoder)\.embed_tokens|shared|lm_head)\.weight|"
    r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
)


def read_arguments(folder: Folder) -> dict[str, Any]:
    """The arguments of the model, from config.json."""
    defaults = {field: default for field, (_, default) in _FIELDS.items()}
    if folder.config["model_type"] == "mt5":
        defaults |= _MT5
    given = {field: value for field, value in folder.config.items() if value is not None}
    config = defaults | {"num_decoder_layers": given.get("num_layers", defaults["num_layers"])}
    config |= given
    for field, default in defaults.items():
        folder.check_type(field, config[field], type(default))
    for field in _SIZES:
        if config[field] < 1:
            raise folder.refuse(field, config[field], "at least 1")
    for field, value in _FIXED.items():
        if config.get(field, value) != value:
            raise folder.refuse(field, config[field], str(value))
    kind = config["feed_forward_proj"]
    if kind not in _FEED_FORWARD:
        raise folder.refuse("feed_forward_proj", kind, f"one of {', '.join(_FEED_FORWARD)}")
    if not 0 <= config["dropout_rate"] < 1:
        raise folder.refuse("dropout_rate", config["dropout_rate"], "at least 0 and below 1")
    if not 0 < config["layer_norm_epsilon"] < 1:
        raise folder.refuse("layer_norm_epsilon", config["layer_norm_epsilon"], "from 0 to 1")
    if not 0 <= config["pad_token_id"] < config["vocab_size"]:
        raise folder.refuse("pad_token_id", config["pad_token_id"], "a token id")
    arguments = {name: config[field] for field, (name, _) in _FIELDS.items() if name}
    return {**arguments, **_FEED_FORWARD[kind], **_ARGUMENTS}


def check_sizes(folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Checks config.json against the shapes of the weights, before memory is allocated."""
    d_model, heads = arguments["d_model"], arguments["num_heads"] * arguments["key_dim"]
    inner = "wi_0" if arguments["gated"] else "wi"
    shapes = {"(vocab_size, d_model)": (arguments["vocab_size"], tensors.SOURCE)}
    for side, last in (("encoder", 1), ("decoder", 2)):
        number = arguments[f"num_{side}_layers"]
        layers = {n.split(".")[2] for n in weights if n.startswith(f"{side}.block.")}
        if len(layers) != number:
            field = "num_layers" if side == "encoder" else "num_decoder_layers"
            raise folder.refuse(field, number, f"{len(layers)}, as the weights have")
        place = f"{side}.block.0.layer"
        name = f"{place}.{last}.DenseReluDense.{inner}.weight"
        shapes[f"(d_ff, d_model) of the {side}"] = arguments["d_ff"], [name]
        name = f"{place}.0.SelfAttention.q.weight"
        shapes[f"(num_heads * d_kv, d_model) of the {side}"] = heads, [name]
    for field, (rows, names) in shapes.items():
        name, tensor = tensors.first(folder, weights, names)
        if tensor.shape != (rows, d_model):
            raise folder.refuse(field, (rows, d_model), f"{tensor.shape}, the shape of {name}")


def read_model(
    folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any], dtype: str | None
) -> Transformer:
    """The model with the weights of a T5; weights in float16 are refused."""
    stored = tensors.dtype_of(weights, _SPARE)
    if stored == "float16":
        raise InputError(
            f"{folder.path}: the weights of {folder.config['model_type']} must be bfloat16 or "
            "float32, since what it computes is too large for float16. Received: float16"
        )
    arguments, scaled = tensors.tying(folder, arguments, weights), _scales_output(folder)
    arguments["tie_output"] = arguments["tie_output"] and not scaled
    model = ensure_built(Transformer(**arguments, dtype=dtype or stored))
    tensors.fill(folder, model, weights, _names_of, _SPARE)
    if scaled:
        head = next(v for v in model.variables if v.path.endswith("reverse_embeddings"))
        head.assign(head * ops.cast(arguments["d_model"] ** -0.5, head.dtype))
    return model


def _scales_output(folder):
    """True if the input of the logits is scaled: in the first T5, whose weights are tied."""
    if folder.config["model_type"] != "t5":
        return False
    tied = folder.config.get("tie_word_embeddings", True) is not False
    return folder.config.get("scale_decoder_outputs", tied) is not False


def _names_of(path):
    """T5's names of one of our weights, and whether it is transposed."""
    place, _, last = path.rpartition("/")
    if last == "embeddings":
        return tensors.names_of(path)
    if last == "reverse_embeddings":  # Also of a tied one, whose output is scaled.
        return ["lm_head.weight", *tensors.TARGET], True
    if match := re.fullmatch(r"(encoder|decoder)_(norm|positions)", place):
        if match[2] == "norm":
            return [f"{match[1]}.final_layer_norm.weight"], False
        name = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        return [f"{match[1]}.{name}"], False
    side, number, part = re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", place).groups()
    part, _, inner = part.partition("/")
    order = ["self_attention", "cross_attention", "feed_forward"]
    if side == "encoder":
        order.remove("cross_attention")
    layer = f"{side}.block.{number}.layer.{order.index(part.removesuffix('_norm'))}"
    if part.endswith("_norm"):
        return [f"{layer}.layer_norm.weight"], False
    if part == "feed_forward":
        names = {"gate": ["wi_0"], "inner": ["wi_1", "wi"], "output": ["wo"]}[inner]
        return [f"{layer}.DenseReluDense.{name}.weight" for name in names], True
    return [f"{layer}.{_ATTENTION[part]}.{_PARTS[inner]}.weight"], True


def read_tokenizer(
    folder: Folder, arguments: dict[str, Any]
) -> tuple[PretrainedTokenizer, dict[str, str]]:
    """The tokenizer of a folder, and the default languages.

    Of MADLAD-400 alone: a source begins with its target's language.
    """
    size, model = arguments["vocab_size"], folder.read(_MODEL)
    processor = sentencepiece_processor(model, folder.path / _MODEL)
    count = processor.get_piece_size()
    if count > size:
        raise folder.refuse("vocab_size", size, f"at least {count}, the pieces of {_MODEL}")
    pieces = [processor.id_to_piece(i) for i in range(count)]
    control = [p for i, p in enumerate(pieces) if processor.is_control(i)]
    found = {i: _LANGUAGE.fullmatch(piece) for i, piece in enumerate(pieces)}
    languages = {match[1]: i for i, match in found.items() if match}
    first = next(iter(languages), None)
    tokenizer = PretrainedTokenizer(
        [model],
        [pieces + [""] * (size - count)],
        special=[pieces[processor.unk_id()], *control],
        **folder.special_ids(arguments["padding_id"], size),
        languages=languages,
        target_on_source=bool(languages),
        # The space that SentencePiece puts in front of a text, and so in front of `<2de> How`.
        source_prefix=processor.encode(f"<2{first}>")[:-1] if languages else (),
        description="T5's: SentencePiece",
    )
    # No choice of the source's language, since none is of effect.
    return tokenizer, {"source_language": first} if languages else {}
