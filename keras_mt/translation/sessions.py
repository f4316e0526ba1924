"""A SavedModel's signatures, run in sessions, without loading any function into Python."""

import contextlib
import ctypes
import importlib.util
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import rewriter_config_pb2, saved_model_pb2

from keras_mt.errors import InputError
from keras_mt.translation.results import MEASURES

# These signatures, by which terms and kept spans are placed, share a session and its weights.
_TOGETHER = "align", "score"


class SavedModel:
    """The signatures of an export, each of which is read when it is first run.

    `inputs` and `outputs` are the names of tensors, by signature and key.
    """

    def __init__(self, version: Path):
        _load_text_ops()
        self._version, self._sessions, self._lock = version, {}, threading.Lock()
        signatures = _meta_graph(version).signature_def
        self.inputs = {name: _names(each.inputs) for name, each in signatures.items()}
        self.outputs = {name: _names(each.outputs) for name, each in signatures.items()}

    def run(
        self, name: str, confidence: bool = False, **columns: Sequence[bytes]
    ) -> dict[str, np.ndarray]:
        """The outputs of a signature for columns of UTF-8, by the names of its inputs."""
        if confidence and name == "serving_default":
            name = "confidence"
        outputs = self._run(self._session(name), name, columns)
        return {key: x for key, x in outputs.items() if confidence or key not in MEASURES}

    def _run(self, session, name, columns):
        inputs = self.inputs[name]
        feeds = {inputs[key]: np.array(texts, object) for key, texts in columns.items()}
        return session.run(self.outputs[name], feeds)

    def _session(self, name):
        """The session of a signature, which threads that ask at once share."""
        names = [name]
        if name in _TOGETHER:
            names = [other for other in _TOGETHER if other in self.inputs]
        with self._lock:
            if name not in self._sessions:
                session = _import(self._version, names)
                # Else concurrent first batches would each optimize the graph, in as much memory.
                for each in names:
                    self._run(session, each, {key: [] for key in self.inputs[each]})
                with contextlib.suppress(OSError, AttributeError):  # Where there is no glibc.
                    ctypes.CDLL(None).malloc_trim(0)  # It keeps what loading freed, a gigabyte.
                self._sessions |= dict.fromkeys(names, session)
            return self._sessions[name]


def _names(infos):
    return {key: info.name for key, info in infos.items()}


def _meta_graph(version):
    path = version / "saved_model.pb"
    try:
        (meta_graph,) = saved_model_pb2.SavedModel.FromString(path.read_bytes()).meta_graphs
    except (DecodeError, ValueError):
        raise InputError(f"{path} is damaged: export the run again.") from None
    if not {"translations", "scores"} <= {*meta_graph.signature_def["serving_default"].outputs}:
        raise InputError(
            f"{path} is not an export of keras_mt: its serving_default gives no translations and "
            "scores."
        )
    return meta_graph


def _configuration():
    config = tf.compat.v1.ConfigProto()
    # A second pass of the graph optimizer takes a second, and makes the graph no faster. Its
    # memory optimizer, which is for GPUs, takes half a second.
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
    rewriting.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
    # It takes a second, and nothing that is worth it is computed from constants.
    rewriting.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
    config.experimental.disable_output_partition_graphs = True  # Copies that nobody reads.
    return config


def _import(version, names):
    """A session that is ready for signatures."""
    meta_graph = _meta_graph(version)
    signatures = [meta_graph.signature_def[name] for name in names]
    outputs = [info.name for signature in signatures for info in signature.outputs.values()]
    prepared = meta_graph.signature_def["__saved_model_init_op"].outputs.values()
    begin = [info.name.partition(":")[0] for info in prepared]
    begin.append(meta_graph.saver_def.restore_op_name)
    variables = str(version / "variables" / "variables")
    files = {meta_graph.saver_def.filename_tensor_name: variables}
    graph_def = tf.compat.v1.GraphDef(versions=meta_graph.graph_def.versions)
    graph_def.node.extend(_needed(meta_graph.graph_def, [*outputs, *begin]))
    graph_def.library.function.extend(_functions(graph_def.node, meta_graph.graph_def.library))
    session = tf.compat.v1.Session(graph=tf.Graph(), config=_configuration())
    with session.graph.as_default():
        tf.graph_util.import_graph_def(graph_def, name="")
    try:
        session.run([session.graph.get_operation_by_name(name) for name in begin], files)
    except tf.errors.OpError as error:
        reason = error.message.strip().partition("\n")[0]
        raise InputError(
            f"{version / 'variables'} cannot be read: export the run again. ({reason})"
        ) from error
    return session


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
