"""What stands beside a model that takes and gives ids: the tokenizer, and what the ids mean."""

import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_mt.models import Seq2Seq
from keras_mt.options import check_language
from keras_mt.run_folder import RunFolder
from keras_mt.translation import Translator

_FILE = "ids.json"


def single_model(translator: Translator, name: str) -> Seq2Seq:
    """The translator's model, once it is known that a format of this name can hold it.

    Raises:
        ValueError: If there are several models, or a language is not given.
    """
    if len(translator.models) > 1:
        raise ValueError(f"{name} takes one model, no ensemble: {len(translator.models)} are given")
    for side in ("source_language", "target_language"):
        check_language(side, getattr(translator, side), translator.languages)
    return translator.models[0]


def special_ids(translator: Translator) -> dict[str, Any]:
    """The ids with a meaning, between the translator's languages where it has several.

    Returns:
        A dict of ints and of lists of int: `padding`; `start`, which a target begins with; `end`;
        `forbidden`, which a translation never holds; `before_source` and `after_source`, what
        stands around a source's pieces; `forced`, what a translation begins with at no cost; and
        `max_length`, the longest source or target, with these.
    """
    tokenizer = translator.tokenizer
    codes = [translator.source_language, translator.target_language]
    codes = [tf.constant([code]) for code in codes] if translator.languages else []
    empty = tf.RaggedTensor.from_row_lengths(tf.constant([], tf.int32), [0])
    added = tokenizer.source_ids(empty, *codes).to_list()[0]
    piece = next(i for i in range(len(added) + 1) if i not in added)
    ids = tokenizer.source_ids(tf.ragged.constant([[piece]], tf.int32), *codes).to_list()[0]
    place = ids.index(piece)
    forced = tokenizer.forced_ids(*codes[1:])
    return {
        "padding": tokenizer.padding_id,
        "start": tokenizer.bos_id,
        "end": tokenizer.eos_id,
        "forbidden": [int(i) for i in tokenizer.forbidden_ids],
        "before_source": ids[:place],
        "after_source": ids[place + 1 :],
        "forced": [] if forced is None else forced.numpy()[0].tolist(),
        "max_length": min(model.max_length for model in translator.models),
    }


def write_ids(folder: Path, translator: Translator, ids: dict[str, Any]) -> None:
    """Writes the tokenizer and what `special_ids` returned, as `ids.json`."""
    RunFolder(folder).save_tokenizer(translator.tokenizer)
    (folder / _FILE).write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
