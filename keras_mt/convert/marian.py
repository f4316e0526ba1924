"""Marian's own folders: models of Firefox, HPLT, Tatoeba and OPUS-MT as they were trained.

A folder that is read is not trusted: nothing in it is executed, and what would change results and
is not understood is refused with an error that names the file and the field.
"""

import contextlib
import gzip
import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_mt.convert.marian_files import STARTS, read_marian, read_vocabulary, read_yaml
from keras_mt.convert.pretrained import license_of
from keras_mt.errors import InputError
from keras_mt.files import check_new, disk_errors, new_folder
from keras_mt.models import Transformer, ensure_built
from keras_mt.options import TranslationOptions
from keras_mt.run_folder import RunConfig, RunFolder
from keras_mt.text import PretrainedTokenizer
from keras_mt.text.tokenizer import sentencepiece_processor
from keras_mt.translation import Translator

_MAX_LENGTH = 1024  # Of the table of positions, which the files do not have.
_MAX_RATIO = 64  # Of what is in a `.gz` file to its own size.
_NO_TOKEN = -1e4  # The logit of an id that stands for no token of Marian's.
# Fields that must have a value, or one of several, or not be there. Others that are neither here
# nor used nor without effect have to be empty.
_FIXED = {
    "type": ("transformer",),
    "dec-cell": ("ssru", "gru", "lstm"),  # Which counts in a recurrent decoder alone.
    "transformer-decoder-autoreg": ("self-attention", "rnn"),
    "transformer-ffn-activation": ("relu", "swish"),
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
_SIDES = "decoder_Wemb", "encoder_Wemb"
_USED = (*_SIZES, "dim-vocabs", "transformer-decoder-dim-ffn", "output-omit-bias")
_TIED = ("tied-embeddings", "tied-embeddings-src", "tied-embeddings-all")
# Options of the search: Marian's names and defaults.
_SEARCH = {
    "beam-size": ("beam_size", 12),
    "normalize": ("length_penalty", 0.0),
    "word-penalty": ("word_penalty", 0.0),
    "max-length-factor": ("max_length_factor", 3.0),
    "n-best": (None, False),
    "allow-unk": (None, False),
    "allow-special": (None, False),
    "skip-cost": (None, False),
}
_NOT_SEARCHED = ("output-sampling", "force-decode", "output-approx-knn", "weights", "right-left")
# Our names of layers and weights in a block, and Marian's.
_PARTS = {"query": "q", "key": "k", "value": "v", "output": "o"}
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
    for _part, _letter in _PARTS.items():
        _WEIGHTS[f"{_ours}/{_part}/kernel"] = f"{_theirs}_W{_letter}"
        _WEIGHTS[f"{_ours}/{_part}/bias"] = f"{_theirs}_b{_letter}"
for _ours, _theirs in _NORMS.items():
    _WEIGHTS[f"{_ours}/gamma"], _WEIGHTS[f"{_ours}/beta"] = f"{_theirs}_scale", f"{_theirs}_bias"


def has_marian(directory: str | os.PathLike) -> bool:
    """Whether a folder holds a model in Marian's own format, and none of transformers'.

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
    model, tokenizer, config = _read(directory, "float32")
    translator = Translator(model, tokenizer, **config.generation)
    card = {"source": config.source, "target": config.target, "license": config.license}
    translator.card = {name: value for name, value in card.items() if value}
    return translator


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
    model, tokenizer, config = _read(directory)
    with new_folder(run_dir) as temporary:
        folder = RunFolder(temporary)
        folder.save_tokenizer(tokenizer)
        model.save(folder.model_file)
        folder.write_config(config)


def _read(directory, dtype=None):
    directory = Path(directory)
    models = _model_files(directory)
    if len(models) != 1:
        names = ", ".join(path.name for path in models) or "none"
        raise InputError(f"{directory} must have one model, .npz or .bin. It has {names}.")
    with _plain(models[0]) as path:
        weights, fields = read_marian(path)
        arguments, sizes = _arguments(models[0], fields, weights)
        search = _search(directory)
        tokenizer = _tokenizer(directory, sizes, arguments["padding_id"], search)
        model = _model(weights, arguments, sizes, dtype)
    pair = re.search(r"\.([a-z]{2})([a-z]{2})\.", models[0].name)
    source, target = pair.groups() if pair else ("", "")
    options = search["options"] | {"early_stopping": "shrink", "split_sentences": False}
    config = RunConfig(
        [], source, target, {}, license_of(directory), model.get_config(), generation=options
    )
    return model, tokenizer, config


def _files(directory, *patterns):
    """The files of these patterns, compressed or not."""
    names = {path for p in patterns for end in ("", ".gz") for path in directory.glob(p + end)}
    return sorted(path for path in names if path.is_file())


def _model_files(directory):
    found = []
    for path in _files(directory, "*.npz", "*.bin"):
        with contextlib.suppress(gzip.BadGzipFile, EOFError, zlib.error), _opened(path) as file:
            if file.read(8).startswith(STARTS):
                found.append(path)
    return found


def _opened(path):
    return gzip.open(path) if path.suffix == ".gz" else open(path, "rb")


@contextlib.contextmanager
def _plain(path: Path) -> Iterator[Path]:
    """The path of what a file holds: its own, or that of a temporary file if it is compressed."""
    if path.suffix != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, disk_errors(folder):
        plain = Path(folder) / path.stem
        with open(plain, "wb") as file:
            for block in _unpacked(path):
                file.write(block)
        yield plain


def _unpacked(path):
    """What a file holds, block by block."""
    most, size = _MAX_RATIO * path.stat().st_size + 2**20, 0
    try:
        with _opened(path) as file:
            while block := file.read(2**20):
                size += len(block)
                if path.suffix == ".gz" and size > most:
                    raise InputError(f"{path} holds more than {_MAX_RATIO} times its own size.")
                yield block
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}.") from None


def _arguments(path, fields, weights):
    """The arguments of the model, and its vocabularies' sizes, checked against all tensors."""
    fields = {name: value for name, value in fields.items() if value is not None}

    def refuse(field, expected):
        received = f"{field}={fields.get(field)!r}"
        return InputError(f"{path}: {field} must be {expected}. Received: {received}")

    recurrent = fields.get("transformer-decoder-autoreg") == "rnn"
    for field, values in (_FIXED | ({"dec-cell": ("ssru",)} if recurrent else {})).items():
        default = values[0] if field != "transformer-preprocess" else ""
        if fields.get(field, default) not in values:
            raise refuse(field, " or ".join(map(repr, values)))
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
        "activation": {"swish": "silu"}.get(a := fields.get(_ACTIVATION, "relu"), a),
        "decoder_sublayers": "rcf" * fields["dec-depth"] if recurrent else None,
        "share_embeddings": share,
        "tie_output": target or both,
        "max_length": _MAX_LENGTH,
        "padding_id": max(sizes),
        "positions": "tensor2tensor",
        "logits_bias": True,
        "norm_epsilon": 1e-6,
    }
    _check_tensors(path, weights, _shapes(arguments, sizes, fields.get("output-omit-bias", False)))
    return arguments, sizes


def _shapes(arguments, sizes, omit_bias):
    """The shapes of all tensors of a model, by their names."""
    d_model, shapes = arguments["d_model"], {}
    vector, square = (1, d_model), (d_model, d_model)

    def add(place, **more):
        shapes.update({f"{place}_{name}": shape for name, shape in more.items()})

    def add_norm(place):
        add(place, ln_scale=vector, ln_bias=vector)

    for side in ("encoder", "decoder"):
        d_ff = arguments.get(f"{side}_d_ff") or arguments["d_ff"]
        attentions = ["self"] if side == "encoder" else ["self", "context"]
        if side == "decoder" and arguments["decoder_sublayers"]:
            attentions.remove("self")
        for i in range(1, arguments[f"num_{side}_layers"] + 1):
            place = f"{side}_l{i}"
            for attention in attentions:
                for letter in _PARTS.values():
                    add(f"{place}_{attention}", **{f"W{letter}": square, f"b{letter}": vector})
                add_norm(f"{place}_{attention}_Wo")
            if "self" not in attentions:
                add(f"{place}_rnn", W=square, Wf=square, bf=vector)
                add_norm(f"{place}_rnn_ffn")
            add(f"{place}_ffn", W1=(d_model, d_ff), b1=(1, d_ff), W2=(d_ff, d_model), b2=vector)
            add_norm(f"{place}_ffn_ffn")
    if arguments["share_embeddings"]:
        shapes["Wemb"] = (sizes[0], d_model)
    else:
        add("encoder", Wemb=(sizes[0], d_model))
        add("decoder", Wemb=(sizes[1], d_model))
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
    half = all(x.dtype == np.float16 for n, x in weights.items() if x.shape[0] > 1)
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
    """Marian's name of one of our weights in a block.

    >>> _name_of("decoder_0/recurrent/forget/bias")
    'decoder_l1_rnn_bf'
    """
    side, layer, place = re.fullmatch(r"(encoder|decoder)_(\d+)/(.+)", path).groups()
    return f"{side}_l{int(layer) + 1}_{_WEIGHTS[place]}"


def _search(directory):
    """The options of the search, its vocabularies' names, and whether it allows the unknown."""
    paths = _files(directory, "*decoder*.yml", "config*.yml")
    paths = [path for path in paths if "vocab" not in path.name]
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise InputError(f"{directory} must have one configuration of the decoder. It has {names}.")
    fields = read_yaml(paths[0]) if paths else {}
    where = paths[0] if paths else directory

    def refuse(field, expected):
        received = f"{field}={fields.get(field)!r}"
        return InputError(f"{where}: {field} must be {expected}. Received: {received}")

    for field in _NOT_SEARCHED:
        if fields.get(field):
            raise refuse(field, "left out: it is not supported")
    if isinstance(fields.get("models"), list) and len(fields["models"]) > 1:
        raise refuse("models", "one: an ensemble is not supported")
    options = {}
    for field, (ours, default) in _SEARCH.items():
        value = default if fields.get(field) is None else fields[field]
        if ours is None and type(value) is not bool:
            raise refuse(field, "true or false")
        if ours is not None:
            value = float(value) if field == "normalize" and value in (True, False) else value
            try:
                TranslationOptions(**{ours: value})
            except (ValueError, TypeError) as error:
                raise InputError(f"{where}: {field}: {error}") from None
            options[ours] = value
    if fields.get("skip-cost") and options["beam_size"] > 1:
        raise refuse("skip-cost", "false, or beam-size 1: a beam goes by probabilities here")
    vocabularies = fields.get("vocabs") or []
    if not (isinstance(vocabularies, list) and all(isinstance(v, str) for v in vocabularies)):
        raise refuse("vocabs", "a list of files")
    names = [Path(name).name for name in vocabularies]
    return {"options": options, "vocabs": names, "allow-unk": fields.get("allow-unk", False)}


def _tokenizer(directory, sizes, padding_id, search):
    """The tokenizer of the folder's vocabularies."""
    models = _sides(directory, _files(directory, "*.spm"), search["vocabs"])
    tables = _files(directory, "*vocab*.yml", "*vocab*.yaml")
    read = {path: b"".join(_unpacked(path)) for path in {*models}}
    if tables:
        tables = _sides(directory, tables, search["vocabs"])
        sides = [_from_table(path) for path in tables]
    else:
        tables = models
        sides = [_from_model(path, read[path]) for path in models]
    pieces = []
    for path, (table, _), size in zip(tables, sides, sizes, strict=True):
        if len(table) != size:
            raise InputError(
                f"{path} must have {size} pieces, as the embedding has rows. It has {len(table)}."
            )
        pieces.append([*table, *[""] * (padding_id + 1 - size)])
    marks = {p: i for i, p in enumerate(pieces[0]) if re.fullmatch(r">>.+<<", p)}
    unknown = [] if search["allow-unk"] else [pieces[1].index("<unk>")]
    special = dict.fromkeys(["<unk>", "</s>", *sides[0][1], *sides[1][1]])
    return PretrainedTokenizer(
        [read[path] for path in dict.fromkeys(models)],
        pieces if pieces[0] != pieces[1] else pieces[:1],
        special=list(special),
        padding_id=padding_id,
        bos_id=padding_id,
        eos_id=pieces[1].index("</s>"),
        source_eos_id=pieces[0].index("</s>"),
        forbidden_ids=[*unknown, *range(sizes[1], padding_id)],
        marks=marks if tables is not models else {},
        description="Marian's: SentencePiece",
    )


def _sides(directory, paths, listed):
    """The files of the source and of the target, which may be one."""
    places = {path.name.removesuffix(".gz"): path for path in paths}
    if len(listed) > 1 and all(name.removesuffix(".gz") in places for name in listed):
        paths = [places[name.removesuffix(".gz")] for name in listed]
    elif len(paths) == 2:
        named = [p for p in paths if re.search(r"src|source", p.name)]
        others = [p for p in paths if re.search(r"trg|tgt|target", p.name)]
        paths = named + others if len(named) == len(others) == 1 else []
    if len(paths) not in (1, 2):
        raise InputError(
            f"{directory} must have one SentencePiece vocabulary, .spm, or one for each side, with "
            "src and trg or source and target in their names; and YAML vocabularies likewise."
        )
    return [paths[0], paths[-1]]


def _from_model(path, model):
    """The pieces of a SentencePiece model, and those that are no text."""
    processor = sentencepiece_processor(model, path)
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    for name, id in (("<unk>", processor.unk_id()), ("</s>", processor.eos_id())):
        if id < 0 or name in pieces[:id] + pieces[id + 1 :]:
            raise InputError(f"{path} must have {name}, once.")
        pieces[id] = name
    return pieces, [p for i, p in enumerate(pieces) if processor.is_control(i)]


def _from_table(path):
    """The pieces of a YAML vocabulary; none but the usual ones is no text."""
    with _plain(path) as plain:
        ids = read_vocabulary(plain)
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"{path} must give the ids from 0 on, each to one piece.")
    if not {"<unk>", "</s>"} <= ids.keys():
        raise InputError(f"{path} must have <unk> and </s>.")
    return sorted(ids, key=ids.get), []
