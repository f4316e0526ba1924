"""Export to LiteRT (TensorFlow Lite), with the search in the model."""

import collections
import itertools
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import keras
import numpy as np
import tensorflow as tf
from tensorflow.lite.python import schema_py_generated as schema

from keras_mt.convert.assets import model_card, write_card
from keras_mt.convert.formats import SAMPLING, ModelFormat
from keras_mt.errors import InputError
from keras_mt.files import LITERT_MODEL, new_folder
from keras_mt.inference import Predictor
from keras_mt.layers.layer import inner_layers
from keras_mt.options import TranslationOptions
from keras_mt.run_folder import RunFolder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "LiteRT",
    {*vars(TranslationOptions()), "quantization", "card", "shortlist"} - {*SAMPLING},
    quantizations=("int8", "float32"),
)

_BLOCK = 16  # Positions that the cache of a search grows by at once.


def to_litert(
    translator: Translator,
    directory: str | os.PathLike,
    quantization: str | None = None,
    card: dict[str, Any] | None = None,
) -> None:
    """Writes a folder that `ExportedTranslator` translates with, without TensorFlow.

    `model.tflite` includes the search, in builtin operations. Beside it lie the tokenizer, which
    must be one of ours, and the model card with the options.
    """
    FORMAT.check(translator, directory, quantization)
    quantization = quantization or "int8"
    if type(translator.tokenizer) not in (Tokenizer, PretrainedTokenizer):
        raise InputError(
            "An export to LiteRT takes a Tokenizer or a PretrainedTokenizer, which work without "
            f"TensorFlow. Received: {type(translator.tokenizer).__name__}"
        )
    model = translator.models[0].for_inference()
    # The converter needs static sizes in the loops of recurrent layers.
    rows = 1 if any(isinstance(x, keras.layers.RNN) for x in inner_layers(model)) else None
    predictor = Predictor([model], translator.shortlist)
    # A model of the user's may not write its cache in place.
    block = _BLOCK if type(model).__module__.partition(".")[0] == "keras_mt" else 0
    predictor = predictor.in_place(block, quantization == "int8")
    functions = _signatures(translator.graph(predictor), rows)
    settings = {"quantization": quantization, "rows": rows, "limit": predictor.max_length}
    card = {"name": Path(directory).name, "version": None, **(card or {})}
    card = model_card(translator, Path(directory), card, **settings)
    with new_folder(directory) as folder:
        (folder / LITERT_MODEL).write_bytes(_converted(functions, predictor, quantization))
        RunFolder(folder).save_tokenizer(translator.tokenizer)
        write_card(folder, card)


def _signatures(graph, rows) -> dict[str, Callable]:
    """The functions `translate` and `score` of ids `[rows, length]`, padded, as the docs say."""
    predictor, tokenizer = graph.predictor, graph.tokenizer
    padding_id, forced = tokenizer.padding_id, graph.segmenter.forced

    def translate(source, lengths, prefix=None):
        found = predictor.search(
            tokenizer, graph.options, forced, source, lengths, lengths <= 0, prefix
        )
        # LiteRT's Python interpreter cannot return an empty tensor, as for an empty source.
        tokens = tf.pad(found.tokens, ((0, 0), (0, 0), (0, 1)), constant_values=padding_id)
        return {**found._asdict(), "tokens": tokens}

    def score(source, target):
        inputs = tf.pad(target, ((0, 0), (1, 0)), constant_values=tokenizer.bos_id)[:, :-1]
        outputs = {"log_probs": predictor.score(source, inputs, target)}
        attention = predictor.attention(source, inputs)
        return outputs if attention is None else {**outputs, "attention": attention}

    def function(python_function, **shapes):
        specs = [tf.TensorSpec(shape, tf.int32, name=name) for name, shape in shapes.items()]
        return tf.function(python_function, autograph=False, input_signature=specs)

    prefix = {"prefix": (rows, forced)} if forced else {}
    return {
        "translate": function(translate, source=(rows, None), lengths=(rows,), **prefix),
        "score": function(score, source=(rows, None), target=(rows, None)),
    }


def _converted(functions, predictor, quantization):
    """The bytes of a model of LiteRT, in which the functions share their weights."""
    module = tf.Module()
    module.variables_ = [variable.value for variable in predictor.variables]
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures=functions)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder, [*functions])
        if quantization == "int8":
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            converted = converter.convert()
        except Exception as error:  # The converter's own exception has no more specific base class.
            foreign = re.search(r"(?:Select|Custom) ops: (.*)", str(error))
            if foreign is None:
                raise
            raise InputError(
                f"LiteRT has none of the operations {foreign[1]}, which the model or an option of "
                "the search needs."
            ) from None
    return _with_shared_tables(converted)


def _with_shared_tables(converted):
    """The bytes of a model in which embeddings in 8 bits and a projection by them are one table.

    The converter rounds the projection's table by itself, so that values may differ by 1. Where
    none does, it shares the table itself.
    """
    model, found = schema.ModelT.InitFromPackedBuf(converted, 0), collections.defaultdict(dict)
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        is_table = tensor.type == schema.TensorType.INT8 and len(tensor.shape) == 2
        if is_table and model.buffers[tensor.buffer].data is not None:
            is_quantized = tensor.quantization is not None and tensor.quantization.scale is not None
            found[is_quantized].setdefault(tensor.buffer, []).append(tensor)
    for (place, tables), other in itertools.product(found[False].items(), found[True]):
        table, weights = (model.buffers[i].data for i in (place, other))
        alike = place != other and table is not None and len(table) == len(weights)
        if alike and np.abs(table.view("int8") - weights.view("int8").astype("int16")).max() <= 1:
            model.buffers[place].data = None
            for tensor in tables:
                tensor.buffer = other
    builder = flatbuffers.Builder(len(converted))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
