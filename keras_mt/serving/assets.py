"""The files of an export besides the graph: warm-up requests, model card, server configuration."""

import contextlib
import importlib.metadata
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from keras_mt.files import atomic_write
from keras_mt.text import BaseTokenizer

if TYPE_CHECKING:
    from keras_mt.translation import Translator

# The batch sizes of the warm-up requests, up to the max_batch_size of batching.config.
_BATCH_SIZES = (1, 8, 64)

_MODELS = """\
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
  }}
}}
"""

_BATCHING = f"""\
max_batch_size {{ value: {_BATCH_SIZES[-1]} }}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 2 }}
"""

_README = """\
# {name}

A translator for TensorFlow Serving, written by keras_mt. A server that watches this folder serves
the version with the highest number.

```sh
docker run -p 8500:8500 -p 8501:8501 -v "$PWD:/models/{name}" \\
  --env TF_ONEDNN_ASSUME_FROZEN_WEIGHTS=1 tensorflow/serving \\
  --model_config_file=/models/{name}/models.config \\
  --enable_batching --batching_parameters_file=/models/{name}/batching.config
```

`batching.config` lets the server put requests that arrive together into one batch:

- `max_batch_size`: the maximum number of rows of a batch, {batch}; a request with more is refused.
- `batch_timeout_micros`: how long a request waits for others, in microseconds. 0 is best when calls
  come one at a time; use up to about ten thousand when throughput counts.
- `max_enqueued_batches`: how many full batches may wait before the server answers UNAVAILABLE.
- `num_batch_threads`: how many batches run side by side. Set it to the number of cores, and start
  the server with `--tensorflow_intra_op_parallelism=1`: a second core is better used for a second
  batch than for the small matrix products of one.

These files are written once. Change them as you like: later exports do not overwrite them.
"""


def write_assets(
    folder: Path,
    signatures: Mapping[str, Callable],
    texts: Sequence[str],
    languages: Sequence[str],
    card: dict[str, Any],
) -> None:
    """Writes `assets.extra`: the card, and requests to all signatures, made of `texts`."""
    from tensorflow_serving.apis import prediction_log_pb2

    assets = folder / "assets.extra"
    assets.mkdir()
    (assets / "model_card.json").write_text(
        json.dumps(card, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    with tf.io.TFRecordWriter(str(assets / "tf_serving_warmup_requests")) as writer:
        for name, function in signatures.items():
            for size in _BATCH_SIZES:
                chosen = [texts[i % len(texts)] for i in range(size)]
                log = prediction_log_pb2.PredictionLog()
                request = log.predict_log.request
                request.model_spec.signature_name = name
                values = _inputs(chosen, languages)
                for spec in function.input_signature:
                    proto = tf.make_tensor_proto(values[spec.name], spec.dtype)
                    request.inputs[spec.name].CopyFrom(proto)
                writer.write(log.SerializeToString())


def _inputs(texts, languages):
    """Values of all inputs that a signature may have, by their names."""
    values = {
        "text": texts,
        # For an empty target, `align` translates the text first.
        "target": ["" if i % 2 == 0 else text for i, text in enumerate(texts)],
    }
    if languages:
        codes = [languages[i % len(languages)] for i in range(len(texts) + 1)]
        values |= {"source_language": codes[:-1], "target_language": codes[1:]}
    return values


def write_configurations(folder: Path) -> None:
    """Writes configuration files into the folder of the versions; existing files are kept."""
    texts = {
        "models.config": _MODELS.format(name=folder.name),
        "batching.config": _BATCHING,
        "README.md": _README.format(name=folder.name, batch=_BATCH_SIZES[-1]),
    }
    for name, text in texts.items():
        if not (folder / name).exists():
            with atomic_write(folder / name) as temporary:
                temporary.write_text(text, encoding="utf-8")


def sample_texts(tokenizer: BaseTokenizer, number: int = _BATCH_SIZES[-1]) -> list[str]:
    """Texts of 3 to 20 words from the tokenizer's vocabulary, for warm-up requests."""
    begins = np.flatnonzero(tokenizer.begins_word)
    found = tokenizer.text(tf.RaggedTensor.from_tensor(tf.constant(begins, tf.int32)[:, None]))
    words = [word.decode("utf-8", "replace") for word in found.numpy()]
    words = itertools.cycle([word for word in words if word.isalpha()] or ["a"])
    return [" ".join(itertools.islice(words, 3 + 7 * i % 18)) for i in range(number)]


def model_card(translator: "Translator", directory: Path) -> dict[str, Any]:
    """The model card of an export; languages, data and quality come from the run."""
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
        "versions": _versions(),
    }


def _versions():
    versions = {"tensorflow": tf.__version__}  # Its package may be tensorflow-cpu, say.
    for name in ("keras_mt", "keras", "tensorflow-text"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions
