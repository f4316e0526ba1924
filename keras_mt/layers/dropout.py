"""Dropout that spends less on random numbers."""

import keras
from keras import ops

from keras_mt.layers.types import Tensor


@keras.saving.register_keras_serializable(package="keras_mt")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` that on TensorFlow draws a byte for each element instead of a float.

    There the rate is the nearest multiple of 1/256, and four elements share one draw of 32 bits,
    which takes a third of the time on a CPU.
    """

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        on_tensorflow = keras.backend.backend() == "tensorflow"
        by_bytes = on_tensorflow and 0 < self.rate < 1 and self.noise_shape is None
        if not (training and by_bytes):
            return super().call(inputs, training=training)
        dropped = min(max(round(256 * self.rate), 1), 255)
        size = ops.size(inputs)
        words = keras.random.randint(
            [(size + 3) // 4, 1], -(2**31), 2**31 - 1, dtype="int32", seed=self.seed_generator
        )
        draws = ops.reshape(ops.reshape(ops.view(words, "uint8"), (-1,))[:size], ops.shape(inputs))
        # A product with what needs no gradient is cheaper, forward and backward, than `where`.
        scale = 256 / (256 - dropped)
        return inputs * (ops.cast(draws >= dropped, inputs.dtype) * scale)
