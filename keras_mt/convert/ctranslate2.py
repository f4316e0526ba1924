"""Export to CTranslate2."""

import os
from pathlib import Path
from typing import Any

import keras

from keras_mt.convert.formats import ModelFormat, check_model
from keras_mt.files import new_folder
from keras_mt.layers import DecoderBlock
from keras_mt.layers.positional_embedding import ENCODINGS
from keras_mt.run_folder import RunFolder
from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "CTranslate2",
    {"quantization", "shortlist"},
    quantizations=("int8", "int16", "float16"),
    package=("ctranslate2", "ctranslate2"),
)
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH"}  # CTranslate2's by our names.


def to_ctranslate2(
    translator: Translator, directory: str | os.PathLike, quantization: str | None = None
) -> None:
    """Writes a folder that `ctranslate2.Translator(directory)` loads, with the tokenizer in it.

    A shortlist becomes the vocabulary map that `use_vmap=True` reads.
    """
    FORMAT.check(translator, directory, quantization)
    spec = specification(translator)
    with new_folder(directory) as temporary:
        save(spec, temporary, quantization)
        RunFolder(temporary).save_tokenizer(translator.tokenizer)
        if translator.shortlist is not None:
            (temporary / "vmap.txt").write_text(_vocabulary_map(translator), encoding="utf-8")


def specification(translator: Translator) -> Any:
    """CTranslate2's specification of a model with its weights and its vocabularies."""
    spec, tokenizer = _spec(translator.models[0]), translator.tokenizer
    sources, names = _vocabularies(tokenizer)
    spec.register_source_vocabulary(sources)
    spec.register_target_vocabulary(names)
    spec.config.decoder_start_token = spec.config.bos_token = names[tokenizer.bos_id]
    spec.config.eos_token = names[tokenizer.eos_id]
    spec.config.add_source_eos = not tokenizer.languages  # Otherwise the caller adds the end.
    return spec


def save(spec: Any, folder: Path, quantization: str | None) -> None:
    """Writes what `ctranslate2.Translator(folder)` loads."""
    spec.validate()
    spec.optimize(quantization=quantization or "float32")
    spec.save(str(folder))


def _vocabulary_map(translator):
    """The shortlist as CTranslate2 reads it; what is always there belongs to an empty source."""
    shortlist, tokenizer = translator.shortlist, translator.tokenizer
    sources, names = _vocabularies(tokenizer)
    always = [tokenizer.padding_id, *tokenizer.forbidden_ids, *shortlist.always]
    rows = zip(["", *sources], [always, *shortlist.table], strict=True)
    return "".join(
        f"{source}\t{' '.join(names[i] for i in targets if i >= 0)}\n" for source, targets in rows
    )


def _vocabularies(tokenizer):
    """The pieces of both sides; empty ones get a name, since all must be different."""
    sources = tokenizer.source_id_to_string(range(tokenizer.source_vocab_size))
    sides = sources, tokenizer.id_to_string(range(tokenizer.target_vocab_size))
    return [[x.decode() or f"<unused{i}>" for i, x in enumerate(side.numpy())] for side in sides]


def _spec(model):
    """CTranslate2's specification of the layers, with the weights."""
    from ctranslate2.specs import common_spec, transformer_spec

    config = model.get_config()
    known = {
        "positions": (*ENCODINGS, "rotary"),
        "activation": tuple(_ACTIVATIONS),
        "num_key_value_heads": (None, config.get("num_heads")),
        "gated": None,
        "normalize_embeddings": None,
    }
    check_model("CTranslate2", model, known)
    embeddings = model.source_embedding, model.target_embedding
    # Shared embeddings are converted once: they may be most of the weights.
    tables = {id(layer.embedding): _matrix(layer.embedding.embeddings) for layer in embeddings}
    options = {
        "pre_norm": config["pre_norm"],
        "no_final_norm": model.encoder_stack.norm is None,
        "activation": common_spec.Activation[_ACTIVATIONS[config["activation"]]],
        "ffn_glu": config["gated"],
        "layernorm_embedding": embeddings[0].norm is not None,
    }
    if config["positions"] == "rotary":
        options |= {"rotary_dim": 0, "rotary_interleave": False}
    sides = []
    for spec_class, stack, embedding in (
        (transformer_spec.TransformerEncoderSpec, model.encoder_stack, model.source_embedding),
        (transformer_spec.TransformerDecoderSpec, model.decoder_stack, model.target_embedding),
    ):
        side = spec_class(len(stack.blocks), stack.blocks[0].num_heads, **options)
        table = side.embeddings[0] if isinstance(side.embeddings, list) else side.embeddings
        table.weight = tables[id(embedding.embedding)]
        side.scale_embeddings = embedding.scale
        if embedding.encoding is not None:
            side.position_encodings.encodings = _array(embedding._table())
        if embedding.norm is not None:
            _norm(side.layernorm_embedding, embedding.norm)
        if stack.norm is not None:
            _norm(side.layer_norm, stack.norm)
        for layer, block in zip(side.layer, stack.blocks, strict=True):
            _block(layer, block)
        sides.append(side)
    output = embedding.embedding
    side.projection.weight = (
        tables[id(output)] if output.tie_weights else _matrix(output.reverse_embeddings).T.copy()
    )
    if embedding.use_bias:
        side.projection.bias = _array(embedding.logits_bias)
    return transformer_spec.TransformerSpec(*sides)


def _block(layer, block):
    """The weights of a block."""
    heads = block.self_attention
    _linear(layer.self_attention.linear[0], heads.query_dense, heads.key_dense, heads.value_dense)
    _linear(layer.self_attention.linear[1], heads.output_dense)
    _norm(layer.self_attention.layer_norm, block.self_attention_norm)
    if isinstance(block, DecoderBlock):
        cross = block.cross_attention
        _linear(layer.attention.linear[0], cross.query_dense)
        _linear(layer.attention.linear[1], cross.key_dense, cross.value_dense)
        _linear(layer.attention.linear[2], cross.output_dense)
        _norm(layer.attention.layer_norm, block.cross_attention_norm)
    inner = block.feed_forward
    if inner.gated:
        _linear(layer.ffn.linear_0, inner.gate_dense)
        _linear(layer.ffn.linear_0_noact, inner.inner_dense)
    else:
        _linear(layer.ffn.linear_0, inner.inner_dense)
    _linear(layer.ffn.linear_1, inner.output_dense)
    _norm(layer.ffn.layer_norm, block.feed_forward_norm)


def _linear(spec, *layers):
    """Dense layers on the same input, fused into one."""
    from ctranslate2.converters import utils
    from ctranslate2.specs import common_spec

    parts = [common_spec.LinearSpec() for _ in layers]
    for part, layer in zip(parts, layers, strict=True):
        part.weight, part.bias = _matrix(layer.kernel).T.copy(), _array(layer.bias)
    utils.fuse_linear(spec, parts)


def _norm(spec, layer):
    spec.gamma, spec.beta = _array(layer.gamma), _array(layer.beta)


def _matrix(weight):
    """A weight in its own dtype: CTranslate2 converts one by one, so half precision stays small."""
    return keras.ops.convert_to_numpy(weight)


def _array(weight):
    return keras.ops.convert_to_numpy(keras.ops.cast(weight, "float32"))
