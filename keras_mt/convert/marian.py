"""Marian's own folders: models of Firefox, HPLT, Tatoeba and OPUS-MT as they were trained.

A folder that is read is not trusted: nothing in it is executed, and what would change results and
is not understood is refused with an error that names the file and the field.
"""

import contextlib
import os
import re
from pathlib import Path

import keras
import numpy as np

from keras_mt.compressed import open_read
from keras_mt.convert.formats import FORMATS, check_model
from keras_mt.convert.imports import as_run, as_translator, imported_config
from keras_mt.convert.marian_files import STARTS, read_marian, write_bin
from keras_mt.convert.marian_folder import (
    find_files,
    plain,
    read_search,
    read_tokenizer,
    written_vocabularies,
)
from keras_mt.errors import CorpusError, InputError
from keras_mt.files import check_new, new_folder
from keras_mt.layers.feed_forward import gelu_sigmoid
from keras_mt.models import Transformer, ensure_built
from keras_mt.translation import Translator

_MAX_LENGTH = 1024  # Of the table of positions, which the files do not have.
_NO_TOKEN = -1e4  # The logit of an id that stands for no token of Marian's.
# Fields that must have a value, or one of several, or not be there. Others that are neither here
# nor used nor without effect have to be empty.
_FIXED = {
    "type": ("transformer",),
    "dec-cell": ("ssru", "gru", "lstm"),  # Which counts in a recurrent decoder alone.
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-activation": ("relu", "swish", "gelu"),
    "transformer-ffn-depth": (2,),
    "transformer-decoder-ffn-depth": (0, 2),
    "transformer-postprocess": ("dan",),
    "transformer-postprocess-emb": ("d", ""),
    "transformer-preprocess": ("",),
    "transformer-postprocess-top": ("",),
}
# Fields that a Transformer's results do not depend on.
_NO_EFFECT = re.compile(
    r"version|enc-(cell|type|cell-depth)|dec-cell-(base|high)-depth|dim-rnn|skip|bert-.*|"
    r"factors-combine|transformer-(aan-(activation|depth|nogate)|dim-aan|depth-scaling|"
    r"guided-alignment-layer)|ulr-.*|lemma-dependency|original-type|s2s-.*|char-.*|conv-.*"
)
_SIZES = ("dim-emb", "enc-depth", "dec-depth", "transformer-heads", "transformer-dim-ffn")
_ACTIVATION = "transformer-ffn-activation"
_ACTIVATIONS = {"swish": "silu", "gelu": gelu_sigmoid}  # By Marian's names, where they differ.
_OTHER_GELU = 1, 12  # From this version on, gelu may be the true one.
_SIDES = "decoder_Wemb", "encoder_Wemb"
_USED = (*_SIZES, "dim-vocabs", "transformer-decoder-dim-ffn", "output-omit-bias")
_TIED = ("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all")
# Our names of layers and weights in a block, and Marian's.
_NORMS = {
    "self_attention_norm": "self_Wo_ln",
    "cross_attention_norm": "context_Wo_ln",
    "recurrent_norm": "rnn_ffn_ln",
    "feed_forward_norm": "ffn_ffn_ln",
}
_WEIGHTS = {
    "feed_forward/inner/kernel": "ffn_W1",
    "feed_forward/inner/bias": "ffn_b1",
    "feed_forward/output/kernel": "ffn_W2",
    "feed_forward/output/bias": "ffn_b2",
    "recurrent/input/kernel": "rnn_W",
    "recurrent/forget/kernel": "rnn_Wf",
    "recurrent/forget/bias": "rnn_bf",
}
for _ours, _theirs in (("self_attention", "self"), ("cross_attention", "context")):
    for _part in ("query", "key", "value", "output"):
        _WEIGHTS[f"{_ours}/{_part}/kernel"] = f"{_theirs}_W{_part[0]}"
        _WEIGHTS[f"{_ours}/{_part}/bias"] = f"{_theirs}_b{_part[0]}"
for _ours, _theirs in _NORMS.items():
    _WEIGHTS[f"{_ours}/gamma"], _WEIGHTS[f"{_ours}/beta"] = f"{_theirs}_scale", f"{_theirs}_bias"


def has_marian(directory: str | os.PathLike) -> bool:
    """True if a folder holds a model in Marian's own format, and none of transformers'.

    Example:

    >>> has_marian("opus-mt-en-de")
    False
    """
    path = Path(directory)
    return path.is_dir() and not (path / "config.json").is_file() and bool(_model_files(path))


def from_marian(directory: str | os.PathLike) -> Translator:
    """Loads a translator from a folder with Marian's own files.

    Args:
        directory: The folder: a model, `.npz` or `.bin`; its vocabularies, one `.spm` file or one
            for each side, or YAML beside `source.spm` and `target.spm`; and where there is one, the
            configuration of the decoder, `*decoder.yml` or `config*.yml`. Each may be `.gz`.

    Returns:
        A `keras_mt.Translator`, which computes in float32, and searches as the configuration of the
        decoder says, or by Marian's defaults.

    Raises:
        FileNotFoundError: If a file is missing; the message says which.
        ValueError: If the folder is not understood; the message names the file and the field.

    Example:

    >>> translator = from_marian("firefox/enru")  # doctest: +SKIP
    >>> translator("The book is on the table.")  # doctest: +SKIP
    'Книга лежит на столе.'
    """
    return as_translator(*_read(directory, "float32"))


def import_marian(directory: str | os.PathLike, run_dir: str | os.PathLike) -> None:
    """Imports a folder with Marian's own files as a run folder, as `keras-mt import` does.

    Args:
        directory: As in `from_marian`.
        run_dir: The run folder to write; the write is atomic.

    Raises:
        FileExistsError: If the run folder exists.
        OSError, ValueError: As in `from_marian`.

    Example:

    >>> import_marian("firefox/enru", "runs/enru")  # doctest: +SKIP
    """
    check_new(run_dir)
    as_run(run_dir, *_read(directory))


def _read(directory, dtype=None):
    directory = Path(directory)
    models = _model_files(directory)
    if len(models) != 1:
        names = ", ".join(path.name for path in models) or "none"
        raise InputError(f"{directory} must have one model, .npz or .bin. It has {names}.")
    with plain(models[0]) as path:
        weights, fields = read_marian(path)
        arguments, sizes = _arguments(models[0], fields, weights)
        search = read_search(directory)
        tokenizer = read_tokenizer(directory, sizes, arguments["padding_id"], search)
        model = _model(weights, arguments, sizes, dtype)
    pair = re.search(r"\.([a-z]{2})([a-z]{2})\.", models[0].name)
    pair = pair.groups() if pair else ("", "")
    generation = search["options"] | {"early_stopping": "shrink", "split_sentences": False}
    config = imported_config(directory, model, pair, options={}, generation=generation)
    return model, tokenizer, config


def _model_files(directory):
    found = []
    for path in find_files(directory, "*.npz", "*.bin"):
        with contextlib.suppress(CorpusError), open_read(path) as file:
            if file.read(8).startswith(STARTS):
                found.append(path)
    return found


def _arguments(path, fields, weights):
    """The arguments of the model, and its vocabularies' sizes, checked against all tensors."""
    fields = {name: value for name, value in fields.items() if value is not None}

    def refuse(field, expected):
        received = f"{field}={fields.get(field)!r}"
        return InputError(f"{path}: {field} must be {expected}. Received: {received}")

    recurrent = fields.get("transformer-decoder-autoreg") == "rnn"
    for field, values in (_FIXED | ({"dec-cell": ("ssru",)} if recurrent else {})).items():
        if fields.get(field, values[0]) not in values:
            raise refuse(field, " or ".join(map(repr, values)))
    activation = fields.get(_ACTIVATION, "relu")
    version = re.match(r"v?(\d+)\.(\d+)\.", str(fields.get("version")))
    if activation == "gelu" and not (version and (*map(int, version.groups()),) < _OTHER_GELU):
        raise refuse(_ACTIVATION, "'relu' or 'swish', unless version is below v1.12")
    for field, value in fields.items():
        known = field in _FIXED or field in _USED or field in _TIED or _NO_EFFECT.fullmatch(field)
        if value and not known:
            raise refuse(field, "left out or empty: it is not supported")
    for field in (*_SIZES, "transformer-decoder-dim-ffn"):
        size = fields.get(field, 0 if field == "transformer-decoder-dim-ffn" else None)
        if type(size) is not int or not (0 < size < 2**20 or (size == 0 and field not in _SIZES)):
            raise refuse(field, "a positive integer")
    for field in (*_TIED, "output-omit-bias"):
        if type(fields.get(field, False)) is not bool:
            raise refuse(field, "true or false")
    target, source, both = (fields.get(field, False) for field in _TIED)
    share, d_model = source or both, fields["dim-emb"]
    names = ["Wemb"] * 2 if share else ["encoder_Wemb", "decoder_Wemb"]
    sizes = fields.get("dim-vocabs")
    if not (isinstance(sizes, list) and len(sizes) == 2 and all(type(n) is int for n in sizes)):
        raise refuse("dim-vocabs", "two integers")
    for name, size in zip(names, sizes, strict=True):
        if (shape := getattr(weights.get(name), "shape", None)) != (size, d_model):
            raise refuse("dim-vocabs", f"the rows of {name}, whose shape is {shape}")
    if d_model % 2 or d_model < 4:
        raise refuse("dim-emb", "an even number, at least 4")
    if d_model % fields["transformer-heads"]:
        raise refuse("transformer-heads", f"a divisor of dim-emb={d_model}")
    # One id more than Marian's, for the padding and the start, whose embedding is zero.
    arguments = {
        "vocab_size": max(sizes) + 1,
        "d_model": d_model,
        "num_heads": fields["transformer-heads"],
        "num_encoder_layers": fields["enc-depth"],
        "num_decoder_layers": fields["dec-depth"],
        "d_ff": fields["transformer-dim-ffn"],
        "decoder_d_ff": fields.get("transformer-decoder-dim-ffn") or None,
        "activation": _ACTIVATIONS.get(activation, activation),
        "decoder_sublayers": "rcf" * fields["dec-depth"] if recurrent else None,
        "share_embeddings": share,
        "tie_output": target or both,
        "max_length": _MAX_LENGTH,
        "padding_id": max(sizes),
        "positions": "tensor2tensor",
        "logits_bias": True,
        "norm_epsilon": 1e-6,
        "zero_id": max(sizes),
    }
    _check_tensors(path, weights, _shapes(arguments, sizes, fields.get("output-omit-bias", False)))
    return arguments, sizes


def _shapes(arguments, sizes, omit_bias):
    """The shapes of all tensors of a model, by their names."""
    d_model, shapes = arguments["d_model"], {}
    first = "rnn" if arguments["decoder_sublayers"] else "self"
    for side, sublayers in (("encoder", ("self", "ffn")), ("decoder", (first, "context", "ffn"))):
        d_ff = arguments.get(f"{side}_d_ff") or arguments["d_ff"]
        inner = {"ffn_W1": (d_model, d_ff), "ffn_b1": (1, d_ff), "ffn_W2": (d_ff, d_model)}
        names = {o: t for o, t in _WEIGHTS.items() if t.partition("_")[0] in sublayers}
        for i in range(1, arguments[f"num_{side}_layers"] + 1):
            for ours, theirs in names.items():
                shape = (d_model if ours.endswith("kernel") else 1), d_model
                shapes[f"{side}_l{i}_{theirs}"] = inner.get(theirs, shape)
    if arguments["share_embeddings"]:
        shapes["Wemb"] = (sizes[0], d_model)
    else:
        shapes |= {"encoder_Wemb": (sizes[0], d_model), "decoder_Wemb": (sizes[1], d_model)}
    if not omit_bias:
        shapes["decoder_ff_logit_out_b"] = (1, sizes[1])
    if not arguments["tie_output"]:
        shapes["decoder_ff_logit_out_W"] = (d_model, sizes[1])
    return shapes


def _check_tensors(path, weights, shapes):
    """Checks that a file has the tensors of the model, and no others, before one is made."""
    for name in weights:
        if name not in shapes and not name.endswith("_QuantMultA"):
            raise InputError(f"{path} has a tensor that is not understood: {name}.")
    for name, shape in shapes.items():
        if name not in weights:
            raise InputError(f"{path} has no tensor {name}, which its configuration asks for.")
        if tuple(weights[name].shape) != shape:
            raise InputError(
                f"{path}: {name} must have the shape {shape}, to agree with its configuration. "
                f"It has the shape {tuple(weights[name].shape)}."
            )


def _model(weights, arguments, sizes, dtype):
    """The model with the weights of a file; its dtype is theirs if none is given."""
    half = all(x.dtype == np.float16 for x in weights.values() if x.shape[0] > 1)
    model = ensure_built(Transformer(**arguments, dtype=dtype or ("float16" if half else None)))
    for variable in model.variables:
        place, _, last = variable.path.rpartition("/")
        if "seed_generator" in variable.path:
            continue
        values = np.zeros(variable.shape, "float32")
        if last == "embeddings":
            source = place.startswith("source")
            name = "Wemb" if arguments["share_embeddings"] else _SIDES[source]
            found = np.asarray(weights[name])
            values[: len(found)] = found
        elif last == "logits_bias":
            values[sizes[1] :] = _NO_TOKEN
            if (bias := weights.get("decoder_ff_logit_out_b")) is not None:
                values[: sizes[1]] = np.asarray(bias)[0]
        elif last == "reverse_embeddings":
            values[:, : sizes[1]] = weights["decoder_ff_logit_out_W"]
        else:
            values = np.asarray(weights[_name_of(variable.path)]).reshape(variable.shape)
        variable.assign(values)
    return model


def _name_of(path):
    """Marian's name of one of our weights in a block."""
    side, layer, place = re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", path).groups()
    return f"{side}_l{int(layer) + 1}_{_WEIGHTS[place]}"


# What a model must be to be written; its sublayers are checked by themselves.
_WRITTEN = {
    "activation": ("relu", "silu"),
    "positions": ("tensor2tensor",),
    "pre_norm": (False,),
    "final_norm": (False, None),
    "decoder_sublayers": None,
    "scale_embeddings": (True,),
    "norm_epsilon": (1e-6, 1e-5),
}
_WRITTEN_CONFIG = """\
type: transformer
dim-emb: {d_model}
dim-vocabs: [{sizes[0]}, {sizes[1]}]
enc-depth: {layers[0]}
dec-depth: {layers[1]}
transformer-heads: {heads}
transformer-dim-ffn: {d_ff[0]}
transformer-decoder-dim-ffn: {d_ff[1]}
transformer-ffn-depth: 2
transformer-decoder-ffn-depth: 0
transformer-ffn-activation: {activation}
transformer-decoder-autoreg: {autoreg}
dec-cell: {cell}
transformer-preprocess: ""
transformer-postprocess: dan
transformer-postprocess-emb: d
transformer-postprocess-top: ""
transformer-no-projection: false
transformer-rnn-projection: false
transformer-tied-layers: []
transformer-train-position-embeddings: false
tied-embeddings: {tied[0]}
tied-embeddings-src: {tied[1]}
tied-embeddings-all: {tied[2]}
output-omit-bias: false
input-types: []
lemma-dim-emb: 0
layer-normalization: false
right-left: false
skip: false
version: v1.9.56
"""
_WRITTEN_SEARCH = """\
models: [model.bin]
vocabs: [{vocabs}]
beam-size: {options.beam_size}
normalize: {options.length_penalty}
word-penalty: {options.word_penalty}
max-length-factor: {factor}
gemm-precision: {precision}
"""


def to_marian(
    translator: Translator, directory: str | os.PathLike, quantization: str | None = None
) -> None:
    """Writes a folder for Marian, and for what is built on it: Bergamot, Firefox, translateLocally.

    It has `model.bin`, the vocabulary or both, `.spm`, and `decoder.yml` with the options of the
    search. Marian's rule of when a search stops is `early_stopping="shrink"`.

    Args:
        translator: A `Translator` of one `Transformer` as Marian has them: post-norm, of the
            `positions` `"tensor2tensor"`, with the start as its `zero_id` and, in the decoder,
            self-attention or SSRU; or of a model imported from Marian's files.
        directory: The folder to write.
        quantization: `"int8"` stores matrices in 8 bits; their sides must be multiples of 64. None
            for float32.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If Marian has no such model, tokenizer or search; the message says what it has.

    Example:

    >>> to_marian(Translator.load("runs/student"), "student_marian")  # doctest: +SKIP
    """
    check_new(directory)
    FORMATS["marian"].check(translator, quantization)
    config = _written_config(translator.models[0], translator.tokenizer, quantization)
    vocabularies, orders = written_vocabularies(translator.tokenizer, 8 if quantization else 1)
    tensors, text = _written_model(translator.models[0], config, orders)
    names = ["vocab.spm"] if len(vocabularies) == 1 else ["vocab.src.spm", "vocab.trg.spm"]
    search = _WRITTEN_SEARCH.format(
        vocabs=", ".join((names * 2)[:2]),
        options=translator.options,
        factor=translator.max_length_factor or 3.0,
        precision="int8shiftAll" if quantization else "float32",
    )
    with new_folder(directory) as folder:
        write_bin(folder / "model.bin", tensors, text, quantization == "int8")
        for name, vocabulary in zip(names, vocabularies, strict=True):
            (folder / name).write_bytes(vocabulary)
        (folder / "decoder.yml").write_text(search, encoding="utf-8")


def _written_config(model, tokenizer, quantization):
    """The config of a model that Marian has; ValueError, which names it, if it lacks something."""
    if not isinstance(model, Transformer):
        raise InputError(f"Marian has no {type(model).__name__}: only a Transformer is written.")
    config = model.get_config()
    if {block.sublayers for block in model.decoder_blocks} not in ({"scf"}, {"rcf"}):
        raise InputError(
            "Marian's decoders are None or 'rcf' for each layer. "
            f"Received: decoder_sublayers={config['decoder_sublayers']!r}"
        )
    if len({block.num_heads for block in (*model.encoder_blocks, *model.decoder_blocks)}) > 1:
        raise InputError("Marian has one number of heads: give both sides the same.")
    check_model("Marian", config, _WRITTEN | {"zero_id": (tokenizer.bos_id,)})
    widths = {b.d_ff for b in (*model.encoder_blocks, *model.decoder_blocks)} | {model.d_model}
    if quantization and any(width % 64 for width in widths):
        raise InputError(
            "Marian's int8 needs d_model and d_ff that are multiples of 64: leave quantization out."
        )
    return config


def _written_model(model, config, orders):
    """The model's tensors by Marian's names, and its configuration.

    `orders` has for each side the ids of the vocabulary's pieces, -1 where there is none.
    """
    source, target = orders
    share, tie = config["share_embeddings"], config["tie_output"]
    bias = np.zeros(model.target_vocab_size, "float32")
    tensors = {}
    for variable in model.weights:
        place, _, last = variable.path.rpartition("/")
        values = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        if last == "embeddings":
            is_source = place.startswith("source")
            order = source if share or is_source else target
            rows = np.where(order[:, None] < 0, 0, values[order])
            tensors["Wemb" if share else _SIDES[is_source]] = rows
        elif last == "reverse_embeddings":
            tensors["decoder_ff_logit_out_W"] = np.where(target < 0, 0, values[:, target])
        elif last == "logits_bias":
            bias = values
        else:
            tensors[_name_of(variable.path)] = values if values.ndim > 1 else values[None]
    tensors["decoder_ff_logit_out_b"] = np.where(target < 0, _NO_TOKEN, bias[target])[None]
    recurrent = "r" in model.decoder_blocks[0].sublayers
    tied = tie and not share, share and not tie, share and tie
    text = _WRITTEN_CONFIG.format(
        d_model=model.d_model,
        sizes=[len(source), len(target)],
        layers=[len(model.encoder_blocks), len(model.decoder_blocks)],
        heads=model.encoder_blocks[0].num_heads,
        d_ff=[model.encoder_blocks[0].d_ff, model.decoder_blocks[0].d_ff],
        activation={"silu": "swish"}.get(config["activation"], config["activation"]),
        autoreg="rnn" if recurrent else "self-attention",
        cell="ssru" if recurrent else "gru",
        tied=[str(each).lower() for each in tied],
    )
    return {name: x.astype("float32") for name, x in tensors.items()}, text
