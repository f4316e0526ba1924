"""Whether what a translator is made of goes together."""

from collections.abc import Sequence
from typing import Any

from keras_mt.alignment import Shortlist
from keras_mt.decoding import SearchOptions
from keras_mt.errors import InputError
from keras_mt.inference.graph import TranslationGraph
from keras_mt.models import Seq2Seq
from keras_mt.text import BaseTokenizer


def check_types(model: Any, models: Sequence[Any], tokenizer: Any) -> None:
    """Refuses what is no tokenizer, or no model or list of models; `models` is it as a list."""
    if not isinstance(tokenizer, BaseTokenizer):
        raise InputError(
            "tokenizer must be a keras_mt.text.BaseTokenizer, such as from Tokenizer.load. "
            f"Received: {tokenizer!r}"
        )
    if not models or not all(isinstance(model, Seq2Seq) for model in models):
        raise InputError(
            "model must be a keras_mt.models.Seq2Seq, or a list of at least one. "
            f"Received: {model!r}"
        )


def check_fits(model: Seq2Seq, tokenizer: BaseTokenizer) -> None:
    """Refuses a model that was not trained with the tokenizer."""
    for side in ("source", "target"):
        sizes = [getattr(part, f"{side}_vocab_size") for part in (model, tokenizer)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"The model has a {side} vocabulary of {sizes[0]} tokens and the tokenizer one of "
                f"{sizes[1]}: they were not trained together."
            )
    if model.padding_id != tokenizer.padding_id:
        raise InputError(
            f"The model's padding_id is {model.padding_id} and the tokenizer's "
            f"{tokenizer.padding_id}: build the model with the tokenizer's padding_id."
        )


def check_shortlist(
    shortlist: Any,
    tokenizer: BaseTokenizer,
    options: SearchOptions,
    source_language: str | None,
    target_language: str | None,
) -> None:
    """Refuses what is no shortlist, one of other languages, and one for samples."""
    if not isinstance(shortlist, Shortlist):
        raise InputError(
            f"shortlist must be a Shortlist, such as from Shortlist.load. Received: {shortlist!r}"
        )
    shortlist.check_fits(tokenizer, source_language, target_language)
    if options.samples:
        raise InputError(
            "A shortlist does not go with sampling: leave `temperature` out. "
            f"Received: temperature={options.temperature}"
        )


def check_lengths(graph: TranslationGraph) -> None:
    """Refuses lengths of translations that the models cannot have."""
    limit, segmenter, options = graph.predictor.max_length, graph.segmenter, graph.options
    if min(segmenter.source_limit, segmenter.target_limit) < 1:
        raise InputError(
            f"The model's max_length must be at least 2, for a token and the end. Received: {limit}"
        )
    if options.max_length is not None and not 1 <= options.max_length <= limit:
        raise InputError(
            f"max_length must be at least 1 and at most the model's {limit}. "
            f"Received: max_length={options.max_length}"
        )
    if options.min_length > (options.max_length or limit):
        raise InputError(
            f"min_length must be at most {options.max_length or limit}, the maximum length. "
            f"Received: min_length={options.min_length}"
        )
