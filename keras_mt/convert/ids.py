"""The files next to a model from ids to ids: the tokenizer, and the meaning of the special ids."""

import json
from pathlib import Path
from typing import Any

import tensorflow as tf

from keras_mt.convert.formats import LANGUAGES
from keras_mt.options import check_language
from keras_mt.run_folder import RunFolder
from keras_mt.translation import Translator


def special_ids(translator: Translator) -> dict[str, Any]:
    """The special ids as `ids.json` has them; of several languages those of the translator's pair.

    `forced` is what a translation begins with at no cost; `max_length` counts special ids too.
    """
    tokenizer = translator.tokenizer
    for side in LANGUAGES:
        check_language(side, getattr(translator, side), translator.languages)
    codes = [translator.source_language, translator.target_language]
    codes = [tf.constant([code]) for code in codes] if translator.languages else []
    piece = -1  # As no id is.
    around = tokenizer.source_ids(tf.ragged.constant([[piece]], tf.int32), *codes).to_list()[0]
    place = around.index(piece)
    forced = tokenizer.forced_ids(*codes[1:])
    return {
        "padding": tokenizer.padding_id,
        "start": tokenizer.bos_id,
        "end": tokenizer.eos_id,
        "forbidden": [int(i) for i in tokenizer.forbidden_ids],
        "before_source": around[:place],
        "after_source": around[place + 1 :],
        "forced": [] if forced is None else forced.numpy()[0].tolist(),
        "max_length": min(model.max_length for model in translator.models),
    }


def write_ids(folder: Path, translator: Translator, ids: dict[str, Any]) -> None:
    """Writes the tokenizer, and the dict that `special_ids` returned as `ids.json`."""
    RunFolder(folder).save_tokenizer(translator.tokenizer)
    (folder / "ids.json").write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
