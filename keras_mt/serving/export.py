"""The former home of `keras_mt.convert.to_saved_model`, for one version."""

from keras_mt.deprecation import moved

__getattr__ = moved(__name__, {"export": "keras_mt.convert.to_saved_model"})
