"""Export to LiteRT (TensorFlow Lite), with the search in the model."""

import os
import re

import tensorflow as tf

from keras_mt.convert.formats import LANGUAGES, SAMPLING, SEARCH, ModelFormat
from keras_mt.convert.ids import special_ids, write_ids
from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.inference import Predictor
from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "LiteRT", {*SEARCH, *LANGUAGES, "quantization"} - {*SAMPLING}, quantizations=("int8",)
)


def to_litert(
    translator: Translator, directory: str | os.PathLike, quantization: str | None = None
) -> None:
    """Writes a model that LiteRT's interpreter runs: ids of a source in, ids of translations out.

    `model.tflite` includes the search, for the translator's languages, in builtin operations.
    """
    FORMAT.check(translator, directory, quantization)
    model = translator.models[0].for_inference()
    ids = special_ids(translator)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [_search(translator, model, ids).get_concrete_function()], model
    )
    if quantization:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        converted = converter.convert()
    except Exception as error:  # The converter's own exception has no more specific base class.
        foreign = re.search(r"(?:Select|Custom) ops: (.*)", str(error))
        if foreign is None:
            raise
        raise InputError(
            f"LiteRT has none of the operations {foreign[1]}, which the model or an option of the "
            "search needs."
        ) from None
    with new_folder(directory) as folder:
        (folder / "model.tflite").write_bytes(converted)
        write_ids(folder, translator, ids)


def _search(translator, model, ids):
    """The search as a function of a source's ids; the converter takes no variables in its loop."""
    predictor = Predictor([model]).frozen("LiteRT's converter", "it is too large for LiteRT")
    graph = translator.graph(predictor)
    added = len(ids["before_source"]) + len(ids["after_source"])

    def translate(source):
        lengths = tf.shape(source)[1:] - added
        prefix = tf.constant([ids["forced"]]) if ids["forced"] else None
        found = predictor.search(
            graph.tokenizer,
            graph.options,
            len(ids["forced"]),
            source,
            lengths,
            lengths <= 0,
            prefix,
        )
        # LiteRT's Python interpreter cannot return an empty tensor, as for an empty source.
        tokens = tf.pad(found.tokens, ((0, 0), (0, 0), (0, 1)), constant_values=ids["padding"])
        return {**found._asdict(), "tokens": tokens}

    # One row: for recurrent layers, the converter needs the static shape of what a loop collects.
    source = tf.TensorSpec([1, None], tf.int32, name="source")
    return tf.function(translate, autograph=False, input_signature=[source])
