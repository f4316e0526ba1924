"""The weights of transformers' encoder-decoder models: their names, in and out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_mt.convert.pretrained import Folder
from keras_mt.errors import InputError
from keras_mt.models import Transformer, ensure_built

# Our names of layers, and theirs. In a block:
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
# Outside the blocks, the first name that a file has: of tied weights it may have any.
_SOURCE = ("encoder.embed_tokens", "shared", "lm_head", "decoder.embed_tokens")
_TARGET = ("decoder.embed_tokens", "shared", "lm_head", "encoder.embed_tokens")
_HEAD = ("lm_head", *_TARGET)
_OUTSIDE = {
    "embedding/embedding": _TARGET,
    "source_embedding/embedding": _SOURCE,
    "target_embedding/embedding": _TARGET,
    "source_embedding/norm": ("encoder.layernorm_embedding",),
    "target_embedding/norm": ("decoder.layernorm_embedding",),
    "encoder_norm": ("encoder.layer_norm",),
    "decoder_norm": ("decoder.layer_norm",),
}
# Weights that need no reading: they are computed, or tied to another.
_SPARE = re.compile(
    r"(encoder|decoder)\.embed_positions\..*|((encoder|decoder)\.embed_tokens|shared|lm_head)\..*"
)


def names_of(path: str) -> tuple[Sequence[str], bool]:
    """The names that one of our weights may have in transformers, and whether it is transposed.

    Args:
        path: The path of a variable, such as `encoder_0/self_attention/query/kernel`.

    Example:

    >>> names_of("encoder_0/self_attention/query/kernel")
    (['encoder.layers.0.self_attn.q_proj.weight'], True)
    """
    place, _, last = path.rpartition("/")
    if last == "logits_bias":
        return ["final_logits_bias"], False
    if last == "reverse_embeddings":
        return ["lm_head.weight"], True
    if block := re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", place):
        names = (f"{block[1]}.layers.{block[2]}.{_BLOCK[block[3]]}",)
    else:
        names = _OUTSIDE[place]
    last_name = "bias" if last in ("bias", "beta") else "weight"
    return [f"{name}.{last_name}" for name in names], last == "kernel"


def read_model(
    folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any], dtype: str | None
) -> Transformer:
    """The model with a folder's weights.

    What is tied by config.json, and is in the file twice with different values, is not tied, as
    transformers 5 does (its issue 45005).

    Args:
        folder: The folder.
        arguments: Those of the model that config.json gives.
        weights: The tensors by name, from `read_weights`.
        dtype: Dtype of the model; None for that of the weights, float32 if they differ.

    Raises:
        ValueError: If a tensor is missing, unknown, or of another shape than config.json says.
    """
    arguments = {
        **arguments,
        "normalize_embeddings": "encoder.layernorm_embedding.weight" in weights,
        "final_norm": "encoder.layer_norm.weight" in weights,
    }
    for field, argument in (
        ("normalize_embedding", "normalize_embeddings"), ("add_final_layer_norm", "final_norm"),
    ):  # fmt: skip
        if folder.config.get(field) and not arguments[argument]:
            raise folder.refuse(field, True, "false, as the weights have no such normalisation")
    target = _first(weights, _TARGET)
    if arguments["share_embeddings"] and not _equal(weights, _first(weights, _SOURCE), target):
        arguments |= {"share_embeddings": False, "target_vocab_size": arguments["vocab_size"]}
    if arguments["tie_output"] and not _equal(weights, _first(weights, _HEAD), target):
        arguments["tie_output"] = False
    model = ensure_built(Transformer(**arguments, dtype=dtype or _dtype(weights)))
    used = set()
    for variable in model.variables:
        if "seed_generator" in variable.path:
            continue
        name, transposed = _checked_name(folder, weights, variable.path, tuple(variable.shape))
        if name is not None:
            used.add(name)
            values = np.asarray(weights[name])
            variable.assign((values.T if transposed else values).reshape(variable.shape))
    if unknown := sorted(n for n in weights if n not in used and not _SPARE.fullmatch(n)):
        raise InputError(f"{folder.path} has weights that are not understood: {unknown[0]}.")
    return model


def check_sizes(folder: Folder, arguments: dict[str, Any], weights: Mapping[str, Any]) -> None:
    """Checks config.json against the shapes of the weights, before memory is allocated.

    Raises:
        ValueError: If they differ; the message names the field or the tensor.
    """
    embeddings = [("vocab_size", "vocab_size", _SOURCE)]
    if not arguments["share_embeddings"]:
        embeddings.append(("decoder_vocab_size", "target_vocab_size", _TARGET))
    sizes = []
    for field, argument, names in embeddings:
        name = _first(weights, names)
        sizes += [(field, arguments[argument], name, 0), ("d_model", arguments["d_model"], name, 1)]
    for side in ("encoder", "decoder"):
        name = _first(weights, [f"{side}.layers.0.fc1"], "bias")
        sizes.append((f"{side}_ffn_dim", arguments[f"{side}_d_ff"], name, 0))
    for field, size, name, axis in sizes:
        shape = tuple(weights[name].shape)
        if len(shape) <= axis or shape[axis] != size:
            raise folder.refuse(field, size, f"that of {name}, whose shape is {shape}")
    for side in ("encoder", "decoder"):
        layers = {n.split(".")[2] for n in weights if n.startswith(f"{side}.layers.")}
        if len(layers) != (number := arguments[f"num_{side}_layers"]):
            raise folder.refuse(f"{side}_layers", number, f"{len(layers)}, as the weights have")
        for path, shape in _block_shapes(arguments["d_model"], arguments[f"{side}_d_ff"]).items():
            for i in range(number):
                if side == "decoder" or not path.startswith("cross_attention"):
                    _checked_name(folder, weights, f"{side}_{i}/{path}", shape)


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


def _checked_name(folder, weights, path, shape):
    """The name of a variable's tensor, None for a missing logits bias; and if it is transposed."""
    names, transposed = names_of(path)
    if names == ["final_logits_bias"]:
        if names[0] not in weights:
            return None, False
        shape = (1, *shape)
    name = next((name for name in names if name in weights), None)
    if name is None:
        raise InputError(f"{folder.path}: the weights have no {names[0]}.")
    expected, found = shape[::-1] if transposed else shape, tuple(weights[name].shape)
    if found != expected:
        raise InputError(
            f"{folder.path}: {name} must have the shape {expected}, to agree with config.json. "
            f"It has the shape {found}."
        )
    return name, transposed


def _first(weights, names, last="weight"):
    for name in names:
        if f"{name}.{last}" in weights:
            return f"{name}.{last}"
    raise InputError(f"The weights have no {names[0]}.{last}.")


def _equal(weights, one, other):
    return one == other or np.array_equal(np.asarray(weights[one]), np.asarray(weights[other]))


def _dtype(weights):
    """The dtype of the weights if that is half precision; else float32."""
    dtypes = {
        str(x.dtype) for n, x in weights.items() if len(x.shape) > 1 and not _SPARE.fullmatch(n)
    }
    dtype = dtypes.pop() if len(dtypes) == 1 else "float32"
    return dtype if dtype in ("float16", "bfloat16") else "float32"


def tensors_of(model: Transformer) -> dict[str, np.ndarray]:
    """The weights by transformers' names: float16 if they are that in the model, else float32.

    Those of a model with the paper's sinusoids are permuted: in transformers' the sines come before
    the cosines.

    Args:
        model: The model.
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
        names, transposed = names_of(variable.path)
        shared = place == "embedding/embedding" and last == "embeddings"
        name = "shared.weight" if shared else names[0]
        outside = name == "final_logits_bias" or name.startswith("lm_head")
        values = np.ascontiguousarray(values.T if transposed else values)
        tensors[name if outside else f"model.{name}"] = values
    if (bias := tensors.get("final_logits_bias")) is not None:
        tensors["final_logits_bias"] = bias[None]
    if "lm_head.weight" in tensors and config["share_embeddings"]:
        # What is not tied throughout is looked for by each of its names.
        for side in ("encoder", "decoder"):
            tensors[f"model.{side}.embed_tokens.weight"] = tensors["model.shared.weight"]
    return tensors
