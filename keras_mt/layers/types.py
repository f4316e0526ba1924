"""Names for what the signatures of layers, losses and metrics take."""

from collections.abc import Callable
from typing import Any

import keras

# A tensor of whichever backend, a symbolic one, or a NumPy array.
Tensor = Any
Shape = tuple[int | None, ...]
# As Keras takes them: a name, a configuration, an `Initializer`, any function of a shape and dtype.
Initializer = str | dict[str, Any] | Callable[..., Tensor]
Activation = str | dict[str, Any] | Callable[[Tensor], Tensor] | None
DType = str | keras.DTypePolicy | None
