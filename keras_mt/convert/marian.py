"""Marian's own format: its configuration, its names of weights, and folders written for it."""

import dataclasses
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import keras
import numpy as np
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

from keras_mt.convert.fields import Count, argument
from keras_mt.convert.formats import ModelFormat, check_model
from keras_mt.convert.marian_files import write_bin
from keras_mt.convert.weights import renamed
from keras_mt.errors import InputError
from keras_mt.files import new_folder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

# Fields of the decoder's configuration: the option of a Translator, and Marian's default.
SEARCH = {
    "beam-size": ("beam_size", 12),
    "normalize": ("length_penalty", 0.0),
    "word-penalty": ("word_penalty", 0.0),
    "max-length-factor": ("max_length_factor", 3.0),
}
FORMAT = ModelFormat(
    "Marian",
    {*(option for option, _ in SEARCH.values()), "early_stopping", "quantization"},
    early_stopping=("shrink",),
    quantizations=("int8",),
)
NO_TOKEN = -1e4  # The logit of an id that stands for no token of Marian's.
OUTPUT, BIAS = "decoder_ff_logit_out_W", "decoder_ff_logit_out_b"


@dataclasses.dataclass(frozen=True)
class MarianConfig:
    """The fields of a model's configuration that its results depend on, hyphens as underscores."""

    dim_emb: Count = argument("d_model")
    dim_vocabs: list[Count]
    enc_depth: Count = argument("num_encoder_layers")
    dec_depth: Count = argument("num_decoder_layers")
    transformer_heads: Count = argument("num_heads")
    transformer_dim_ffn: Count = argument("encoder_d_ff")
    transformer_decoder_dim_ffn: int = 0  # As that of the encoder.
    transformer_ffn_activation: Literal["relu", "swish", "gelu"] = "relu"
    transformer_decoder_autoreg: Literal["self-attention", "rnn"] = "self-attention"
    dec_cell: Literal["ssru", "gru", "lstm"] = "ssru"  # It counts in a recurrent decoder alone.
    tied_embeddings: bool = False
    tied_embeddings_src: bool = False
    tied_embeddings_all: bool = False
    output_omit_bias: bool = False
    version: str = ""
    # Fields that have no other values.
    type: Literal["transformer"] = "transformer"
    transformer_ffn_depth: Literal[2] = 2
    transformer_decoder_ffn_depth: Literal[0, 2] = 0
    transformer_preprocess: Literal[""] = ""
    transformer_postprocess: Literal["dan"] = "dan"
    transformer_postprocess_emb: Literal["d", ""] = "d"
    transformer_postprocess_top: Literal[""] = ""

    @property
    def recurrent(self) -> bool:
        """True if the decoder has SSRU in place of self-attention."""
        return self.transformer_decoder_autoreg == "rnn"


# Fields that some of Marian's readers need. In a model that is read they must be empty too.
_EMPTY = {
    "transformer-no-projection": False,
    "transformer-rnn-projection": False,
    "transformer-tied-layers": [],
    "transformer-train-position-embeddings": False,
    "input-types": [],
    "lemma-dim-emb": 0,
    "layer-normalization": False,
    "right-left": False,
    "skip": False,
}
# From our names of weights in a block to Marian's; its layers count from 1.
_NAMES = {
    r"_(\d+)/": lambda match: f"_l{int(match[1]) + 1}_",
    r"self_attention_norm/": "self_Wo_ln_",
    r"cross_attention_norm/": "context_Wo_ln_",
    r"recurrent_norm/": "rnn_ffn_ln_",
    r"feed_forward_norm/": "ffn_ffn_ln_",
    r"gamma$": "scale",
    r"beta$": "bias",
    r"self_attention/": "self/",
    r"cross_attention/": "context/",
    # The last two patterns take the number for `ffn_W1` and `ffn_b1`.
    r"feed_forward/inner/": "ffn/1/",
    r"feed_forward/output/": "ffn/2/",
    r"recurrent/input/kernel": "rnn_W",
    r"recurrent/": "rnn/",
    r"/(.)\w*/kernel$": r"_W\1",
    r"/(.)\w*/bias$": r"_b\1",
}


def names_of(path: str) -> tuple[Sequence[str], bool]:
    """Marian's names for one of our weights, and whether it is transposed: none is."""
    if path.endswith("/embeddings"):
        return ["encoder_Wemb" if path.startswith("source") else "decoder_Wemb", "Wemb"], False
    if path.endswith("/reverse_embeddings"):
        return [OUTPUT], False
    return [BIAS if path.endswith("/logits_bias") else renamed(path, _NAMES)], False


def pieces_of(processor: SentencePieceProcessor, path: Path | str) -> list[str]:
    """The pieces of a SentencePiece model as Marian calls them."""
    pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
    for name, id in (("<unk>", processor.unk_id()), ("</s>", processor.eos_id())):
        if id < 0 or name in pieces[:id] + pieces[id + 1 :]:
            raise InputError(f"{path} must have {name}, once.")
        pieces[id] = name
    return pieces


def to_marian(
    translator: Translator, directory: str | os.PathLike, quantization: str | None = None
) -> None:
    """Writes a folder for Marian, and for what is built on it: Bergamot, Firefox, translateLocally.

    The model must be as Marian has them (`_check_model`), or imported from Marian's files.
    """
    FORMAT.check(translator, directory, quantization)
    model, tokenizer = translator.models[0], translator.tokenizer
    _check_model(model, tokenizer, quantization)
    vocabularies, orders = _vocabularies(tokenizer, 8 if quantization else 1)
    names = ["vocab.spm"] if len(vocabularies) == 1 else ["vocab.src.spm", "vocab.trg.spm"]
    options = translator.options
    search = {
        "models": ["model.bin"],
        "vocabs": (names * 2)[:2],
        **{field: getattr(options, ours) for field, (ours, _) in SEARCH.items()},
        "max-length-factor": options.max_length_factor or 3.0,
        "gemm-precision": "int8shiftAll" if quantization else "float32",
    }
    with new_folder(directory) as folder:
        tensors, config = _tensors(model, orders), _config(model, orders)
        write_bin(folder / "model.bin", tensors, config, quantization == "int8")
        for name, vocabulary in zip(names, vocabularies, strict=True):
            (folder / name).write_bytes(vocabulary)
        (folder / "decoder.yml").write_text(_as_yaml(search), encoding="utf-8")


def _as_yaml(fields):
    """Fields as YAML, of which JSON is a part."""
    return "".join(f"{n.replace('_', '-')}: {json.dumps(x)}\n" for n, x in fields.items())


def _check_model(model, tokenizer, quantization):
    """Refuses a model that Marian has not, by what it lacks."""
    config = model.get_config()
    heads, layers = config.get("num_heads"), len(config.get("decoder_sublayers") or "") // 3
    known = {
        "activation": ("relu", "silu"),
        "positions": ("tensor2tensor",),
        "pre_norm": (False,),
        "final_norm": (False, None),
        "decoder_sublayers": (None, "rcf" * layers, "scf" * layers),
        "num_encoder_heads": (None, heads),
        "num_decoder_heads": (None, heads),
        "scale_embeddings": (True,),
        "norm_epsilon": (1e-6, 1e-5),
        "zero_id": (tokenizer.bos_id,),
    }
    check_model("Marian", model, known)
    blocks = model.encoder_stack.blocks + model.decoder_stack.blocks
    widths = {block.d_ff for block in blocks} | {model.d_model}
    if quantization and any(width % 64 for width in widths):
        raise InputError(
            "Marian's int8 needs d_model and d_ff that are multiples of 64: leave quantization out."
        )


def _vocabularies(tokenizer, multiple):
    """The SentencePiece models for Marian, and for each side our ids of its pieces.

    Unused pieces, with the id -1, fill up their number to a multiple.
    """
    if isinstance(tokenizer, Tokenizer) and not tokenizer.languages:
        model, order = _padded(*_for_marian(tokenizer), multiple)
        return [model], [order, order]
    if isinstance(tokenizer, PretrainedTokenizer):
        processors = [SentencePieceProcessor(model_proto=model) for model in tokenizer.models]
        tables = [pieces_of(processor, "the tokenizer") for processor in processors]
        sides = tokenizer.settings["pieces"]
        if tables == [[p for p in side if p] for side in sides]:
            orders = [[id for id, piece in enumerate(side) if piece] for side in sides]
            padded = [_padded(*x, multiple) for x in zip(tokenizer.models, orders, strict=True)]
            return [model for model, _ in padded], [padded[0][1], padded[-1][1]]
    raise InputError(
        "Marian takes a Tokenizer without languages, or one imported from Marian's .spm files."
    )


def _for_marian(tokenizer):
    """A SentencePiece model without padding and start, whose end is 0 and unknown 1."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(tokenizer.model)
    order = [tokenizer.eos_id, tokenizer.unknown_id, *range(4, len(proto.pieces))]
    pieces = [proto.SentencePiece.FromString(proto.pieces[i].SerializeToString()) for i in order]
    del proto.pieces[:]
    proto.pieces.extend(pieces)
    spec = proto.trainer_spec
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id = 0, 1, -1, -1
    return proto.SerializeToString(), order


def _padded(model, order, multiple):
    """A model with unused pieces up to a multiple, and our ids of its pieces, -1 for those."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    known, unused = {each.piece for each in proto.pieces}, proto.SentencePiece.UNUSED
    names = (name for i in itertools.count() if (name := f"<unused{i}>") not in known)
    for name in itertools.islice(names, -len(order) % multiple):
        proto.pieces.add(piece=name, type=unused)
    added = len(proto.pieces) - len(order)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString(), np.array([*order, *[-1] * added])


def _tensors(model, orders):
    """The model's tensors by Marian's names.

    `orders` has for each side our ids of the vocabulary's pieces, -1 where there is none.
    """
    source, target = orders
    share = model.get_config()["share_embeddings"]
    tensors = {BIAS: np.where(target < 0, NO_TOKEN, np.zeros(len(target)))[None]}
    for variable in model.weights:
        names, _ = names_of(variable.path)
        values = keras.ops.convert_to_numpy(keras.ops.cast(variable, "float32"))
        if "Wemb" in names:
            order = source if share or names[0].startswith("encoder") else target
            values = np.where(order[:, None] < 0, 0, values[order])
            names = names[-1:] if share else names
        elif names[0] == OUTPUT:
            values = np.where(target < 0, 0, values[:, target])
        elif names[0] == BIAS:
            values = np.where(target < 0, NO_TOKEN, values[target])
        tensors[names[0]] = values if values.ndim > 1 else values[None]
    return {name: values.astype("float32") for name, values in tensors.items()}


def _config(model, orders):
    """The model's configuration, as YAML."""
    encoder, decoder = model.encoder_stack.blocks, model.decoder_stack.blocks
    options, recurrent = model.get_config(), "r" in decoder[0].sublayers
    share, tie = options["share_embeddings"], options["tie_output"]
    config = MarianConfig(
        dim_emb=model.d_model,
        dim_vocabs=[len(order) for order in orders],
        enc_depth=len(encoder),
        dec_depth=len(decoder),
        transformer_heads=encoder[0].num_heads,
        transformer_dim_ffn=encoder[0].d_ff,
        transformer_decoder_dim_ffn=decoder[0].d_ff,
        transformer_ffn_activation={"silu": "swish"}.get(options["activation"], "relu"),
        transformer_decoder_autoreg="rnn" if recurrent else "self-attention",
        dec_cell="ssru" if recurrent else "gru",
        tied_embeddings=tie and not share,
        tied_embeddings_src=share and not tie,
        tied_embeddings_all=share and tie,
        version="v1.9.56",
    )
    return _as_yaml(dataclasses.asdict(config) | _EMPTY)
