"""Translation in Python with a SavedModel that `Translator.export` wrote."""

import contextlib
import ctypes
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import meta_graph_pb2, rewriter_config_pb2, saved_model_pb2

from keras_mt.decoding import NO_HYPOTHESIS
from keras_mt.errors import InputError
from keras_mt.files import find_saved_model
from keras_mt.text.glossary import Glossary, check_glossary
from keras_mt.translation.base import LANGUAGES, BaseTranslator
from keras_mt.translation.batches import run_in_batches
from keras_mt.translation.results import as_alignment


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
            if prefixes are given, which an export does not take, or a glossary to one without a
            signature `constrained`.

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
        card = version / "assets.extra" / "model_card.json"
        try:
            self.card = json.loads(card.read_text(encoding="utf-8")) if card.exists() else {}
        except ValueError as error:
            raise InputError(f"{card} is not JSON, as the export wrote it: {error}") from None
        options = self.card.get("options", {})
        self.max_line_bytes = options.get("max_line_bytes")  # None without a card.
        self.kept_kinds = options.get("keep", ()) if "constrained" in self._signatures else ()
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
        check_glossary(glossary)
        self.glossary = glossary
        if glossary is not None:
            self._check_takes_terms()

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
        with self._lock:
            if name not in self._sessions:
                self._sessions[name] = _Session(self._version, name)
            return self._sessions[name]

    def _check_takes_terms(self):
        if "constrained" not in self._signatures:
            raise InputError(
                "This export takes no glossary: it samples, or was made without the signature "
                "constrained. Export the run again, or use the run folder."
            )

    @property
    def gives_confidence(self) -> bool:
        return "confidence" in self._signatures

    @property
    def aligns(self) -> bool:
        """Whether it has the signature `align`, as it has if its model has attention."""
        return "align" in self._signatures

    def _align(self, source, target, **languages):
        signature = self.signatures["align"]

        def align(text, target, *codes):
            return signature(text=text, target=target, **dict(zip(languages, codes, strict=True)))

        return run_in_batches(align, source=source, target=target, **languages)

    def _as_alignment(self, row, source, **_):
        if not row["target_lengths"]:
            return "a line is longer than max_line_bytes, or than the model's limit of tokens."
        return as_alignment(row)

    @property
    def n_best(self) -> int:
        return self._signatures["serving_default"].outputs["translations"].tensor_shape.dim[1].size

    def _translations(self, texts, prefixes=None, terms=None, **languages):
        _check_plain(prefixes)
        if terms is not None:
            signature, languages = self.signatures["constrained"], {**languages, "terms": terms}
        else:
            signature = self.signatures["serving_default"]
        return signature(text=texts, **languages)["translations"]

    def _why_refused(self, texts, prefixes=None, terms=None, **languages):
        if not terms or self._line_too_long(texts):
            return super()._why_refused(texts)
        lines = terms.split("\n")
        alone = {name: [code] * (len(lines) + 1) for name, code in languages.items()}
        rows = [texts] * (len(lines) + 1)
        scores = [
            row["scores"][0]
            for row in self._search(False, False, rows, terms=[*lines, ""], **alone)
        ]
        if scores[-1] <= NO_HYPOTHESIS:
            return super()._why_refused(texts)
        refused = [x for x, score in zip(lines, scores, strict=False) if score <= NO_HYPOTHESIS]
        named = ", ".join(repr(line.split("\t")[0]) for line in refused or lines)
        return (
            f"{named} cannot be in its translation as the glossary has it: it comes to nothing, "
            "has a character that the tokenizer cannot write, or has more tokens, by itself or "
            "with other terms, than a translation may have."
        )

    def _search(self, token_scores, confidence, texts, prefixes=None, terms=None, **languages):
        _check_plain(prefixes, token_scores)
        if confidence and "confidence" not in self._signatures:
            raise InputError(
                "This export gives no confidence: make it with `keras-mt export --confidence`, or "
                "use the run folder."
            )
        name, columns = "confidence" if confidence else "serving_default", languages
        if terms is not None:  # No signature has both.
            name, columns = "constrained", {**languages, "terms": terms}
        if self._model is not None:  # Then no session is needed besides.
            signature = self.signatures[name]
        elif texts:
            signature = self._session(name)

        def translate(text, *others):
            return signature(text=text, **dict(zip(columns, others, strict=True)))

        return run_in_batches(translate, texts=texts, **columns)


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
    """Runs a signature of a version in a session, without loading any function into Python."""

    def __init__(self, version: Path, name: str) -> None:
        self._session, self._inputs, self._outputs = _import(version, name)
        # Otherwise concurrent first batches would each optimize the graph, in as much memory again.
        self(**{name: tf.constant([], tf.string) for name in self._inputs})
        with contextlib.suppress(OSError, AttributeError):  # Where the C library is not glibc.
            ctypes.CDLL(None).malloc_trim(0)  # It keeps what loading has freed, a gigabyte.

    def __call__(self, **inputs: tf.Tensor) -> dict[str, np.ndarray]:
        inputs = {self._inputs[name]: value.numpy() for name, value in inputs.items()}
        return self._session.run(self._outputs, inputs)


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


def _import(version, name):
    """A session that is ready for a signature, and the names of its inputs and outputs."""
    meta_graph = _meta_graph(version)
    signature = meta_graph.signature_def[name]
    inputs, outputs = (
        {name: info.name for name, info in infos.items()}
        for infos in (signature.inputs, signature.outputs)
    )
    prepared = meta_graph.signature_def["__saved_model_init_op"].outputs.values()
    begin, files = [info.name.partition(":")[0] for info in prepared], {}
    nodes = _needed(meta_graph.graph_def, outputs.values())
    has_variables = any(node.op == "VarHandleOp" for node in nodes)  # A frozen function has none.
    if has_variables:
        begin.append(meta_graph.saver_def.restore_op_name)
        variables = str(version / "variables" / "variables")
        files[meta_graph.saver_def.filename_tensor_name] = variables
    graph_def = tf.compat.v1.GraphDef(versions=meta_graph.graph_def.versions)
    graph_def.node.extend(_needed(meta_graph.graph_def, [*outputs.values(), *begin]))
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
    return session, inputs, outputs


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
