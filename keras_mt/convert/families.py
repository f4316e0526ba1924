"""Families of pretrained models: the fields of config.json, the weights and the tokenizer."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from keras_mt.convert.fields import Count, Rate, argument, model_arguments
from keras_mt.convert.folder import Folder
from keras_mt.convert.weights import Weights, renamed
from keras_mt.errors import InputError
from keras_mt.layers.feed_forward import gelu_tanh
from keras_mt.text import PretrainedTokenizer

# Of tied weights a file may have any: the first of these names.
SIDES = "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"
SHARED, HEAD, BIAS = "shared.weight", "lm_head.weight", "final_logits_bias"
SOURCE = SIDES[0], SHARED, SIDES[1], HEAD
TARGET = SIDES[1], SHARED, HEAD, SIDES[0]
OUTPUT = HEAD, *TARGET
_EMBEDDINGS = {
    "source_embedding/embedding/embeddings": SOURCE,
    "target_embedding/embedding/embeddings": TARGET,
    "embedding/embedding/embeddings": TARGET,
    "reverse_embeddings": OUTPUT,
    "logits_bias": (BIAS,),
}


class Family:
    """The base of families, which are dataclasses of the fields of config.json."""

    names: ClassVar[dict[str, str]]  # From ours to theirs, for `renamed`.

    @classmethod
    def names_of(cls, path: str) -> tuple[Sequence[str], bool]:
        """The names that a weight of ours may have there, and whether it is transposed."""
        for end, names in _EMBEDDINGS.items():
            if path.endswith(end):
                return names, end == "reverse_embeddings"
        return [renamed(path, cls.names)], path.endswith("kernel")


# The languages of M2M-100 in the order of their ids.
_M2M100_LANGUAGES = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he
hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl
no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi
yo zh zu
"""


@dataclasses.dataclass(frozen=True)
class Bart(Family):
    """The part that MarianMT and M2M-100 have in common."""

    vocab_size: Count = argument("vocab_size")
    d_model: Count = argument("d_model")
    encoder_layers: Count = argument("num_encoder_layers")
    decoder_layers: Count = argument("num_decoder_layers")
    encoder_ffn_dim: Count = argument("encoder_d_ff")
    decoder_ffn_dim: Count = argument("decoder_d_ff")
    encoder_attention_heads: Count = argument("num_encoder_heads")
    decoder_attention_heads: Count = argument("num_decoder_heads")
    pad_token_id: int = argument("padding_id")
    activation_function: Literal["relu", "gelu", "silu", "swish"] = argument("activation")
    scale_embedding: bool = argument("scale_embeddings")
    # Older folders lack some of these.
    decoder_vocab_size: Count | None = argument("target_vocab_size", None)
    max_position_embeddings: Annotated[int, 1, 2**16 + 1] = argument("max_length", 1024)
    dropout: Rate = argument("dropout", 0.1)
    share_encoder_decoder_embeddings: bool = argument("share_embeddings", True)
    tie_word_embeddings: bool = argument("tie_output", True)

    positions: ClassVar[str] = "marian"
    pre_norm: ClassVar[bool] = False
    names: ClassVar[dict[str, str]] = {
        r"^source_embedding/norm": "encoder.layernorm_embedding",
        r"^target_embedding/norm": "decoder.layernorm_embedding",
        r"^(encoder|decoder)_norm": r"\1.layer_norm",
        r"^(encoder|decoder)_(\d+)/": r"\1.layers.\2.",
        r"feed_forward/inner": "fc1",
        r"feed_forward/output": "fc2",
        r"feed_forward_norm": "final_layer_norm",
        r"self_attention": "self_attn",
        r"cross_attention": "encoder_attn",
        r"attn_norm": "attn_layer_norm",
        r"/([qkv])(uery|ey|alue)/": r".\1_proj/",
        r"/output/": ".out_proj/",
        r"/(kernel|gamma)$": ".weight",
        r"/(bias|beta)$": ".bias",
    }

    @property
    def target_vocab_size(self) -> int:
        """The number of ids of the decoder."""
        return self.decoder_vocab_size or self.vocab_size

    def arguments(self, weights: Weights) -> dict[str, Any]:
        """The arguments of the Transformer."""
        return {
            **model_arguments(self),
            "target_vocab_size": self.target_vocab_size,
            "normalize_embeddings": "encoder.layernorm_embedding.weight" in weights,
            "final_norm": "encoder.layer_norm.weight" in weights,
            "logits_bias": BIAS in weights,
            "positions": self.positions,
            "pre_norm": self.pre_norm,
        }


@dataclasses.dataclass(frozen=True)
class MarianMT(Bart):
    """MarianMT, the family of OPUS-MT."""

    normalize_before: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    def read_tokenizer(self, folder: Folder) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages: none."""
        apart = folder.tokenizer.separate_vocabs or not self.share_encoder_decoder_embeddings
        apart = apart and (folder.path / "target_vocab.json").is_file()
        sizes = {"vocab.json": self.vocab_size}
        sizes |= {"target_vocab.json": self.target_vocab_size} if apart else {}
        source = folder.vocabulary("vocab.json")
        _check_special(folder, source, self.pad_token_id)
        models = [folder.sentencepiece(f"{side}.spm")[0] for side in ("source", "target")]
        tags = {p: id for p, id in source.items() if re.fullmatch(r"(?s)>>.*<<", p)}
        forced = folder.generation.forced_bos_token_id
        if forced is not None:
            forced = folder.token_id("forced_bos_token_id", self.target_vocab_size)
        tokenizer = PretrainedTokenizer(
            models if models[0] != models[1] else models[:1],
            [_by_id(folder, folder.vocabulary(file), size) for file, size in sizes.items()],
            special=["<unk>", "</s>", "<pad>"],
            **folder.special_ids(self.pad_token_id, self.target_vocab_size),
            source_eos_id=source["</s>"],
            language_tags=tags,
            forced=[] if forced is None else [forced],
            description="MarianMT's: SentencePiece with vocab.json",
        )
        return tokenizer, {}


@dataclasses.dataclass(frozen=True)
class M2M100(Bart):
    """M2M-100, SMaLL-100 and NLLB.

    A source begins with its language, and a target is forced to begin with its own. SMaLL-100 calls
    itself M2M-100, but a source begins with its target's language, and a target with the end alone.
    """

    positions = "fairseq"
    pre_norm = True

    def read_tokenizer(self, folder: Folder) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages."""
        size, small = self.target_vocab_size, is_small100(folder)
        model, processor = folder.sentencepiece("sentencepiece.bpe.model")
        if (folder.path / "vocab.json").is_file():
            name, token = "SMaLL-100" if small else "M2M-100", "__{}__"
            vocabulary = folder.vocabulary("vocab.json")
            codes = {c: id for id, c in enumerate(_M2M100_LANGUAGES.split(), len(vocabulary))}
        else:
            name, token = "NLLB", "{}"
            pieces = [processor.id_to_piece(i) for i in range(3, processor.get_piece_size())]
            pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces]  # Each is one further on.
            vocabulary = {piece: id for id, piece in enumerate(pieces)}
            codes = _nllb_languages(folder)
        _check_special(folder, vocabulary, self.pad_token_id)
        codes = {code: id for code, id in codes.items() if 0 <= id < size}
        if not codes:
            raise InputError(
                f"{folder.path} lists no languages with ids below vocab_size={size}: it needs the "
                "tokenizer.json and the tokenizer_config.json of its model."
            )
        vocabulary |= {token.format(code): id for code, id in codes.items()}
        tokenizer = PretrainedTokenizer(
            [model],
            [_by_id(folder, vocabulary, size)],
            special=["<unk>", "<s>", "<pad>", "</s>"],
            **folder.special_ids(self.pad_token_id, size),
            languages=codes,
            language_first=not folder.tokenizer.legacy_behaviour,
            target_on_source=small,
            description=f"{name}'s: SentencePiece and languages",
        )
        source, target = folder.tokenizer.src_lang, folder.tokenizer.tgt_lang
        if folder.generation.forced_bos_token_id is not None:
            forced = folder.token_id("forced_bos_token_id", size)
            target = next((code for code, id in codes.items() if id == forced), None)
        if small:  # No choice of the source's language, since none is of effect.
            source = next(iter(codes))
        defaults = {"source_language": source, "target_language": target}
        return tokenizer, {name: code for name, code in defaults.items() if code in codes}


def is_small100(folder: Folder) -> bool:
    """True for SMaLL-100, by names or, where nothing says otherwise, by the number of layers."""
    config, tokenizer = folder.config, folder.tokenizer
    names = config.get("_name_or_path"), tokenizer.name_or_path, tokenizer.tokenizer_class
    other = tokenizer.tokenizer_class.startswith("Nllb")
    other = other or folder.generation.forced_bos_token_id is not None
    layers = config.get("encoder_layers"), config.get("decoder_layers")
    return "small100" in f"{names}".lower() or (layers == (12, 3) and not other)


def _nllb_languages(folder):
    """The ids of the languages, from whichever file lists them."""
    added = folder.json("tokenizer.json", optional=True).get("added_tokens", [])
    try:
        entries = {entry["id"]: entry for entry in added} | folder.tokenizer.added_tokens_decoder
        ids = {entry["content"]: int(id) for id, entry in entries.items()}
    except (KeyError, TypeError, ValueError) as error:
        file = folder.path / "tokenizer.json or added_tokens_decoder of tokenizer_config.json"
        raise InputError(f"{file}: a token has no id and content: {error!r}.") from None
    ids |= folder.vocabulary("added_tokens.json", optional=True)
    return {c: id for c, id in ids.items() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", str(c))}


def _check_special(folder, vocabulary, padding_id):
    """Checks that a vocabulary has the special pieces, and the padding that the model has."""
    missing = {"<unk>", "</s>", "<pad>"} - vocabulary.keys()
    if missing or vocabulary["<pad>"] != padding_id:
        expected = "that of <pad>, in a vocabulary with <unk> and </s>"
        raise folder.refuse("pad_token_id", padding_id, expected)


def _by_id(folder, vocabulary, size):
    """The pieces in the order of their ids, with "" for ids without a piece."""
    pieces = [""] * size
    for piece, id in vocabulary.items():
        if id >= size:
            raise folder.refuse("vocab_size", size, f"more than {id}, the id of {piece!r}")
        pieces[id] = piece.encode("utf-8", "replace").decode("utf-8")
    return pieces


@dataclasses.dataclass(frozen=True)
class T5(Family):
    """T5, mT5, and MADLAD-400, whose sources begin with the piece of a language, as `<2de>`."""

    model_type: str
    vocab_size: Count = argument("vocab_size")
    d_model: Count = argument("d_model")
    d_kv: Count = argument("key_dim")
    d_ff: Count
    num_layers: Count = argument("num_encoder_layers")
    num_heads: Count = argument("num_heads")
    num_decoder_layers: Count | None = None
    feed_forward_proj: Literal["relu", "gated-gelu", "gated-silu"] = "relu"
    dropout_rate: Rate = argument("dropout", 0.1)
    layer_norm_epsilon: Rate = argument("norm_epsilon", 1e-6)
    pad_token_id: int = argument("padding_id", 0)
    relative_attention_num_buckets: Literal[32] = 32
    relative_attention_max_distance: Literal[128] = 128
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None

    names: ClassVar[dict[str, str]] = {
        r"^(encoder|decoder)_norm": r"\1.final_layer_norm",
        r"^(\w+)_positions": r"\1.block.0.layer.0.SelfAttention.relative_attention_bias",
        r"^(encoder|decoder)_(\d+)/": r"\1.block.\2.layer.",
        r"self_attention_norm": "0.layer_norm",
        r"self_attention": "0.SelfAttention",
        r"cross_attention_norm": "1.layer_norm",
        r"cross_attention": "1.EncDecAttention",
        r"^(encoder.*)feed_forward": r"\g<1>1.feed_forward",
        r"^(decoder.*)feed_forward": r"\g<1>2.feed_forward",
        r"feed_forward_norm": "layer_norm",
        r"feed_forward/gate": "DenseReluDense.wi_0",
        r"feed_forward/inner": "DenseReluDense.wi_1",
        r"feed_forward/output": "DenseReluDense.wo",
        r"/([qkvo])(uery|ey|alue|utput)/": r".\1/",
        r"/\w+$": ".weight",
    }

    @classmethod
    def names_of(cls, path: str) -> tuple[Sequence[str], bool]:
        names, transposed = super().names_of(path)
        # Without a gate it has no number.
        return [*names, names[0].replace(".wi_1.", ".wi.")], transposed

    def arguments(self, weights: Weights) -> dict[str, Any]:
        """The arguments of the Transformer; a scaled output becomes one that is not tied."""
        scales = self.scale_decoder_outputs
        # As in the first T5, whose weights are tied; never in mT5.
        if self.model_type == "t5" and (self.tie_word_embeddings if scales is None else scales):
            head = np.asarray(weights.first(OUTPUT)[1], "float32")
            weights[HEAD] = head * np.float32(self.d_model**-0.5)
        query = renamed("encoder_0/self_attention/query/kernel", self.names)
        weights.of_shape((self.num_heads * self.d_kv, self.d_model), [query])
        kind = self.feed_forward_proj.removeprefix("gated-")
        return {
            **model_arguments(self),
            "target_vocab_size": self.vocab_size,
            "num_decoder_layers": self.num_decoder_layers or self.num_layers,
            "encoder_d_ff": self.d_ff,
            "decoder_d_ff": self.d_ff,
            "activation": gelu_tanh if kind == "gelu" else kind,
            "gated": kind != self.feed_forward_proj,
            "positions": "relative",
            "pre_norm": True,
            "norm": "rms",
            "use_bias": False,
            "scale_attention": False,
            "scale_embeddings": False,
            "max_length": 1024,  # There is no table of positions that would limit it.
        }

    def read_tokenizer(self, folder: Folder) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages."""
        model, processor = folder.sentencepiece("spiece.model")
        pieces = [processor.id_to_piece(i) for i in range(processor.get_piece_size())]
        ids = {piece: id for id, piece in enumerate(pieces)}
        control = [piece for i, piece in enumerate(pieces) if processor.is_control(i)]
        codes = {p[2:-1]: id for p, id in ids.items() if re.fullmatch(r"<2[\w-]+>", p)}
        first = next(iter(codes), None)
        tokenizer = PretrainedTokenizer(
            [model],
            [_by_id(folder, ids, self.vocab_size)],
            special=[pieces[processor.unk_id()], *control],
            **folder.special_ids(self.pad_token_id, self.vocab_size),
            languages=codes,
            target_on_source=bool(codes),
            # The space that SentencePiece puts in front of a text, and so in front of `<2de> How`.
            source_prefix=processor.encode(f"<2{first}>")[:-1] if codes else (),
            description="T5's: SentencePiece",
        )
        # No choice of the source's language, since none is of effect.
        return tokenizer, {"source_language": first} if codes else {}


# The families by `model_type` of config.json.
FAMILIES = {"marian": MarianMT, "m2m_100": M2M100, "t5": T5, "mt5": T5}
