"""Other formats in: folders of MarianMT, M2M-100 and NLLB as transformers writes them."""

from keras_mt.convert.huggingface import from_huggingface, import_huggingface

__all__ = ["from_huggingface", "import_huggingface"]
