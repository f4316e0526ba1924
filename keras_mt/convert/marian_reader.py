"""Marian's own folders: models of Firefox, HPLT, Tatoeba and OPUS-MT as they were trained."""

import dataclasses
import re
from fnmatch import fnmatch
from pathlib import Path

import numpy as np

from keras_mt.compressed import strip_compression
from keras_mt.convert import marian
from keras_mt.convert.card import Pretrained
from keras_mt.convert.fields import model_arguments, read_fields, refusal, search_options
from keras_mt.convert.marian_files import parse_yaml, read_file, read_marian
from keras_mt.errors import InputError
from keras_mt.layers.feed_forward import gelu_sigmoid
from keras_mt.text import PretrainedTokenizer
from keras_mt.text.vocabulary import sentencepiece_processor

_NO_MODEL = "lex", "shortlist", "pytorch_model", "training_args"  # Beginnings of files' names.
_MAX_LENGTH = 1024  # Of the table of positions, which the files do not have.
_ACTIVATIONS = {"swish": "silu", "gelu": gelu_sigmoid}  # By Marian's names, where they differ.
# Fields of a decoder's configuration that would change what is found.
_NOT_SEARCHED = "output-sampling", "force-decode", "output-approx-knn", "weights", "right-left"
# Other fields of a configuration without effect on a Transformer; all but these must be empty.
_NO_EFFECT = re.compile(
    r"enc-(cell|type|cell-depth)|dec-cell-(base|high)-depth|dim-rnn|skip|bert-.*|factors-combine|"
    r"transformer-(aan-(activation|depth|nogate)|dim-aan|depth-scaling|guided-alignment-layer)|"
    r"ulr-.*|lemma-dependency|original-type|s2s-.*|char-.*|conv-.*"
)


@dataclasses.dataclass(frozen=True)
class DecoderConfig:
    """Fields of a decoder's configuration other than `marian.SEARCH`, hyphens as underscores."""

    allow_unk: bool = False
    skip_cost: bool = False


def has_model(path: Path) -> bool:
    """True if a folder holds a model in Marian's own format, and none of transformers'."""
    return not (path / "config.json").is_file() and bool(_model_files(path))


def read(directory: Path, dtype: str | None = None) -> Pretrained:
    """Reads a folder; the dtype is that of the weights if None is given."""
    models = _model_files(directory)
    if len(models) != 1:
        names = ", ".join(path.name for path in models) or "none"
        raise InputError(f"{directory} must have one model, .npz or .bin. It has {names}.")
    weights, fields = read_marian(models[0])
    config = _read_config(models[0], fields)
    decoder, options = _read_decoder(directory)
    arguments = _arguments(config)
    dtype = dtype or weights.dtype()
    _add_padding(weights, config)
    model = weights.transformer(arguments, marian.names_of, dtype)
    tokenizer = _read_tokenizer(directory, config, arguments["padding_id"], decoder)
    pair = re.search(r"\.([a-z]{2})([a-z]{2})\.", models[0].name)
    pair = pair.groups() if pair else ("", "")
    return Pretrained(model, tokenizer, *pair, options, {})


def _find_files(directory, *patterns):
    """The files of these patterns, compressed or not."""
    files = sorted(path for path in directory.iterdir() if path.is_file())
    return [x for x in files if any(fnmatch(strip_compression(x.name), p) for p in patterns)]


def _model_files(directory):
    """The models: not the shortlists, nor transformers' own weights."""
    found = _find_files(directory, "*.npz", "*.bin")
    return [path for path in found if not path.name.startswith(_NO_MODEL)]


def _read_config(path, fields):
    """The configuration of a model."""
    config = read_fields(marian.MarianConfig, fields, path, separator="-")
    known = {field.name.replace("_", "-") for field in dataclasses.fields(config)}
    for field, value in fields.items():
        if value and field not in known and not _NO_EFFECT.fullmatch(field):
            raise refusal(path, field, value, "left out or empty: it is not supported")
    if len(config.dim_vocabs) != 2:
        raise refusal(path, "dim-vocabs", config.dim_vocabs, "the sizes of two vocabularies")
    version = re.match(r"v?(\d+)\.(\d+)\.", config.version)
    old = version is not None and (int(version[1]), int(version[2])) < (1, 12)
    if config.transformer_ffn_activation == "gelu" and not old:  # It may be the true one.
        expected = "'relu' or 'swish', unless version is below v1.12"
        raise refusal(path, "transformer-ffn-activation", "gelu", expected)
    if config.recurrent and config.dec_cell != "ssru":
        raise refusal(path, "dec-cell", config.dec_cell, "'ssru'")
    return config


def _arguments(config):
    """The arguments of the model.

    It has one id more than Marian has: the padding and the start, whose embedding is zero.
    """
    padding_id, activation = max(config.dim_vocabs), config.transformer_ffn_activation
    return {
        **model_arguments(config),
        "vocab_size": padding_id + 1,
        "target_vocab_size": padding_id + 1,
        "decoder_d_ff": config.transformer_decoder_dim_ffn or config.transformer_dim_ffn,
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
    (source, target), width = config.dim_vocabs, config.dim_emb
    number = max(source, target) + 1
    tables = dict(
        weights.of_shape((size, width), [name, "Wemb"])
        for name, size in (("encoder_Wemb", source), ("decoder_Wemb", target))
    )
    for name, table in tables.items():
        weights[name] = np.pad(table, ((0, number - len(table)), (0, 0)))
    if config.output_omit_bias:
        weights[marian.BIAS] = np.zeros((1, target), "float32")
    for name, rows, filler in ((marian.BIAS, 1, marian.NO_TOKEN), (marian.OUTPUT, width, 0)):
        if name in weights:
            _, table = weights.of_shape((rows, target), [name])
            columns = (0, 0), (0, number - target)
            weights[name] = np.pad(table, columns, constant_values=filler)


def _read_decoder(directory):
    """The configuration of the decoder, and the options of a `keras_mt.Translator` from it."""
    paths = _find_files(directory, "*decoder*.yml", "config*.yml")
    paths = [path for path in paths if "vocab" not in path.name]
    if len(paths) > 1:
        names = ", ".join(path.name for path in paths)
        raise InputError(f"{directory} must have one configuration of the decoder. It has {names}.")
    where = paths[0] if paths else directory
    fields = parse_yaml(read_file(where), where) if paths else {}
    config = read_fields(DecoderConfig, fields, where, separator="-")
    for field in filter(fields.get, _NOT_SEARCHED):
        raise refusal(where, field, fields[field], "left out: it is not supported")
    if isinstance(models := fields.get("models"), list) and len(models) > 1:
        raise refusal(where, "models", models, "one: an ensemble is not supported")
    options = search_options(fields, marian.SEARCH, where)
    if config.skip_cost and options["beam_size"] > 1:
        expected = "false, or beam-size 1: a beam goes by probabilities here"
        raise refusal(where, "skip-cost", True, expected)
    return config, options | {"early_stopping": "shrink", "split_sentences": False}


def _read_tokenizer(directory, config, padding_id, decoder):
    """The tokenizer of the folder's vocabularies."""
    models = _sides(directory, "*.spm")
    contents = {path: read_file(path) for path in {*models}}
    processors = {path: sentencepiece_processor(x, path) for path, x in contents.items()}
    special, pieces = ["<unk>", "</s>"], []
    if tables := _find_files(directory, "*vocab*.yml", "*vocab*.yaml"):
        files = _sides(directory, "*vocab*.yml", "*vocab*.yaml")
        sides = [read_vocabulary(path) for path in files]
    else:
        files, sides = models, [marian.pieces_of(processors[path], path) for path in models]
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


def _sides(directory, *patterns):
    """The files of the source and of the target, which may be one."""
    paths = _find_files(directory, *patterns)
    if len(paths) == 2:
        named = [p for p in paths if re.search(r"src|source", p.name)]
        others = [p for p in paths if re.search(r"trg|tgt|target", p.name)]
        paths = named + others if len(named) == len(others) == 1 else []
    if len(paths) not in (1, 2):
        raise InputError(
            f"{directory} must have one {patterns[0]}, or one for each side, with src and trg or "
            "source and target in their names."
        )
    return [paths[0], paths[-1]]


def read_vocabulary(path: Path) -> list[str]:
    """The pieces of a YAML vocabulary in the order of their ids."""
    ids = parse_yaml(read_file(path), path, strings=True)
    by_id = {id: piece for piece, id in ids.items() if isinstance(id, str)}
    pieces = [by_id.get(str(i)) for i in range(len(ids))]
    if None in pieces or not {"<unk>", "</s>"} <= {*pieces}:
        raise InputError(
            f"{path} must give each piece its id, from 0 on, with <unk> and </s> among them."
        )
    return pieces
