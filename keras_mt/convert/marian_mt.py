"""MarianMT, the family of OPUS-MT: its configuration, and its tokenizer's files in and out."""

from typing import Any

from keras_mt.convert.pretrained import Folder
from keras_mt.text import PretrainedTokenizer, Tokenizer
from keras_mt.translation import Translator

NAME = "MarianMT"
CLASS = "MarianMTModel"
DEFAULTS = {
    "vocab_size": 58101,
    "pad_token_id": 58100,
    "activation_function": "gelu",
    "scale_embedding": False,
}
SWITCHES = {"normalize_before": False, "static_position_embeddings": True}
ARGUMENTS = {"positions": "marian", "pre_norm": False, "logits_bias": True}


def read_tokenizer(
    folder: Folder, arguments: dict[str, Any]
) -> tuple[PretrainedTokenizer, dict[str, str]]:
    """The tokenizer of a folder, and the default languages."""
    apart = folder.tokenizer.get("separate_vocabs", False) or not arguments["share_embeddings"]
    vocabularies = [folder.vocabulary("vocab.json")]
    if apart and (folder.path / "target_vocab.json").is_file():
        vocabularies.append(folder.vocabulary("target_vocab.json"))
    marks = {p: i for p, i in vocabularies[0].items() if p.startswith(">>") and p.endswith("<<")}
    folder.check_special(vocabularies[0], arguments["padding_id"])
    models = [folder.sentencepiece(f"{side}.spm") for side in ("source", "target")]
    sizes = [arguments["vocab_size"], arguments.get("target_vocab_size", arguments["vocab_size"])]
    pieces = [folder.by_id(*side) for side in zip(vocabularies, sizes, strict=False)]
    forced = "forced_bos_token_id"
    tokenizer = PretrainedTokenizer(
        models if models[0] != models[1] else models[:1],
        pieces,
        special=["<unk>", "</s>", "<pad>"],
        **folder.special_ids(arguments["padding_id"], sizes[1]),
        source_eos_id=vocabularies[0]["</s>"],
        language_tags=marks,
        forced=[folder.id(forced, sizes[1])] if forced in folder.generation else [],
        description="MarianMT's: SentencePiece with vocab.json",
    )
    return tokenizer, {}


def tokenizer_files(translator: Translator) -> dict[str, bytes | dict[str, Any]]:
    """The contents of the tokenizer's files: bytes, or what JSON holds."""
    tokenizer = translator.tokenizer
    if isinstance(tokenizer, Tokenizer):
        names = {tokenizer.unknown_id: "<unk>", tokenizer.padding_id: "<pad>"}
        pieces = tokenizer.id_to_string(range(tokenizer.vocab_size)).numpy()
        models = [tokenizer.model]
        tables = [[names.get(i, piece.decode("utf-8")) for i, piece in enumerate(pieces)]]
    else:
        models, tables = tokenizer.models, tokenizer.settings["pieces"]
    vocabularies = [{piece: i for i, piece in enumerate(table) if piece} for table in tables]
    files = {"source.spm": models[0], "target.spm": models[-1], "vocab.json": vocabularies[0]}
    if len(vocabularies) > 1:
        files["target_vocab.json"] = vocabularies[1]
    config = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": translator.card.get("source"),
        "target_lang": translator.card.get("target"),
        "separate_vocabs": len(vocabularies) > 1,
        "model_max_length": translator.models[0].max_length,
    }
    return {**files, "tokenizer_config.json": config}
