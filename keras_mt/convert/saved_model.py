"""Export to a SavedModel that stock TensorFlow Serving can load."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_mt.convert.assets import model_card, write_assets, write_configurations
from keras_mt.convert.formats import ExportOptions, ModelFormat
from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.errors import InputError
from keras_mt.files import atomic_write, version_number
from keras_mt.inference import Predictor
from keras_mt.options import TranslationOptions
from keras_mt.translation.interface import LANGUAGES
from keras_mt.translation.results import MEASURES

if TYPE_CHECKING:  # It imports this module to export.
    from keras_mt.translation import Translator

FORMAT = ModelFormat(
    "TensorFlow Serving",
    {*vars(TranslationOptions()), *vars(ExportOptions()), "ensemble", "shortlist"}
    - {"quantization"},
)

# The tensorflow_text ops in stock TensorFlow Serving, which has all ops of TensorFlow itself.
_TEXT_OPS = {
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
    "SentencepieceDetokenizeOp",
    "SentencepieceIdToStringOp",
}


def to_saved_model(
    translator: "Translator",
    directory: str | os.PathLike,
    dtype: str = "float32",
    card: dict[str, Any] | None = None,
    signatures: Sequence[str] | None = None,
) -> None:
    """Exports a translator as a SavedModel; see `Translator.export`.

    Next to a version, a directory whose name is a number, go configuration files for a server.
    """
    FORMAT.check(translator, directory)
    directory = Path(directory).absolute()
    configs = [model.get_config() for model in translator.models]
    # T5's sums of sublayers reach beyond float16's 65504.
    if dtype == "float16" and not all(config.get("scale_attention", True) for config in configs):
        raise InputError(
            "dtype must be float32 or bfloat16 for T5, mT5 and MADLAD-400, whose values are too "
            "large for float16. Received: dtype='float16'"
        )
    # Before the work, since it may fail on what is missing.
    card = model_card(translator, directory, card, dtype=dtype)
    models = [model.for_inference(dtype) for model in translator.models]
    predictor = Predictor(models, translator.shortlist)
    functions = _signatures(translator, predictor, signatures)
    module = tf.Module()
    module.variables_ = [variable.value for variable in predictor.variables]
    module.tokenizer = translator.tokenizer
    # The temporary name is not a number, so a server that watches the folder ignores it.
    with atomic_write(directory) as temporary:
        tf.saved_model.save(module, temporary, signatures=functions)
        _check_ops(temporary)
        write_assets(temporary, functions, translator, card)
        if version_number(directory.name) is not None:
            write_configurations(directory.parent)


def _signatures(translator, predictor, names):
    """The export's functions by name; the first axis of each input and output is the batch."""
    predictor = predictor.with_constant_vectors()
    plain = translator.graph(predictor)
    greedy = translator.graph(
        predictor, beam_size=1, n_best=1, temperature=None, top_k=0, top_p=1.0
    )

    def translate(graph, *outputs, **flags):
        def run(**columns):
            results = graph.translate(**columns, **flags)
            return {name: results[name] for name in ("translations", "scores", *outputs)}

        return run

    def score(**columns):
        outputs = plain.score(**columns)
        log_probs = tf.reduce_sum(outputs["log_probs"], axis=1)
        return {
            "log_probs": tf.where(outputs["refused"] == "", log_probs, NO_HYPOTHESIS),
            "tokens": outputs["tokens"],
            "token_log_probs": outputs["log_probs"],
            "lengths": outputs["lengths"],
        }

    def align(**columns):
        outputs = plain.align(**columns, confidence="confidence" in chosen)
        del outputs["refused"], outputs["lengths"]
        return outputs

    # Each with its inputs besides the text and the languages.
    functions = {
        "serving_default": (translate(plain), {}),
        "greedy": (translate(greedy), {}),
        "score": (score, {"target": tf.string}),
        "confidence": (translate(plain, *MEASURES, confidence=True), {}),
    }
    if plain.supports_alignment:
        functions["align"] = align, {"target": tf.string}
    chosen = {*functions} - {"confidence"} if names is None else {*names}
    if "serving_default" not in chosen or not chosen <= functions.keys():
        raise InputError(
            f"signatures must be serving_default and others of {', '.join(functions)}. "
            f"Received: signatures={list(names)}"
        )
    languages = dict.fromkeys(LANGUAGES, tf.string) if translator.languages else {}
    return {
        name: _signature(function, {"text": tf.string, **dtypes, **languages})
        for name, (function, dtypes) in functions.items()
        if name in chosen
    }


def _signature(function, dtypes):
    """A `tf.function` of columns of these dtypes, which must be of the same size."""

    def of_same_size(*columns):
        message = f"{', '.join(dtypes)} must have the same number of rows."
        for column in columns[1:]:
            tf.debugging.assert_equal(tf.size(column), tf.size(columns[0]), message)
        return function(**dict(zip(dtypes, columns, strict=True)))

    specs = [tf.TensorSpec([None], dtype, name=name) for name, dtype in dtypes.items()]
    # Nothing in it needs AutoGraph, which would take most of the tracing time.
    return tf.function(of_same_size, autograph=False, input_signature=specs)


def _check_ops(directory):
    """Refuses a SavedModel that stock TensorFlow Serving could not load."""
    saved_model = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    ops = set()
    for graph in (meta_graph.graph_def for meta_graph in saved_model.meta_graphs):
        functions = graph.library.function  # The file's list of ops lacks some of the functions'.
        nodes = [*graph.node, *(node for function in functions for node in function.node_def)]
        ops |= {node.op for node in nodes} - {function.signature.name for function in functions}
    foreign = sorted(ops - _TEXT_OPS - set(dir(tf.raw_ops)))
    if foreign:
        raise InputError(
            f"The graph holds {', '.join(foreign)}: stock TensorFlow Serving has TensorFlow's own "
            "ops and tensorflow_text's SentencePiece, and could not load it."
        )
