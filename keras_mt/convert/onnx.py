"""Export to ONNX: the encoder, and one step of the decoder."""

import json
import logging
import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mt.convert.formats import LANGUAGES, ModelFormat
from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.options import check_language
from keras_mt.run_folder import RunFolder
from keras_mt.translation import Translator

FORMAT = ModelFormat("ONNX", LANGUAGES, package=("tf2onnx", "onnx"))
_OPSET = 18
# Protobuf's limit of 2 GB, less some for all that is not weights.
_MAX_BYTES = 2**31 - 2**26


def to_onnx(translator: Translator, directory: str | os.PathLike) -> None:
    """Writes the encoder and one decoder step as ONNX files, for use with your own search.

    docs/pretrained.md describes what they take and return.
    """
    FORMAT.check(translator, directory)
    model = translator.models[0].for_inference()
    size = sum(v.value.dtype.size * v.value.shape.num_elements() for v in model.variables)
    if size > _MAX_BYTES:
        raise InputError(
            f"the weights take {size / 1e9:.2f} GB, and the conversion to ONNX writes them into a "
            f"graph, of {_MAX_BYTES / 1e9:.2f} GB at most: use a smaller model."
        )
    ids = special_ids(translator)
    encoder, decoder = _functions(model)
    with new_folder(directory) as folder:
        for name, function in (("encoder", encoder), ("decoder", decoder)):
            (folder / f"{name}.onnx").write_bytes(_converted(name, function))
        RunFolder(folder).save_tokenizer(translator.tokenizer)
        (folder / "ids.json").write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")


def special_ids(translator: Translator) -> dict[str, Any]:
    """The special ids as `ids.json` has them; of several languages those of the translator's pair.

    `forced` is what a translation begins with at no cost; `max_length` counts special ids too.
    """
    tokenizer = translator.tokenizer
    for side in LANGUAGES:
        check_language(side, getattr(translator, side), translator.languages)
    codes = [translator.source_language, translator.target_language]
    codes = [tf.constant([code]) for code in codes] if translator.languages else []
    piece = -1  # As no id is.
    around = tokenizer.source_ids(tf.ragged.constant([[piece]], tf.int32), *codes).to_list()[0]
    place = around.index(piece)
    forced = tokenizer.forced_ids(*codes[1:])
    return {
        "padding": tokenizer.padding_id,
        "start": tokenizer.bos_id,
        "end": tokenizer.eos_id,
        "forbidden": [int(i) for i in tokenizer.forbidden_ids],
        "before_source": around[:place],
        "after_source": around[place + 1 :],
        "forced": [] if forced is None else forced.numpy()[0].tolist(),
        "max_length": min(model.max_length for model in translator.models),
    }


def _functions(model):
    """`start_decoding` and `decode_step` as `tf.function`s that return tensors by name."""
    cache = names = None

    def encoder(source, beams):
        nonlocal cache, names
        cache = model.start_decoding(source, beams)
        paths, tensors = zip(*keras.tree.flatten_with_path(cache), strict=True)
        names = [".".join(map(str, ("cache", *path))) for path in paths]
        return dict(zip(names, tensors, strict=True))

    def decoder(tokens, position, mask, parents, *tensors):
        before = keras.tree.pack_sequence_as(cache, list(tensors))
        before = model.reorder_cache(before, parents)
        logits, after = model.decode_step(tokens, position, before, mask)
        after = zip(names, tensors, keras.tree.flatten(after), strict=True)
        changed = {f"next.{name}": new for name, old, new in after if new is not old}
        return {"logits": logits, **changed}

    def spec(rank, name, dtype=tf.int32):
        return tf.TensorSpec([None] * rank, dtype, name=name)

    def function(python_function, *specs):
        return tf.function(python_function, autograph=False, input_signature=specs)

    encoder = function(encoder, spec(2, "source"), spec(0, "beams"))
    encoder.get_concrete_function()  # Tracing it sets `cache` and `names`.
    fixed = spec(2, "tokens"), spec(0, "position"), spec(3, "mask", tf.bool), spec(2, "parents")
    tensors = [  # Axes of size 0 grow.
        tf.TensorSpec([None, *(size or None for size in x.shape[1:])], x.dtype, name=name)
        for name, x in zip(names, keras.tree.flatten(cache), strict=True)
    ]
    return encoder, function(decoder, *fixed, *tensors)


def _converted(name, function):
    """The bytes of an ONNX file."""
    import onnx
    import tf2onnx

    # It prints tracebacks; the error below is enough.
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    model, _ = tf2onnx.convert.from_function(
        function,
        function.input_signature,
        opset=_OPSET,
        custom_op_handlers={"Bitcast": (_bitcast, []), "Erfc": (_erfc, [])},
    )
    graphs, foreign = [model.graph], set()
    while graphs:
        graph = graphs.pop()
        for node in graph.node:
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
            if not onnx.defs.has(node.op_type):
                foreign.add(node.op_type)
    if foreign:
        raise InputError(
            f"ONNX has none of the operations {', '.join(sorted(foreign))}, which the model's "
            f"{name} needs."
        )
    model.graph.name = name
    return model.SerializeToString()


def _bitcast(graph, node, name, args):
    """Removes a Bitcast around a Transpose: ONNX can transpose the floats themselves."""
    around = [node.inputs[0], *graph.find_output_consumers(node.output[0])]
    if any(other.type == "Transpose" for other in around):
        node.type = "Identity"


def _erfc(graph, node, name, args):
    """Erfc as `1 - erf(x)`; GELU uses it."""
    graph.remove_node(name)
    erf = graph.make_node("Erf", node.input).output[0]
    one = graph.make_const(f"{name}_one", np.array(1, "float32")).output[0]
    graph.make_node("Sub", [one, erf], name=name, outputs=node.output)
