"""The files beside Marian's weights: a folder's vocabularies, and its options of the search."""

import contextlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sentencepiece import sentencepiece_model_pb2

from keras_mt.compressed import open_read
from keras_mt.convert.marian_files import read_vocabulary, read_yaml
from keras_mt.errors import InputError
from keras_mt.files import disk_errors
from keras_mt.options import TranslationOptions
from keras_mt.text import BaseTokenizer, PretrainedTokenizer, Tokenizer
from keras_mt.text.tokenizer import sentencepiece_processor

_MAX_RATIO = 64  # Of what is in a `.gz` file to its own size.
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


def find_files(directory: Path, *patterns: str) -> list[Path]:
    """The files of these patterns, compressed or not."""
    names = {path for p in patterns for end in ("", ".gz") for path in directory.glob(p + end)}
    return sorted(path for path in names if path.is_file())


@contextlib.contextmanager
def plain(path: Path) -> Iterator[Path]:
    """The path of what a file holds: its own, or that of a temporary file if it is compressed."""
    if path.suffix != ".gz":
        yield path
        return
    with tempfile.TemporaryDirectory() as folder, disk_errors(folder):
        unpacked = Path(folder) / path.stem
        with open(unpacked, "wb") as file:
            file.writelines(_unpacked(path))
        yield unpacked


def _unpacked(path):
    """A file, unpacked, block by block."""
    most, size = _MAX_RATIO * path.stat().st_size + 2**20, 0
    with open_read(path) as file:
        while block := file.read(2**20):
            size += len(block)
            if path.suffix == ".gz" and size > most:
                raise InputError(f"{path} holds more than {_MAX_RATIO} times its own size.")
            yield block


def read_search(directory: Path) -> dict[str, Any]:
    """The options of the search, its vocabularies' names, and whether it allows the unknown."""
    paths = find_files(directory, "*decoder*.yml", "config*.yml")
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


def read_tokenizer(
    directory: Path, sizes: list[int], padding_id: int, search: dict[str, Any]
) -> PretrainedTokenizer:
    """The tokenizer of the folder's vocabularies."""
    models = _sides(directory, find_files(directory, "*.spm"), search["vocabs"])
    tables = find_files(directory, "*vocab*.yml", "*vocab*.yaml")
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
        language_tags=marks if tables is not models else {},
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
    with plain(path) as unpacked:
        ids = read_vocabulary(unpacked)
    if sorted(ids.values()) != list(range(len(ids))):
        raise InputError(f"{path} must give the ids from 0 on, each to one piece.")
    if not {"<unk>", "</s>"} <= ids.keys():
        raise InputError(f"{path} must have <unk> and </s>.")
    return sorted(ids, key=ids.get), []


def written_vocabularies(
    tokenizer: BaseTokenizer, multiple: int
) -> tuple[list[bytes], list[np.ndarray]]:
    """The SentencePiece models for Marian, and for each side our ids of its pieces.

    Unused pieces, with the id -1, fill up their number to a multiple.
    """
    if isinstance(tokenizer, Tokenizer) and not tokenizer.languages:
        model, order = _for_marian(tokenizer, multiple)
        return [model], [order, order]
    if isinstance(tokenizer, PretrainedTokenizer):
        tables = [_from_model("the tokenizer", model)[0] for model in tokenizer.models]
        sides = [[p for p in side if p] for side in tokenizer.settings["pieces"]]
        if tables == sides and not any(len(side) % multiple for side in sides):
            orders = [np.arange(len(side)) for side in sides]
            return list(tokenizer.models), [orders[0], orders[-1]]
    raise InputError(
        "Marian takes a Tokenizer without languages, or one imported from Marian's .spm files (for "
        "int8 of a multiple of 8 pieces)."
    )


def _for_marian(tokenizer, multiple):
    """A SentencePiece model without padding and start, whose end is 0 and unknown 1."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model)
    dropped = tokenizer.padding_id, tokenizer.bos_id
    first = [tokenizer.eos_id, tokenizer.unknown_id]
    order = first + [i for i in range(len(proto.pieces)) if i not in (*first, *dropped)]
    pieces = [proto.pieces[i] for i in order]
    for number in range(-len(order) % multiple):
        order.append(-1)
        pieces.append(
            proto.SentencePiece(piece=f"<unused{number}>", type=proto.SentencePiece.UNUSED)
        )
    pieces = [proto.SentencePiece.FromString(piece.SerializeToString()) for piece in pieces]
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    spec = proto.trainer_spec
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id = 0, 1, -1, -1
    spec.vocab_size = len(order)
    return proto.SerializeToString(), np.array(order)
