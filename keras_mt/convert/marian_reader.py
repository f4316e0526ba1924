"""Marian's own folders: models of Firefox, HPLT, Tatoeba and OPUS-MT as they were trained.

A folder that is read is not trusted: nothing in it is executed, and what would change results and
is not understood is refused with an error that names the file and the field.
"""

import contextlib
import dataclasses
import math
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_mt.compressed import open_read
from keras_mt.convert.card import Pretrained
from keras_mt.convert.fields import check_search, check_sizes, read_fields, refusal
from keras_mt.convert.marian import (
    BIAS,
    NO_TOKEN,
    OUTPUT,
    SEARCH,
    MarianConfig,
    names_of,
    pieces_of,
)
from keras_mt.convert.marian_files import STARTS, parse_yaml, read_marian
from keras_mt.convert.weights import Weights
from keras_mt.errors import CorpusError, InputError
from keras_mt.files import disk_errors
from keras_mt.layers.feed_forward import gelu_sigmoid
from keras_mt.models import Transformer, ensure_built
from keras_mt.text import PretrainedTokenizer
from keras_mt.text.tokenizer import sentencepiece_processor

_MAX_CONFIG, _MAX_VOCABULARY = 2**20, 2**24  # Bytes.
_MAX_RATIO = 64  # Of what is in a `.gz` file to its own size.
_MAX_LENGTH = 1024  # Of the table of positions, which the files do not have.
_ACTIVATIONS = {"swish": "silu", "gelu": gelu_sigmoid}  # By Marian's names, where they differ.
# Other fields of a configuration without effect on a Transformer; all but these must be empty.
_NO_EFFECT = re.compile(
    r"enc-(cell|type|cell-depth)|dec-cell-(base|high)-depth|dim-rnn|skip|bert-.*|factors-combine|"
    r"transformer-(aan-(activation|depth|nogate)|dim-aan|depth-scaling|guided-alignment-layer)|"
    r"ulr-.*|lemma-dependency|original-type|s2s-.*|char-.*|conv-.*"
)
_NOT_SEARCHED = "output-sampling", "force-decode", "output-approx-knn", "weights", "right-left"


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """The fields of a decoder's configuration, with Marian's defaults, hyphens as underscores."""

    beam_size: int = 12
    normalize: float = 0.0
    word_penalty: float = 0.0
    max_length_factor: float = 3.0
    allow_unk: bool = False
    skip_cost: bool = False
    models: list[str] = dataclasses.field(default_factory=list)
    vocabs: list[str] = dataclasses.field(default_factory=list)


def has_model(path: Path) -> bool:
    """True if a folder holds a model in Marian's own format, and none of transformers'."""
    return not (path / "config.json").is_file() and bool(_model_files(path))


def read(directory: Path, dtype: str | None = None) -> Pretrained:
    """Reads a folder; the dtype is that of the weights if None is given."""
    models = _model_files(directory)
    if len(models) != 1:
        names = ", ".join(path.name for path in models) or "none"
        raise InputError(f"{directory} must have one model, .npz or .bin. It has {names}.")
    with _decompressed(models[0]) as path:
        weights, fields = read_marian(path)
        weights = Weights(models[0], weights)
        config = _read_config(models[0], fields, weights)
        decoder, options = _read_decoder(directory)
        arguments = _arguments(config)
        tokenizer = _read_tokenizer(directory, config, arguments["padding_id"], decoder)
        dtype = dtype or weights.dtype()
        _add_padding(weights, config)
        model = ensure_built(Transformer(**arguments, dtype=dtype))
        weights.fill(model, names_of)
    pair = re.search(r"\.([a-z]{2})([a-z]{2})\.", models[0].name)
    pair = pair.groups() if pair else ("", "")
    return Pretrained(model, tokenizer, *pair, options, {})


def _model_files(directory):
    found = []
    for path in _find_files(directory, "*.npz", "*.bin"):
        with contextlib.suppress(CorpusError), open_read(path) as file:
            if file.read(8).startswith(STARTS):
                found.append(path)
    return found


def _find_files(directory, *patterns):
    """The files of these patterns, compressed or not."""
    names = {path for p in patterns for end in ("", ".gz") for path in directory.glob(p + end)}
    return sorted(path for path in names if path.is_file())


def _read_config(path, fields, weights):
    """The configuration of a model, whose sizes must be those of its weights."""
    config = read_fields(MarianConfig, fields, path, separator="-")
    known = {field.name.replace("_", "-") for field in dataclasses.fields(config)}
    for field, value in fields.items():
        if value and field not in known and not _NO_EFFECT.fullmatch(field):
            raise refusal(path, field, value, "left out or empty: it is not supported")
    version = re.match(r"v?(\d+)\.(\d+)\.", config.version)
    old = version is not None and (int(version[1]), int(version[2])) < (1, 12)
    if config.transformer_ffn_activation == "gelu" and not old:  # It may be the true one.
        expected = "'relu' or 'swish', unless version is below v1.12"
        raise refusal(path, "transformer-ffn-activation", "gelu", expected)
    if config.recurrent and config.dec_cell != "ssru":
        raise refusal(path, "dec-cell", config.dec_cell, "'ssru'")
    if config.dim_emb % config.transformer_heads:
        expected = f"a divisor of dim-emb={config.dim_emb}"
        raise refusal(path, "transformer-heads", config.transformer_heads, expected)
    if config.output_omit_bias == (BIAS in weights):
        raise refusal(path, "output-omit-bias", config.output_omit_bias, f"false with {BIAS} alone")
    source, width = weights.matrix_shape(["encoder_Wemb", "Wemb"])
    target, _ = weights.matrix_shape(["decoder_Wemb", "Wemb"], width)
    layers, d_ff = weights.layers("encoder_l*_ffn_W2", width)
    decoder_layers, decoder_d_ff = weights.layers("decoder_l*_ffn_W2", width)
    sizes = {
        "dim-emb": width,
        "dim-vocabs": [source, target],
        "enc-depth": layers,
        "dec-depth": decoder_layers,
        "transformer-dim-ffn": d_ff,
        "transformer-decoder-dim-ffn": decoder_d_ff,
    }
    check_sizes(fields, sizes, path)
    return config


def _arguments(config):
    """The arguments of the model.

    It has one id more than Marian has: the padding and the start, whose embedding is zero.
    """
    padding_id, activation = max(config.dim_vocabs), config.transformer_ffn_activation
    return {
        "vocab_size": padding_id + 1,
        "d_model": config.dim_emb,
        "num_heads": config.transformer_heads,
        "num_encoder_layers": config.enc_depth,
        "num_decoder_layers": config.dec_depth,
        "d_ff": config.transformer_dim_ffn,
        "decoder_d_ff": config.decoder_dim_ffn,
        "activation": _ACTIVATIONS.get(activation, activation),
        "decoder_sublayers": "rcf" * config.dec_depth if config.recurrent else None,
        "share_embeddings": config.tied_embeddings_src or config.tied_embeddings_all,
        "tie_output": config.tied_embeddings or config.tied_embeddings_all,
        "max_length": _MAX_LENGTH,
        "padding_id": padding_id,
        "positions": "tensor2tensor",
        "logits_bias": True,
        "norm_epsilon": 1e-6,
        "zero_id": padding_id,
    }


def _add_padding(weights, config):
    """Gives the tensors of each vocabulary as many rows as the model has ids."""
    number, target = max(config.dim_vocabs) + 1, config.dim_vocabs[1]
    weights.setdefault(BIAS, np.zeros((1, target), "float32"))
    for name in {"Wemb", "encoder_Wemb", "decoder_Wemb"} & weights.keys():
        table = np.asarray(weights[name])
        weights[name] = np.pad(table, ((0, number - len(table)), (0, 0)))
    for name, filler in ((BIAS, NO_TOKEN), (OUTPUT, 0)):
        if name in weights:
            weights.matrix_shape([name])
            columns = (0, 0), (0, number - target)
            weights[name] = np.pad(weights[name], columns, constant_values=filler)


def _read_decoder(directory):
    """The configuration of the decoder, and the options of a `keras_mt.Translator` from it."""
    paths = _find_files(directory, "*decoder*.yml", "config*.yml")
    paths = [path for path in paths if "vocab" not in path.name]
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise InputError(f"{directory} must have one configuration of the decoder. It has {names}.")
    where = paths[0] if paths else directory
    fields = parse_yaml(b"".join(_blocks(where, _MAX_CONFIG)), where) if paths else {}
    for field in _NOT_SEARCHED:
        if fields.get(field):
            raise refusal(where, field, fields[field], "left out: it is not supported")
    config = read_fields(DecoderConfig, fields, where, separator="-")
    if len(config.models) > 1:
        raise refusal(where, "models", config.models, "one: an ensemble is not supported")
    if config.skip_cost and config.beam_size > 1:
        expected = "false, or beam-size 1: a beam goes by probabilities here"
        raise refusal(where, "skip-cost", True, expected)
    options = {o: getattr(config, field.replace("-", "_")) for field, o in SEARCH.items()}
    options |= {"early_stopping": "shrink", "split_sentences": False}
    check_search(options, SEARCH, where)
    return config, options


def _read_tokenizer(directory, config, padding_id, decoder):
    """The tokenizer of the folder's vocabularies."""
    listed = [Path(name).name for name in decoder.vocabs]
    models = _sides(directory, _find_files(directory, "*.spm"), listed)
    tables = _find_files(directory, "*vocab*.yml", "*vocab*.yaml")
    contents = {path: b"".join(_blocks(path)) for path in {*models}}
    processors = {path: sentencepiece_processor(contents[path], path) for path in {*models}}
    special, pieces = ["<unk>", "</s>"], []
    if tables:
        files = _sides(directory, tables, listed)
        sides = [read_vocabulary(path) for path in files]
    else:
        files, sides = models, [pieces_of(processors[path], path) for path in models]
        for path, side in zip(files, sides, strict=True):
            special += [p for i, p in enumerate(side) if processors[path].is_control(i)]
    for path, side, size in zip(files, sides, config.dim_vocabs, strict=True):
        if len(side) != size:
            raise InputError(
                f"{path} must have {size} pieces, as the embedding has rows. It has {len(side)}."
            )
        pieces.append([*side, *[""] * (padding_id + 1 - size)])
    source, target = pieces
    unknown = [] if decoder.allow_unk else [target.index("<unk>")]
    tags = {p: i for i, p in enumerate(source) if tables and re.fullmatch(r">>.+<<", p)}
    return PretrainedTokenizer(
        [contents[path] for path in dict.fromkeys(models)],
        pieces if source != target else pieces[:1],
        special=[*dict.fromkeys(special)],
        padding_id=padding_id,
        bos_id=padding_id,
        eos_id=target.index("</s>"),
        source_eos_id=source.index("</s>"),
        forbidden_ids=[*unknown, *range(config.dim_vocabs[1], padding_id)],
        language_tags=tags,
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


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of a YAML vocabulary in the order of their ids."""
    ids = parse_yaml(b"".join(_blocks(path, _MAX_VOCABULARY)), path, strings=True)
    if not all(isinstance(i, str) and i.isascii() and i.isdigit() for i in ids.values()):
        raise InputError(f"{path} must give each piece its id, an integer.")
    by_id = {int(id[:9]): piece for piece, id in ids.items()}
    pieces = [by_id.get(i) for i in range(len(ids))]
    if None in pieces:
        raise InputError(f"{path} must give the ids from 0 on, each to one piece.")
    if not {"<unk>", "</s>"} <= {*pieces}:
        raise InputError(f"{path} must have <unk> and </s>.")
    return pieces


@contextlib.contextmanager
def _decompressed(path: Path) -> Iterator[Path]:
    """The path of what a file holds: its own, or that of a temporary file if it is compressed."""
    if path.suffix != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, disk_errors(folder):
        unpacked = Path(folder) / path.stem
        with open(unpacked, "wb") as file:
            file.writelines(_blocks(path))
        yield unpacked


def _blocks(path, most=math.inf):
    """A file, unpacked, block by block."""
    if path.suffix == ".gz":
        most = min(most, _MAX_RATIO * path.stat().st_size + 2**20)
    size = 0
    with open_read(path) as file:
        while block := file.read(2**20):
            size += len(block)
            if size > most:
                raise InputError(f"{path} holds more than {most} bytes.")
            yield block
