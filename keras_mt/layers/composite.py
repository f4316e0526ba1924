"""What the layers that are made of Keras's layers share."""

import re
from typing import Any

import keras


class Composite(keras.layers.Layer):
    """A layer made of layers, whose config tells which of them `quantize` has changed.

    `model.quantize("int8")` changes the `Dense` and embedding layers inside, and with them what is
    in a file: a layer that is loaded from it must make them so.
    """

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": dtype_config(self)}


def dtype_config(layer: keras.layers.Layer) -> dict[str, Any]:
    """The `dtype` of the config of a layer or model, with those of what is quantized inside.

    Example:

    >>> layer = FeedForward(d_ff=8)
    >>> model = keras.Sequential([keras.Input((4,)), layer])
    >>> dtype_config(layer)["class_name"]
    'DTypePolicy'
    >>> model.quantize("int8", filters="inner")
    >>> list(dtype_config(layer)["config"]["policy_map"])
    ['(.*/)?feed_forward/inner']
    """
    policy = layer.dtype_policy
    if not isinstance(policy, keras.dtype_policies.DTypePolicyMap):  # A loaded layer's is complete.
        # As the documentation of DTypePolicyMap has it. Any prefix: a layer that was built by
        # itself has a longer path when its model is loaded.
        quantized = {
            f"(.*/)?{re.escape(sublayer.path)}": sublayer.dtype_policy
            for sublayer in layer._flatten_layers(include_self=False)
            if sublayer.quantization_mode is not None
        }
        if quantized:
            policy = keras.dtype_policies.DTypePolicyMap(policy.name, quantized)
    return keras.dtype_policies.serialize(policy)
