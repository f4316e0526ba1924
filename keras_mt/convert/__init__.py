"""Other formats: transformers' folders, in and out; exports to CTranslate2, LiteRT and ONNX."""

from keras_mt.convert.huggingface import from_huggingface, import_huggingface
from keras_mt.convert.to_ctranslate2 import to_ctranslate2
from keras_mt.convert.to_huggingface import to_huggingface
from keras_mt.convert.to_litert import to_litert
from keras_mt.convert.to_onnx import to_onnx

__all__ = [
    "from_huggingface",
    "import_huggingface",
    "to_ctranslate2",
    "to_huggingface",
    "to_litert",
    "to_onnx",
]
