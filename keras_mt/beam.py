"""Translation in Apache Beam pipelines."""

import atexit
import logging
import shutil
import tempfile
from pathlib import Path
from typing import Any

from keras_mt.extras import require
from keras_mt.text import Glossary
from keras_mt.translation.exported import ExportedTranslator

try:
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.metrics import Metrics
    from apache_beam.ml.inference.base import KeyedModelHandler, ModelHandler, RunInference
except ModuleNotFoundError:
    require("apache_beam", "beam", "keras_mt.beam")
    raise

__all__ = ["Translate"]

# Texts that a worker takes at once: enough for batches of similar length, a batch for each core.
_TEXTS = 1024
_NAMESPACE = "keras_mt"  # Of the metrics.


class _Handler(ModelHandler[str, str, ExportedTranslator]):
    """From texts to translations. Each worker process loads the model once."""

    def __init__(self, saved_model, options, batching) -> None:
        super().__init__(**batching)
        self._saved_model, self._options = saved_model, options
        self._refused = Metrics.counter(_NAMESPACE, "refused_texts")

    def load_model(self):
        translator = ExportedTranslator(_on_disk(self._saved_model), *self._options)
        translator("")  # So that the weights are read here, and not by the first batch.
        return translator

    def run_inference(self, batch, model, inference_args=None):
        results = model.hypotheses(batch)
        for i, reason in results.refusals.items():
            logging.warning("The text %.200r is refused: %s", batch[i], reason)
            self._refused.inc()
        return [found[0].text if found else "" for found in results]


class Translate(RunInference):
    """A Beam transform from pairs (key, text) to pairs (key, translation).

    It is Beam's `RunInference`, and so has its metrics, in the namespace `keras_mt`, and its
    methods. A text that is refused, such as one with a line above the model's limit, has the
    translation ""; a warning in the worker's log says why, and the counter `refused_texts` counts
    it.

    An error in the worker, such as a text that is no str, ends the pipeline. With
    `Translate(...).with_exception_handling()` the result is the translations and, as of
    `RunInference`, a `RunInferenceDLQ` with the batches that failed, in `failed_inferences`.

    Texts of similar length are translated together. In a batch pipeline that is so within the texts
    of a bundle. In a stream, where bundles are small, give `max_batch_duration_secs`: Beam then
    collects texts of similar length for that long.

    Args:
        saved_model: An export, as for an `ExportedTranslator`: a folder that the workers see, or an
            address in a file system that Beam knows, such as `gs://bucket/en_de/1`, which each
            process copies to its own disk.
        source_language, target_language, glossary: As for an `ExportedTranslator`.
        **batching: As for Beam's `ModelHandler`, such as `max_batch_size`. By default the texts
            taken at once are up to 1,024.

    Raises:
        ValueError: If apache_beam is not installed (the extra `beam`).

    Reference:
        https://beam.apache.org/documentation/ml/about-ml

    Example:

    >>> import apache_beam as beam
    >>> with beam.Pipeline() as pipeline:  # doctest: +SKIP
    ...     pipeline | beam.Create([(1, "O livro.")]) | Translate("saved_models/pt_en")
    ...              | beam.Map(print)
    (1, 'The book.')
    """

    def __init__(
        self,
        saved_model: str,
        source_language: str | None = None,
        target_language: str | None = None,
        glossary: Glossary | None = None,
        **batching: Any,
    ):
        defaults = {"min_batch_size": _TEXTS, "max_batch_size": _TEXTS, "batch_length_fn": _length}
        options = source_language, target_language, glossary
        handler = KeyedModelHandler(_Handler(str(saved_model), options, defaults | batching))
        super().__init__(handler, metrics_namespace=_NAMESPACE)


def _length(pair):
    return len(pair[1])


def _on_disk(directory):
    """The folder, or a copy of it on this machine's disk if it is elsewhere."""
    if FileSystems.get_scheme(directory) is None:
        return directory
    folder = tempfile.mkdtemp(prefix="keras_mt.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (found,) = FileSystems.match([FileSystems.join(directory, "**")])
    for file in found.metadata_list:
        copy = Path(folder, file.path.removeprefix(directory.rstrip("/") + "/"))
        copy.parent.mkdir(parents=True, exist_ok=True)
        plain = {"compression_type": CompressionTypes.UNCOMPRESSED}
        with FileSystems.open(file.path, **plain) as source, open(copy, "wb") as target:
            shutil.copyfileobj(source, target)
    return folder
