"""The layer normalizations of the blocks."""

import keras

from keras_mt.layers.layer import export_operation
from keras_mt.layers.types import DType, Tensor
from keras_mt.layers.validation import check_one_of


@keras.saving.register_keras_serializable(package="keras_mt")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's own, but one operation where the weights are constants of a graph."""

    def call(self, inputs: Tensor) -> Tensor:
        gamma, beta = self.gamma.value, self.beta.value
        outputs = export_operation("normalize", inputs, gamma, beta, self.epsilon)
        return super().call(inputs) if outputs is None else outputs


def norm_layer(norm: str, dtype: DType, name: str, epsilon: float = 1e-5) -> keras.layers.Layer:
    """The normalization that blocks have, `"layer"` or `"rms"`; a pre-norm stack ends with one."""
    check_one_of(("layer", "rms"), norm=norm)
    layer_class = LayerNormalization if norm == "layer" else keras.layers.RMSNormalization
    layer = layer_class(epsilon=epsilon, dtype=dtype, name=name)
    layer.supports_masking = True  # Keras's RMSNormalization would drop the mask.
    return layer
