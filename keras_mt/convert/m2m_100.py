"""M2M-100, SMaLL-100 and NLLB: their configuration and their tokenizers, which are only read.

SMaLL-100 calls itself M2M-100, but a source begins with its target's language, and a target with
the end alone.
"""

import re
from typing import Any

import sentencepiece

from keras_mt.convert import languages
from keras_mt.convert.pretrained import Folder, is_id
from keras_mt.errors import InputError
from keras_mt.text import PretrainedTokenizer

# The languages of M2M-100's tokenizer, by its field language_codes, in the order of their ids.
_CODES = {"m2m100": languages.M2M100.split(), "wmt21": languages.WMT21.split()}
_MODEL = "sentencepiece.bpe.model"

DEFAULTS = {
    "vocab_size": 128112,
    "pad_token_id": 1,
    "activation_function": "relu",
    "scale_embedding": True,
}
SWITCHES = {}
ARGUMENTS = {"positions": "fairseq", "pre_norm": True, "logits_bias": False}


def read_tokenizer(
    folder: Folder, arguments: dict[str, Any]
) -> tuple[PretrainedTokenizer, dict[str, str]]:
    """The tokenizer of a folder, and the default languages."""
    small = _is_small100(folder)
    name = folder.tokenizer.get("tokenizer_class") or folder.config.get("tokenizer_class")
    if small:
        name = "M2M100Tokenizer"
    if name not in (None, "M2M100Tokenizer", "NllbTokenizer", "NllbTokenizerFast"):
        raise folder.refuse(
            "tokenizer_class", name, "M2M100Tokenizer or NllbTokenizer", "tokenizer_config.json"
        )
    model = folder.sentencepiece(_MODEL)
    if name == "M2M100Tokenizer" or (name is None and (folder.path / "vocab.json").is_file()):
        name, token = "SMaLL-100" if small else "M2M-100", "__{}__"
        vocabulary, codes = _m2m100_vocabulary(folder)
    else:
        name, token = "NLLB", "{}"
        vocabulary, codes = _nllb_vocabulary(folder, model)
    size = arguments["vocab_size"]
    codes = {code: id for code, id in codes.items() if is_id(id, size)}
    folder.check_special(vocabulary, arguments["padding_id"])
    if not codes or folder.id("eos_token_id", size) != vocabulary["</s>"]:
        raise folder.refuse("vocab_size", size, "such that the languages have ids")
    defaults = {
        "source_language": folder.tokenizer.get("src_lang"),
        "target_language": folder.tokenizer.get("tgt_lang"),
    }
    if "forced_bos_token_id" in folder.generation:
        forced = folder.id("forced_bos_token_id", size)
        defaults["target_language"] = next((c for c, id in codes.items() if id == forced), None)
    if small:  # No choice of the source's language, since none is of effect.
        defaults["source_language"] = next(iter(codes))
    tokenizer = PretrainedTokenizer(
        [model],
        [folder.by_id(vocabulary | {token.format(c): id for c, id in codes.items()}, size)],
        special=["<unk>", "<s>", "<pad>", "</s>"],
        **folder.special_ids(arguments["padding_id"], size),
        languages=codes,
        language_first=not folder.tokenizer.get("legacy_behaviour", False),
        target_on_source=small,
        description=f"{name}'s: SentencePiece and languages",
    )
    return tokenizer, {name: code for name, code in defaults.items() if code in codes}


def _is_small100(folder):
    """True for SMaLL-100, by names or, where nothing says otherwise, by the number of layers."""
    tokenizer = folder.tokenizer.get("tokenizer_class")
    names = folder.config.get("_name_or_path"), folder.tokenizer.get("name_or_path"), tokenizer
    named = any("small100" in str(name).lower() for name in names)
    layers = folder.config.get("encoder_layers"), folder.config.get("decoder_layers")
    others = str(tokenizer).startswith("Nllb") or "forced_bos_token_id" in folder.generation
    code = folder.path / "tokenization_small100.py"
    return code.is_file() or named or (layers == (12, 3) and not others)


def _m2m100_vocabulary(folder):
    vocabulary = folder.vocabulary("vocab.json")
    codes = folder.tokenizer.get("language_codes", "m2m100")
    if codes not in _CODES:
        raise folder.refuse("language_codes", codes, " or ".join(_CODES), "tokenizer_config.json")
    return vocabulary, {code: len(vocabulary) + i for i, code in enumerate(_CODES[codes])}


def _nllb_vocabulary(folder, model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    if (processor.unk_id(), processor.bos_id(), processor.eos_id()) != (0, 1, 2):
        raise InputError(
            f"{folder.path / _MODEL} must have the ids 0, 1, 2 for unknown, start and end. It has "
            f"{processor.unk_id()}, {processor.bos_id()}, {processor.eos_id()}."
        )
    number = processor.get_piece_size()
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    pieces = {processor.id_to_piece(i): i + 1 for i in range(3, number)}
    return {**pieces, **special}, _nllb_languages(folder, number + 1)


def _nllb_languages(folder, first):
    """The ids of the languages, from whichever file lists them; else those of NLLB-200."""
    file, field = "tokenizer_config.json", "added_tokens_decoder"
    added = folder.tokenizer.get(field, {})
    listed = folder.vocabulary("added_tokens.json", optional=True)
    if not added and not listed:
        file, field = "tokenizer.json", "added_tokens"
        added = folder.json(file, optional=True).get(field, [])
    try:
        entries = added.items() if isinstance(added, dict) else [(e["id"], e) for e in added]
        ids = {str(entry["content"]): int(str(id)) for id, entry in entries} | listed
    except (KeyError, TypeError, ValueError):
        raise folder.refuse(field, added, "the ids and contents of tokens", file) from None
    ids = {code: id for code, id in ids.items() if re.fullmatch("[a-z]{3}_[A-Z][a-z]{3}", code)}
    return ids or {code: first + i for i, code in enumerate(languages.NLLB.split())}
