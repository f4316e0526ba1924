"""Models of ours in LiteRT's format (TensorFlow Lite's), with the search inside."""

import os
import re

import tensorflow as tf

from keras_mt.convert.ids import single_model, special_ids, write_ids
from keras_mt.files import check_new, new_folder
from keras_mt.translation import Translator
from keras_mt.translation.frozen import Frozen
from keras_mt.translation.graph import TranslationGraph


def to_litert(
    translator: Translator, directory: str | os.PathLike, quantization: str | None = None
) -> None:
    """Writes a model that LiteRT's interpreter runs: ids in, the ids of translations out.

    `model.tflite` has the translator's own search in it, of LiteRT's own operations alone. Its
    signature takes one `source`, int32 `[1, length]`, with the special ids around the pieces that
    `ids.json` says, and gives what `Hypotheses` holds, best first: `tokens`, int32
    `[1, n_best, length]`, padded, their `lengths`, int32, and `scores`, float32 `[1, n_best]`. The
    tokenizer stands beside it.

    Args:
        translator: A `Translator` of one model; of several languages, with both of them given,
            which the file then translates between.
        directory: The folder to write.
        quantization: `"int8"` keeps the weights of products in 8 bits and computes their inputs
            in 8 bits as they come; None for float32.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If the model or an option of the search needs what LiteRT has not; the message
            names it.

    Example:

    >>> to_litert(Translator.load("runs/pt_en", beam_size=1), "pt_en_litert")  # doctest: +SKIP
    """
    if quantization not in (None, "int8"):
        raise ValueError(f"quantization must be int8. Received: quantization={quantization!r}")
    check_new(directory)
    model = single_model(translator, "LiteRT")
    if translator.options.samples:
        raise ValueError("LiteRT has no operations to sample with: leave temperature out.")
    model = model.for_inference()
    ids = special_ids(translator)
    converter = tf.lite.TFLiteConverter.from_concrete_functions(
        [_search(translator, model, ids).get_concrete_function()], model
    )
    if quantization:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        converted = converter.convert()
    except Exception as error:  # The converter has one of its own, which derives from nothing else.
        foreign = re.search(r"(?:Select|Custom) ops: (.*)", str(error))
        if foreign is None:
            raise
        raise ValueError(
            f"LiteRT has none of the operations {foreign[1]}, which the model or an option of the "
            "search needs."
        ) from None
    with new_folder(directory) as folder:
        (folder / "model.tflite").write_bytes(converted)
        write_ids(folder, translator, ids)


def _search(translator, model, ids):
    """The search for sources of ids, with the weights as constants.

    The converter makes nothing of variables in the body of a loop.
    """
    graph = TranslationGraph(
        [model],
        translator.tokenizer,
        translator.options,
        translator.max_length,
        translator.split_sentences,
    )
    scope = Frozen(model.variables, "LiteRT's converter", "it is too large for LiteRT")
    added = len(ids["before_source"]) + len(ids["after_source"])

    def search(source):
        lengths = tf.shape(source)[1:] - added
        forced = {}
        if ids["forced"]:
            forced["prefix"] = tf.constant([ids["forced"]])
            forced["forced_length"] = tf.constant([len(ids["forced"])])
        with scope:
            found = graph.search(source, lengths, lengths <= 0, **forced)
        # The interpreter in Python gives no empty tensors back, as of an empty source.
        tokens = tf.pad(found.tokens, ((0, 0), (0, 0), (0, 1)), constant_values=ids["padding"])
        return {**found._asdict(), "tokens": tokens}

    # One row: the converter wants to know the shape of what a recurrent layer's loop collects.
    source = tf.TensorSpec([1, None], tf.int32, name="source")
    return tf.function(search, autograph=False, input_signature=[source])
