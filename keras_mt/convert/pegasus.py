"""Pegasus, as transformers calls a Transformer that normalises first: a Marian but for that."""

from keras_mt.convert.marian_mt import read_tokenizer

__all__ = ["ARGUMENTS", "CLASS", "DEFAULTS", "NAME", "SWITCHES", "read_tokenizer"]

NAME = "Pegasus"
CLASS = "PegasusForConditionalGeneration"
DEFAULTS = {
    "vocab_size": 50265,
    "pad_token_id": 0,
    "activation_function": "gelu",
    "scale_embedding": False,
}
SWITCHES = {"static_position_embeddings": True}
ARGUMENTS = {"positions": "marian", "pre_norm": True, "logits_bias": True}
