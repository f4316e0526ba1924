"""Other formats: transformers' folders in and out, CTranslate2's models out."""

from keras_mt.convert.huggingface import from_huggingface, import_huggingface
from keras_mt.convert.to_ctranslate2 import to_ctranslate2
from keras_mt.convert.to_huggingface import to_huggingface

__all__ = ["from_huggingface", "import_huggingface", "to_ctranslate2", "to_huggingface"]
