"""The files of an export besides the graph: warm-up requests, model card, server configuration."""

import dataclasses
import itertools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text

from keras_mt.files import MODEL_CARD, atomic_write
from keras_mt.text import BaseTokenizer
from keras_mt.translation.interface import LANGUAGES
from keras_mt.version import __version__

if TYPE_CHECKING:
    from keras_mt.translation import Translator

# The batch sizes of the warm-up requests, up to the max_batch_size of batching.config.
_BATCH_SIZES = (1, 8, 64)

_CONFIGURATIONS = {
    "models.config": """\
# For --model_config_file: the server watches the folder and serves its newest version.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
""",
    "batching.config": """\
# For --enable_batching --batching_parameters_file: requests that arrive together are one batch.
# The maximum number of rows of a batch; a request with more is refused.
max_batch_size {{ value: {batch} }}
# How long a request waits for others. 0 is best when calls come one at a time; use up to about ten
# thousand when throughput counts.
batch_timeout_micros {{ value: 2000 }}
# How many full batches may wait before the server answers UNAVAILABLE.
max_enqueued_batches {{ value: 100 }}
# How many batches run side by side. Set it to the number of cores, and start the server with
# --tensorflow_intra_op_parallelism=1: a second core is better used for a second batch.
num_batch_threads {{ value: 2 }}
""",
}


def write_assets(
    folder: Path, signatures: Mapping[str, Callable], translator: "Translator", card: dict[str, Any]
) -> None:
    """Writes `assets.extra`: the card, and warm-up requests to all signatures."""
    from tensorflow_serving.apis import prediction_log_pb2

    assets = folder / "assets.extra"
    assets.mkdir()
    write_card(assets, card)
    texts = sample_texts(translator.tokenizer)
    languages = translator.languages or [""]  # No signature reads codes then.
    codes = [languages[i % len(languages)] for i in range(len(texts) + 1)]
    inputs = {
        "text": texts,
        # For an empty target, `align` translates the text first.
        "target": ["" if i % 2 == 0 else text for i, text in enumerate(texts)],
        "source_language": codes[:-1],
        "target_language": codes[1:],
    }
    with tf.io.TFRecordWriter(str(assets / "tf_serving_warmup_requests")) as writer:
        for name, function in signatures.items():
            for size in _BATCH_SIZES:
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                request.model_spec.signature_name = name
                for spec in function.input_signature:
                    proto = tf.make_tensor_proto(inputs[spec.name][:size], spec.dtype)
                    request.inputs[spec.name].CopyFrom(proto)
                writer.write(log.SerializeToString())


def write_configurations(folder: Path) -> None:
    """Writes configuration files into the folder of the versions; existing files are kept."""
    for name, text in _CONFIGURATIONS.items():
        if not (folder / name).exists():
            with atomic_write(folder / name) as temporary:
                filled = text.format(name=folder.name, batch=_BATCH_SIZES[-1])
                temporary.write_text(filled, encoding="utf-8")


def sample_texts(tokenizer: BaseTokenizer, number: int = _BATCH_SIZES[-1]) -> list[str]:
    """Texts of 3 to 20 words from the tokenizer's vocabulary, for warm-up requests."""
    begins = np.flatnonzero(tokenizer.begins_word)
    found = tokenizer.text(tf.RaggedTensor.from_tensor(tf.constant(begins, tf.int32)[:, None]))
    words = [word.decode("utf-8", "replace") for word in found.numpy()]
    words = itertools.cycle([word for word in words if word.isalpha()] or ["a"])
    return [" ".join(itertools.islice(words, 3 + 7 * i % 18)) for i in range(number)]


def write_card(folder: Path, card: Mapping[str, Any]) -> None:
    """Writes a model card into a folder."""
    text = json.dumps(card, indent=2, ensure_ascii=False) + "\n"
    (folder / MODEL_CARD).write_text(text, encoding="utf-8")


def model_card(
    translator: "Translator", directory: Path, card: Mapping[str, Any] | None, **options: Any
) -> dict[str, Any]:
    """The model card of an export; languages, data and quality come from the run.

    Its `options` are the translator's and those given, and the fields of `card` come last.
    """
    options = {
        **dataclasses.asdict(translator.options),
        **{name: getattr(translator, name) for name in LANGUAGES},
        "shortlist": translator.shortlist is not None,
        "trusted_attention": translator.trusted_attention,
        "reads_terms": translator.reads_terms,
        **options,
    }
    config = translator.models[0].get_config()
    tokenizer = translator.tokenizer
    return {
        "name": directory.parent.name,
        "version": directory.name,
        "license": None,
        **translator.card,
        "model": {
            "architecture": type(translator.models[0]).__name__,
            **{n: x for n, x in config.items() if isinstance(x, (bool, int, float, str))},
            "parameters": sum(model.count_params() for model in translator.models),
            "ensemble": len(translator.models),
        },
        "tokenizer": {
            "kind": tokenizer.description,
            "vocab_size": tokenizer.target_vocab_size,
            "sha256": tokenizer.fingerprint,
            **({"languages": list(tokenizer.languages)} if tokenizer.languages else {}),
        },
        "versions": {
            "tensorflow": tf.__version__,
            "keras_mt": __version__,
            "keras": keras.__version__,
            "tensorflow-text": tensorflow_text.__version__,
        },
        "options": options,
        **(card or {}),
    }
