"""Translation in Python with a SavedModel that `Translator.export` wrote."""

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, rewriter_config_pb2, saved_model_pb2

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.errors import InputError
from keras_mt.files import find_saved_model
from keras_mt.text.glossary import Glossary
from keras_mt.translation.base import LANGUAGES, BaseTranslator
from keras_mt.translation.batches import chosen, run_in_batches
from keras_mt.translation.results import as_alignment, by_hypothesis

_PLACING = "align", "score"  # The signatures by which terms and kept spans are placed.


class ExportedTranslator(BaseTranslator):
    """Translates with an exported SavedModel; its options were fixed at export.

    Args:
        directory: A version folder, such as `saved_models/pt_en/1`, or the folder above it, for
            its newest version.
        source_language, target_language: As for a `Translator`, in place of the export's.
        glossary: As for a `Translator`.

    Attributes:
        card: The model card, a dict; its `options` are those of the export.

    Call arguments:
        texts: A str, a list of str, or a string tensor `[batch]`.
        source_language, target_language, glossary, markup: As for a `Translator`.

    Returns:
        As a `Translator`: for a str a str, for a list a list of str; for an export with `n_best`
        above 1 a list of str and a list of lists of str. For a tensor a string tensor
        `[batch, n_best]`.

    Raises:
        FileNotFoundError: If there is no SavedModel.
        ValueError: If a language is unknown or missing, or the card that lists them is missing; or
            if prefixes are given, which an export does not take, or a glossary to one that has
            neither of the signatures `align` and `score`, by which terms are placed.

    Example:

    >>> translator = ExportedTranslator("saved_models/pt_en")  # doctest: +SKIP
    >>> translator("O livro está em cima da mesa.")  # doctest: +SKIP
    'The book is on the table.'
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        source_language: str | None = None,
        target_language: str | None = None,
        glossary: Glossary | None = None,
    ):
        version = find_saved_model(directory)
        if version is None:
            raise FileNotFoundError(f"There is no SavedModel at {directory}, nor a version in it.")
        _load_text_ops()
        self._version = version
        self._model, self._sessions, self._lock = None, {}, threading.Lock()
        self._signatures = _signatures(version)
        self._scores = "token_log_probs" in self._outputs("score")
        card = version / "assets.extra" / "model_card.json"
        try:
            self.card = json.loads(card.read_text(encoding="utf-8")) if card.exists() else {}
        except ValueError as error:
            raise InputError(f"{card} is not JSON, as the export wrote it: {error}") from None
        options = self.card.get("options", {})
        self.max_line_bytes = options.get("max_line_bytes")  # None without a card.
        self.kept_kinds = options.get("keep", ()) if self.aligns or self._scores else ()
        self.reads_terms = options.get("reads_terms", False)
        self.trusted_attention = options.get("trusted_attention", False)
        languages, defaults, pair = [], (None, None), None
        if any({*LANGUAGES} <= function.inputs.keys() for function in self._signatures.values()):
            try:
                languages = self.card["tokenizer"]["languages"]
                defaults = [options[name] for name in LANGUAGES]
            except KeyError:
                raise InputError(
                    f"{card} must say which languages there are, and the default ones: put it "
                    "back as the export wrote it."
                ) from None
            pair = defaults if options.get("shortlist") else None
        codes = source_language or defaults[0], target_language or defaults[1]
        self._set_languages(languages, *codes, pair)
        self._check_glossary(glossary)
        self.glossary = glossary

    def __reduce__(self) -> tuple:
        arguments = self._version, self.source_language, self.target_language, self.glossary
        return type(self), arguments

    @property
    def fingerprint(self) -> str:
        """As of a `Translator`; two exports of one model have different ones."""
        digest = hashlib.blake2b(digest_size=16)
        terms = self.glossary and self.glossary.fingerprint
        digest.update(repr((self.source_language, self.target_language, terms)).encode())
        for path in sorted(filter(Path.is_file, self._version.rglob("*"))):
            with open(path, "rb") as file:
                hashlib.file_digest(file, lambda: digest)
        return digest.hexdigest()

    @property
    def signatures(self) -> Mapping[str, Callable]:
        """The signatures by name: functions of tensors."""
        with self._lock:
            if self._model is None:
                with _variables_read(self._version):
                    self._model = tf.saved_model.load(str(self._version))
        return self._model.signatures

    def _session(self, name):
        """The session of a signature, which threads that ask at once share."""
        names = [name]
        if name in _PLACING:  # Then with one copy of the weights.
            names = [other for other in _PLACING if other in self._signatures]
        with self._lock:
            if name not in self._sessions:
                self._sessions |= dict.fromkeys(names, _Session(self._version, names))
            return self._sessions[name]

    def _run(self, name, **columns):
        """The outputs of a signature for each text, the first of the columns."""
        if self._model is not None:  # Then no session is needed besides.
            signature = self.signatures[name]
        elif any(columns.values()):
            signature = functools.partial(self._session(name), name)

        def run(text, *others):
            return signature(text=text, **dict(zip([*columns][1:], others, strict=True)))

        return run_in_batches(run, **columns)

    def _outputs(self, name):
        return self._signatures[name].outputs if name in self._signatures else ()

    def _check_glossary(self, glossary):
        super()._check_glossary(glossary)
        if glossary is not None and not (self.aligns or self._scores):
            raise InputError(
                "This export takes no glossary: it has neither of the signatures align and score, "
                "by which terms are placed. Export the run again, or use the run folder."
            )

    @property
    def gives_confidence(self) -> bool:
        return "confidence" in self._signatures

    @property
    def aligns(self) -> bool:
        """Whether it has the signature `align`, as it has if its model has attention."""
        return "align" in self._signatures

    def _as_alignment(self, row, source, **_):
        return as_alignment(row) or (
            "a line is longer than max_line_bytes, or than the model's limit of tokens."
        )

    @property
    def n_best(self) -> int:
        return self._signatures["serving_default"].outputs["translations"].tensor_shape.dim[1].size

    def _translations(self, texts, prefixes=None, **languages):
        _check_plain(prefixes)
        return self.signatures["serving_default"](text=texts, **languages)["translations"]

    def _search(self, token_scores, confidence, attention, texts, prefixes=None, **languages):
        _check_plain(prefixes, token_scores)
        if confidence and not self.gives_confidence:
            raise InputError(
                "This export gives no confidence: make it with `keras-mt export --confidence`, or "
                "use the run folder."
            )
        attention = attention and self.aligns
        if attention and not confidence and self.n_best == 1 and "scores" in self._outputs("align"):
            rows = self._run("align", texts=texts, target=[""] * len(texts), **languages)
            return [[row] if row["scores"] > NO_HYPOTHESIS else [] for row in rows]
        name = "confidence" if confidence else "serving_default"
        found = list(map(by_hypothesis, self._run(name, texts=texts, **languages)))
        if attention:
            several = [(i, row) for i, rows in enumerate(found) for row in rows]
            # Of "" it would be that of another translation.
            targets = [row["translations"].decode("utf-8", "replace") or " " for _, row in several]
            languages = chosen(languages, [i for i, _ in several])
            texts = [texts[i] for i, _ in several]
            aligned = self._run("align", texts=texts, target=targets, **languages)
            for (_, row), alignment in zip(several, aligned, strict=True):
                row |= {**alignment, **row}
        return found


def _check_plain(prefixes, token_scores=False):
    if prefixes is not None or token_scores:
        raise InputError(
            "An export takes no prefixes and gives no token scores: use the run folder."
        )


def _meta_graph(version):
    path = version / "saved_model.pb"
    try:
        (meta_graph,) = saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs
    except (DecodeError, ValueError):
        raise InputError(f"{path} is damaged: export the run again.") from None
    if not any(
        "text" in signature.inputs and {"translations", "scores"} <= {*signature.outputs}
        for signature in meta_graph.signature_def.values()
    ):
        raise InputError(
            f"{path} is not an export of keras_mt: no signature takes text and gives translations "
            "and scores."
        )
    return meta_graph


def _signatures(version):
    """The signatures' inputs and outputs by name, without the graph, which may be large."""
    signatures = meta_graph_pb2.MetaGraphDef()
    signatures.signature_def.MergeFrom(_meta_graph(version).signature_def)
    return signatures.signature_def


class _Session:
    """Runs signatures of a version in a session, without loading any function into Python."""

    def __init__(self, version: Path, names: Sequence[str]) -> None:
        self._session, self._signatures = _import(version, names)
        # Otherwise concurrent first batches would each optimize the graph, in as much memory again.
        for name, (inputs, _) in self._signatures.items():
            self(name, **{key: tf.constant([], tf.string) for key in inputs})
        with contextlib.suppress(OSError, AttributeError):  # Where the C library is not glibc.
            ctypes.CDLL(None).malloc_trim(0)  # It keeps what loading has freed, a gigabyte.

    def __call__(self, name: str, **inputs: tf.Tensor) -> dict[str, np.ndarray]:
        tensors, outputs = self._signatures[name]
        return self._session.run(outputs, {tensors[key]: x.numpy() for key, x in inputs.items()})


def _configuration(has_variables):
    config = tf.compat.v1.ConfigProto()
    # A second pass of the graph optimizer takes a second, and makes the graph no faster. Its
    # memory optimizer, which is for GPUs, takes half a second, and copies frozen weights.
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriting.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    if has_variables:  # It takes a second, and only what is computed from weights is worth folding.
        rewriting.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    config.experimental.disable_output_partition_graphs = True  # Copies that nobody reads.
    return config


def _import(version, names):
    """A session that is ready for signatures; the tensors of each one's inputs and outputs."""
    meta_graph, signatures = _meta_graph(version), {}
    for name in names:
        signature = meta_graph.signature_def[name]
        signatures[name] = tuple(
            {key: info.name for key, info in infos.items()}
            for infos in (signature.inputs, signature.outputs)
        )
    outputs = [tensor for _, tensors in signatures.values() for tensor in tensors.values()]
    prepared = meta_graph.signature_def["__saved_model_init_op"].outputs.values()
    begin, files = [info.name.partition(":")[0] for info in prepared], {}
    nodes = _needed(meta_graph.graph_def, outputs)
    has_variables = any(node.op == "VarHandleOp" for node in nodes)  # A frozen function has none.
    if has_variables:
        begin.append(meta_graph.saver_def.restore_op_name)
        variables = str(version / "variables" / "variables")
        files[meta_graph.saver_def.filename_tensor_name] = variables
    graph_def = tf.compat.v1.GraphDef(versions=meta_graph.graph_def.versions)
    graph_def.node.extend(_needed(meta_graph.graph_def, [*outputs, *begin]))
    graph_def.library.function.extend(_functions(graph_def.node, meta_graph.graph_def.library))
    config = _configuration(has_variables)
    session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
    with session.graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    functions = [function.signature.name for function in graph_def.library.function]
    del meta_graph, graph_def, nodes  # Each has the weights of a frozen function.
    with _variables_read(version):
        session.run([session.graph.get_operation_by_name(name) for name in begin], files)
    for name in functions:  # The session has its own by now; Python's are copies of the weights.
        session.graph._remove_function(name)
    return session, signatures


@contextlib.contextmanager
def _variables_read(version):
    """Raises ValueError, which names the folder of the weights, if they cannot be read."""
    try:
        yield
    except (tf.errors.OpError, OSError, IndexError) as error:  # As it translates OUT_OF_RANGE.
        reason = getattr(error, "message", str(error)).strip().partition("\n")[0]
        raise InputError(
            f"{version / 'variables'} cannot be read: export the run again. ({reason})"
        ) from error


def _needed(graph_def, names):
    """The nodes of these names, and all nodes that they depend on."""
    nodes = {node.name: node for node in graph_def.node}
    names, needed = list(names), {}
    while names:
        name = names.pop().lstrip("^").partition(":")[0]
        if name not in needed:
            needed[name] = nodes[name]
            names += nodes[name].input
    return list(needed.values())


def _functions(nodes, library):
    """The functions that the nodes call, directly or through other functions."""
    functions = {function.signature.name: function for function in library.function}
    nodes, reached = list(nodes), {}
    while nodes:
        node = nodes.pop()
        called = {node.op}
        for value in node.attr.values():
            called |= {value.func.name, *(function.name for function in value.list.func)}
        for name in called & functions.keys() - reached.keys():
            reached[name] = functions[name]
            nodes += functions[name].node_def
    return list(reached.values())


def _load_text_ops():
    """Registers SentencePiece's ops without tensorflow_text's Python code, which imports Keras."""
    if "tensorflow_text" in sys.modules:
        return
    spec = importlib.util.find_spec("tensorflow_text")
    library = Path(spec.origin).with_name("python") / "ops" / "_sentencepiece_tokenizer.so"
    tf.load_op_library(str(library))
