"""Families of pretrained models: of each the fields of config.json, the weights and the tokenizer.

The sizes of a model are those of its weights: config.json may say no others.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from keras_mt.convert import languages
from keras_mt.convert.fields import Between, Count, Rate
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
    spare: ClassVar[re.Pattern]  # The names of weights that need not be read.
    takes_float16: ClassVar[bool] = True

    @classmethod
    def names_of(cls, path: str) -> tuple[Sequence[str], bool]:
        """The names that a weight of ours may have there, and whether it is transposed."""
        for end, names in _EMBEDDINGS.items():
            if path.endswith(end):
                return names, end == "reverse_embeddings"
        return [renamed(path, cls.names)], path.endswith("kernel")


# Fields of config.json, and the arguments of Transformer that they give: sizes, and others.
SIZES = {
    "vocab_size": "vocab_size",
    "decoder_vocab_size": "target_vocab_size",
    "d_model": "d_model",
    "encoder_layers": "num_encoder_layers",
    "decoder_layers": "num_decoder_layers",
    "encoder_ffn_dim": "encoder_d_ff",
    "decoder_ffn_dim": "decoder_d_ff",
}
ARGUMENTS = {
    "encoder_attention_heads": "num_encoder_heads",
    "decoder_attention_heads": "num_decoder_heads",
    "max_position_embeddings": "max_length",
    "pad_token_id": "padding_id",
    "dropout": "dropout",
    "activation_function": "activation",
    "scale_embedding": "scale_embeddings",
    "share_encoder_decoder_embeddings": "share_embeddings",
    "tie_word_embeddings": "tie_output",
}
_Activation = Literal["relu", "gelu", "silu", "swish"]


@dataclasses.dataclass(frozen=True)
class Bart(Family):
    """The part that MarianMT, Pegasus and M2M-100 have in common."""

    pad_token_id: int = 0
    activation_function: _Activation = "gelu"
    scale_embedding: bool = False
    encoder_attention_heads: Count = 16
    decoder_attention_heads: Count = 16
    max_position_embeddings: Annotated[int, Between(1, 2**16 + 1)] = 1024
    dropout: Rate = 0.1
    share_encoder_decoder_embeddings: bool = True
    tie_word_embeddings: bool = True

    positions: ClassVar[str] = "marian"
    pre_norm: ClassVar[bool] = False
    spare = re.compile(  # Computed, or tied to another.
        r"(encoder|decoder)\.embed_positions\..*|"
        r"((encoder|decoder)\.embed_tokens|shared|lm_head)\..*"
    )
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

    def sizes(self, weights: Weights) -> dict[str, int]:
        """The fields of config.json that weights decide."""
        rows, columns = weights.matrix_shape(SOURCE)
        sizes = {"vocab_size": rows, "d_model": columns}
        sizes["decoder_vocab_size"], _ = weights.matrix_shape(TARGET, columns)
        for side in ("encoder", "decoder"):
            number, width = weights.layers(f"{side}.layers.*.fc1.weight", columns)
            sizes |= {f"{side}_layers": number, f"{side}_ffn_dim": width}
        return sizes

    def arguments(self, folder: Folder, sizes: dict[str, int], weights: Weights) -> dict[str, Any]:
        """The arguments of the Transformer."""
        for side in ("encoder", "decoder"):
            heads = getattr(self, f"{side}_attention_heads")
            if sizes["d_model"] % heads:
                raise folder.refuse(f"{side}_attention_heads", heads, "a divisor of d_model")
        return {
            **{argument: sizes[field] for field, argument in SIZES.items()},
            **{argument: getattr(self, field) for field, argument in ARGUMENTS.items()},
            "normalize_embeddings": "encoder.layernorm_embedding.weight" in weights,
            "final_norm": "encoder.layer_norm.weight" in weights,
            "logits_bias": BIAS in weights,
            "positions": self.positions,
            "pre_norm": self.pre_norm,
        }


@dataclasses.dataclass(frozen=True)
class MarianMT(Bart):
    """MarianMT, the family of OPUS-MT."""

    pad_token_id: int = 58100
    normalize_before: Literal[False] = False
    static_position_embeddings: Literal[True] = True

    def read_tokenizer(
        self, folder: Folder, arguments: dict[str, Any]
    ) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages: none."""
        apart = folder.tokenizer.separate_vocabs or not self.share_encoder_decoder_embeddings
        apart = apart and (folder.path / "target_vocab.json").is_file()
        files = ["vocab.json", "target_vocab.json"] if apart else ["vocab.json"]
        sizes = arguments["vocab_size"], arguments["target_vocab_size"]
        vocabularies = [folder.vocabulary(file) for file in files]
        source = vocabularies[0]
        _check_special(folder, source, self.pad_token_id)
        models = [folder.sentencepiece(f"{side}.spm")[0] for side in ("source", "target")]
        forced = folder.generation.forced_bos_token_id is not None
        tokenizer = PretrainedTokenizer(
            models if models[0] != models[1] else models[:1],
            [_by_id(folder, *side) for side in zip(vocabularies, sizes, strict=False)],
            special=["<unk>", "</s>", "<pad>"],
            **folder.special_ids(self.pad_token_id, sizes[1]),
            source_eos_id=source["</s>"],
            language_tags={
                piece: id for piece, id in source.items() if re.match(r"(?s)>>.*<<\Z", piece)
            },
            forced=[folder.token_id("forced_bos_token_id", sizes[1])] if forced else [],
            description="MarianMT's: SentencePiece with vocab.json",
        )
        return tokenizer, {}


@dataclasses.dataclass(frozen=True)
class Pegasus(MarianMT):
    """Pegasus, as transformers calls a MarianMT that normalises first."""

    pad_token_id: int = 0
    normalize_before: Literal[True] = True

    pre_norm = True


@dataclasses.dataclass(frozen=True)
class M2M100(Bart):
    """M2M-100, SMaLL-100 and NLLB.

    A source begins with its language, and a target is forced to begin with its own. SMaLL-100 calls
    itself M2M-100, but a source begins with its target's language, and a target with the end alone.
    """

    pad_token_id: int = 1
    activation_function: _Activation = "relu"
    scale_embedding: bool = True

    positions = "fairseq"
    pre_norm = True

    def read_tokenizer(
        self, folder: Folder, arguments: dict[str, Any]
    ) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages."""
        size, small = arguments["target_vocab_size"], is_small100(folder)
        model, processor = folder.sentencepiece("sentencepiece.bpe.model")
        if (folder.path / "vocab.json").is_file():
            name, token = "SMaLL-100" if small else "M2M-100", "__{}__"
            vocabulary = folder.vocabulary("vocab.json")
            listed = languages.M2M100[folder.tokenizer.language_codes].split()
            codes = {code: id for id, code in enumerate(listed, len(vocabulary))}
        else:
            name, token = "NLLB", "{}"
            vocabulary, codes = _nllb_vocabulary(folder, processor)
        codes = {code: id for code, id in codes.items() if 0 <= id < size}
        _check_special(folder, vocabulary, self.pad_token_id)
        if not codes or folder.token_id("eos_token_id", size) != vocabulary["</s>"]:
            raise folder.refuse("vocab_size", size, "such that the languages have ids")
        pieces = _by_id(folder, vocabulary | {token.format(c): id for c, id in codes.items()}, size)
        tokenizer = PretrainedTokenizer(
            [model],
            [pieces],
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
    tokenizer, config = folder.tokenizer, folder.config
    names = config.get("_name_or_path"), tokenizer.name_or_path, tokenizer.tokenizer_class
    named = any("small100" in str(name).lower() for name in names)
    other = tokenizer.tokenizer_class.startswith("Nllb")
    other = other or folder.generation.forced_bos_token_id is not None
    layers = config.get("encoder_layers"), config.get("decoder_layers")
    code = folder.path / "tokenization_small100.py"
    return named or code.is_file() or (layers == (12, 3) and not other)


def _nllb_vocabulary(folder, processor):
    """The ids of NLLB's pieces, which are SentencePiece's and one more, and of its languages."""
    if (processor.unk_id(), processor.bos_id(), processor.eos_id()) != (0, 1, 2):
        raise InputError(
            f"{folder.path / 'sentencepiece.bpe.model'} must have the ids 0, 1, 2 for unknown, "
            "start and end."
        )
    number = processor.get_piece_size()
    pieces = {processor.id_to_piece(i): i + 1 for i in range(3, number)}
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    return {**pieces, **special}, _nllb_languages(folder, number + 1)


def _nllb_languages(folder, first):
    """The ids of the languages, from whichever file lists them; else those of NLLB-200."""
    added = folder.tokenizer.added_tokens_decoder
    listed = folder.vocabulary("added_tokens.json", optional=True)
    if not added and not listed:
        added = folder.json("tokenizer.json", optional=True).get("added_tokens", [])
    try:
        entries = added.items() if isinstance(added, dict) else [(e["id"], e) for e in added]
        ids = {str(entry["content"]): int(str(id)) for id, entry in entries} | listed
    except (KeyError, TypeError, ValueError):
        field, file = "added_tokens_decoder", "tokenizer_config.json"
        raise folder.refuse(field, added, "the ids and contents of tokens", file) from None
    ids = {code: id for code, id in ids.items() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", code)}
    return ids or {code: first + i for i, code in enumerate(languages.NLLB.split())}


def _check_special(folder, vocabulary, padding_id):
    """Checks that a vocabulary has the special pieces, and the padding that the model has."""
    for piece in ("<unk>", "</s>", "<pad>"):
        if piece not in vocabulary:
            raise InputError(f"{folder.path / 'vocab.json'} must have {piece}.")
    if vocabulary["<pad>"] != padding_id:
        expected = f"{vocabulary['<pad>']}, that of <pad>"
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
    """T5, and MADLAD-400, whose sources begin with a piece of the target's language, `<2de>`."""

    feed_forward_proj: Literal["relu", "gated-gelu", "gated-silu"] = "relu"
    dropout_rate: Rate = 0.1
    layer_norm_epsilon: Rate = 1e-6
    pad_token_id: int = 0
    relative_attention_num_buckets: Literal[32] = 32
    relative_attention_max_distance: Literal[128] = 128
    tie_word_embeddings: bool = True
    scale_decoder_outputs: bool | None = None

    takes_float16 = False
    spare = re.compile(  # Tied to another, or without effect.
        r"((encoder|decoder)\.embed_tokens|shared|lm_head)\.weight|"
        r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight"
    )
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

    def sizes(self, weights: Weights) -> dict[str, int]:
        """The fields of config.json that weights decide."""
        rows, columns = weights.matrix_shape(SOURCE)
        inner = "wi_0" if self.feed_forward_proj.startswith("gated") else "wi"
        inner = f"block.*.DenseReluDense.{inner}.weight"
        num_layers, d_ff = weights.layers(f"encoder.{inner}", columns)
        num_decoder_layers, _ = weights.layers(f"decoder.{inner}", columns)
        _, width = weights.layers("encoder.block.*.SelfAttention.q.weight", columns)
        _, num_heads = weights.matrix_shape([renamed("encoder_positions/weight", self.names)])
        return {
            "vocab_size": rows,
            "d_model": columns,
            "d_ff": d_ff,
            "d_kv": width // max(num_heads, 1),
            "num_heads": num_heads,
            "num_layers": num_layers,
            "num_decoder_layers": num_decoder_layers,
        }

    @property
    def scales_output(self) -> bool:
        """True if the input of the logits is scaled: in the first T5, whose weights are tied."""
        scales = self.scale_decoder_outputs
        return self.tie_word_embeddings if scales is None else scales

    def arguments(self, folder: Folder, sizes: dict[str, int], weights: Weights) -> dict[str, Any]:
        """The arguments of the Transformer; a scaled output becomes one that is not tied."""
        if self.scales_output:
            head = np.asarray(weights.first(OUTPUT)[1], "float32")
            weights[HEAD] = head * np.float32(sizes["d_model"] ** -0.5)
        kind = self.feed_forward_proj.removeprefix("gated-")
        return {
            "vocab_size": sizes["vocab_size"],
            "d_model": sizes["d_model"],
            "num_encoder_layers": sizes["num_layers"],
            "num_decoder_layers": sizes["num_decoder_layers"],
            "num_heads": sizes["num_heads"],
            "key_dim": sizes["d_kv"],
            "d_ff": sizes["d_ff"],
            "dropout": self.dropout_rate,
            "norm_epsilon": self.layer_norm_epsilon,
            "padding_id": self.pad_token_id,
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

    def read_tokenizer(
        self, folder: Folder, arguments: dict[str, Any]
    ) -> tuple[PretrainedTokenizer, dict[str, str]]:
        """The tokenizer, and the default languages."""
        model, processor = folder.sentencepiece("spiece.model")
        count, size = processor.get_piece_size(), arguments["vocab_size"]
        if count > size:
            raise folder.refuse("vocab_size", size, f"at least {count}, the pieces of spiece.model")
        pieces = [processor.id_to_piece(i) for i in range(count)]
        control = [piece for i, piece in enumerate(pieces) if processor.is_control(i)]
        found = {i: re.fullmatch(r"<2([\w-]+)>", piece) for i, piece in enumerate(pieces)}
        codes = {match[1]: i for i, match in found.items() if match}
        first = next(iter(codes), None)
        tokenizer = PretrainedTokenizer(
            [model],
            [pieces + [""] * (size - count)],
            special=[pieces[processor.unk_id()], *control],
            **folder.special_ids(self.pad_token_id, size),
            languages=codes,
            target_on_source=bool(codes),
            # The space that SentencePiece puts in front of a text, and so in front of `<2de> How`.
            source_prefix=processor.encode(f"<2{first}>")[:-1] if codes else (),
            description="T5's: SentencePiece",
        )
        # No choice of the source's language, since none is of effect.
        return tokenizer, {"source_language": first} if codes else {}


@dataclasses.dataclass(frozen=True)
class MT5(T5):
    """mT5: another default, and no scaled output."""

    feed_forward_proj: Literal["relu", "gated-gelu", "gated-silu"] = "gated-gelu"

    scales_output = False


# The families by `model_type` of config.json.
FAMILIES = {"marian": MarianMT, "m2m_100": M2M100, "pegasus": Pegasus, "t5": T5, "mt5": MT5}
