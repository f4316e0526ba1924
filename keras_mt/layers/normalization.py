"""The layer normalisation of the blocks."""

import keras

from keras_mt.layers.fused import fused_operations
from keras_mt.layers.types import Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's own, but one operation where the weights are constants of a graph."""

    def call(self, inputs: Tensor) -> Tensor:
        gamma, beta = self.gamma.value, self.beta.value
        fusible = inputs.dtype == gamma.dtype and self.compute_dtype in ("float32", "bfloat16")
        if fusible and (fused := fused_operations(gamma, beta)):
            return fused.normalize(inputs, gamma, beta, self.epsilon)
        return super().call(inputs)
