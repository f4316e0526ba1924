"""The weights of transformers' encoder-decoder models: their names, in and out."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_mt.convert.pretrained import Folder
from keras_mt.errors import InputError
from keras_mt.models import Transformer, ensure_built

# Our names of layers, and theirs. In a block:
_BLOCK = {
    "feed_forward/inner": "fc1",
    "feed_forward/output": "fc2",
    "feed_forward_norm": "final_layer_norm",
}
for _ours, _theirs in (("self_attention", "self_attn"), ("cross_attention", "encoder_attn")):
    _BLOCK[f"{_ours}_norm"] = f"{_theirs}_layer_norm"
    for _part, _short in (("query", "q"), ("key", "k"), ("value", "v"), ("output", "out")):
        _BLOCK[f"{_ours}/{_part}"] = f"{_theirs}.{_short}_proj"
_SHARED, _HEAD, _BIAS = "shared.weight", "lm_head.weight", "final_logits_bias"
_SIDES = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
# Of tied weights a file may have any: the first of these names.
SOURCE = [_SIDES[0], _SHARED, _SIDES[1], _HEAD]
TARGET = [_SIDES[1], _SHARED, _HEAD, _SIDES[0]]
_EMBEDDINGS = {"source_embedding": SOURCE, "target_embedding": TARGET, "embedding": TARGET}
_NORMS = {
    "source_embedding/norm": "encoder.layernorm_embedding",
    "target_embedding/norm": "decoder.layernorm_embedding",
    "encoder_norm": "encoder.layer_norm",
    "decoder_norm": "decoder.layer_norm",
}
# Weights that need no reading: they are computed, or tied to another.
_SPARE = re.compile(
    r"(encoder|decoder)\.embed_positions\..*|((encoder|decoder)\.embed_tokens|shared|lm_head)\..*"
)


def names_of(path: str) -> tuple[list[str], bool]:
    """The names that a weight of ours may have in transformers, and whether it is transposed."""
    place, _, last = path.rpartition("/")
    if last == "logits_bias":
        return [_BIAS], False
    if last == "reverse_embeddings":
        return [_HEAD], True
    if last == "embeddings":
        return _EMBEDDINGS[place.partition("/")[0]], False
    if block := re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", place):
        place = f"{block[1]}.layers.{block[2]}.{_BLOCK[block[3]]}"
    else:
        place = _NORMS[place]
    return [f"{place}.{'bias' if last in ('bias', 'beta') else 'weight'}"], last == "kernel"


def read_model(
    folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any], dtype: str | None
) -> Transformer:
    """The model with a folder's weights; its dtype is that of the weights if None is given."""
    arguments = {
        **arguments,
        "normalize_embeddings": "encoder.layernorm_embedding.weight" in weights,
        "final_norm": "encoder.layer_norm.weight" in weights,
    }
    norms = {"normalize_embedding": "normalize_embeddings", "add_final_layer_norm": "final_norm"}
    for field, argument in norms.items():
        if folder.config.get(field) and not arguments[argument]:
            raise folder.refuse(field, True, "false, as the weights have no such normalisation")
    arguments = tying(folder, arguments, weights)
    model = ensure_built(Transformer(**arguments, dtype=dtype or dtype_of(weights, _SPARE)))
    fill(folder, model, weights, names_of, _SPARE)
    return model


def tying(folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with what is tied.

    Tensors that differ in the file are not, whatever config.json says: transformers issue 45005.
    """
    arguments = {"share_embeddings": True, "tie_output": True, **arguments}
    source, target, head = (
        first(folder, weights, x)[1] for x in (SOURCE, TARGET, [_HEAD, *TARGET])
    )
    if arguments["share_embeddings"] and not _equal(source, target):
        arguments |= {"share_embeddings": False, "target_vocab_size": arguments["vocab_size"]}
    if arguments["tie_output"] and not _equal(head, target):
        arguments["tie_output"] = False
    return arguments


def fill(
    folder: Folder,
    model: Transformer,
    weights: Mapping[str, Any],
    names_of: Callable[[str], tuple[list[str], bool]],
    spare: re.Pattern,
) -> None:
    """Gives a model the weights of a folder; all must be used but those of `spare` names."""
    used = set()
    for variable in model.variables:
        if "seed_generator" in variable.path:
            continue
        names, transposed = names_of(variable.path)
        if names == [_BIAS] and _BIAS not in weights:
            continue
        name, values = first(folder, weights, names)
        used.add(name)
        shape = (1, *variable.shape) if name == _BIAS else tuple(variable.shape)
        shape = shape[::-1] if transposed else shape
        if values.shape != shape:
            raise InputError(
                f"{folder.path}: {name} must have the shape {shape}, to agree with config.json. "
                f"It has the shape {values.shape}."
            )
        values = np.asarray(values)
        variable.assign((values.T if transposed else values).reshape(variable.shape))
    if unknown := sorted(n for n in weights if n not in used and not spare.fullmatch(n)):
        raise InputError(f"{folder.path} has weights that are not understood: {unknown[0]}.")


def check_sizes(folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Checks config.json against the shapes of the weights, before memory is allocated."""
    tables = [("vocab_size", arguments["vocab_size"], SOURCE)]
    if not arguments["share_embeddings"]:
        tables.append(("decoder_vocab_size", arguments["target_vocab_size"], TARGET))
    for side in ("encoder", "decoder"):
        layers = {n.split(".")[2] for n in weights if n.startswith(f"{side}.layers.")}
        if len(layers) != (number := arguments[f"num_{side}_layers"]):
            raise folder.refuse(f"{side}_layers", number, f"{len(layers)}, as the weights have")
        fields = f"{side}_ffn_dim", arguments[f"{side}_d_ff"]
        tables += [(*fields, [f"{side}.layers.{i}.fc1.weight"]) for i in range(number)]
    for field, size, names in tables:
        name, tensor = first(folder, weights, names)
        sizes = size, arguments["d_model"]
        if tensor.shape != sizes:
            expected = f"{tensor.shape}, the shape of {name}"
            raise folder.refuse(f"({field}, d_model)", sizes, expected)


def first(folder: Folder, weights: Mapping[str, Any], names: Sequence[str]) -> tuple[str, Any]:
    """The name of the first tensor that there is, and the tensor; ValueError if there is none."""
    for name in names:
        if name in weights:
            return name, weights[name]
    raise InputError(f"{folder.path}: the weights have no {names[0]}.")


def _equal(one, other):
    return one is other or np.array_equal(np.asarray(one), np.asarray(other))


def dtype_of(weights: Mapping[str, Any], spare: re.Pattern) -> str:
    """The dtype of the weights if that is half precision; else float32."""
    dtypes = {str(x.dtype) for n, x in weights.items() if x.shape[1:] and not spare.fullmatch(n)}
    return dtypes.pop() if dtypes in ({"float16"}, {"bfloat16"}) else "float32"


def tensors_of(model: Transformer) -> dict[str, np.ndarray]:
    """The weights by transformers' names; float16 stays float16.

    For the paper's sinusoids the channels are permuted: transformers' sines come first.
    """
    config, order = model.get_config(), np.arange(model.d_model)
    if config["positions"] == "sinusoidal":
        order = np.concatenate([order[0::2], order[1::2]])
    tensors = {}
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
        (name, *_), transposed = names_of(variable.path)
        if place == "embedding/embedding" and last == "embeddings":
            name = _SHARED
        if name == _BIAS:
            values = values[None]
        elif name != _HEAD:
            name = f"model.{name}"
        tensors[name] = np.ascontiguousarray(values.T if transposed else values)
    if _HEAD in tensors and config["share_embeddings"]:
        # What is not tied throughout is looked for by each of its names.
        tensors |= dict.fromkeys((f"model.{s}" for s in _SIDES), tensors[f"model.{_SHARED}"])
    return tensors
