"""The blocks of one side of a model."""

from collections.abc import Sequence

import keras
from keras import ops

from keras_mt.layers import RelativePositions
from keras_mt.layers.types import Tensor


class Stack:
    """Blocks one after another, the relative positions that they share, and the norm at their end.

    It is no layer: the model holds the layers. A cache has one entry for each block.
    """

    def __init__(
        self,
        blocks: Sequence[keras.layers.Layer],
        norm: keras.layers.Layer | None = None,
        positions: RelativePositions | None = None,
    ):
        self.blocks, self.norm, self.positions = blocks, norm, positions

    def __call__(
        self, hidden: Tensor, *memory: Tensor, return_attention_scores: bool = False
    ) -> Tensor | tuple[Tensor, list[dict[str, Tensor]]]:
        """The outputs; with `return_attention_scores`, a pair of them and each block's weights."""
        options = {"return_attention_scores": return_attention_scores}
        if self.positions is not None:
            options["attention_bias"] = self.positions(hidden)
        scores = []
        for block in self.blocks:
            hidden = block(hidden, *memory, **options)
            if return_attention_scores:
                hidden, found = hidden
                scores.append(found)
        hidden = self._normalized(hidden)
        return (hidden, scores) if return_attention_scores else hidden

    def start(self, rows: Tensor, memory: Tensor | None = None, beams: int | Tensor = 1) -> list:
        """The cache for the first `step`: see `DecoderBlock.initial_cache`."""
        return [block.initial_cache(rows, memory, beams) for block in self.blocks]

    def step(
        self,
        hidden: Tensor,
        cache: list,
        position: int | Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, list]:
        """The outputs `[batch, new, width]` of new positions, and the next cache.

        See `DecoderBlock.step`; where the stack has relative positions, `position` is a number.
        """
        bias, after = None, []
        if self.positions is not None:  # Each position has an entry for each hypothesis.
            beams = ops.shape(hidden)[1]
            length = (position + 1) * beams if mask is None else ops.shape(mask)[-1]
            keys = ops.minimum(ops.floor_divide(ops.arange(length), beams), position)
            bias = self.positions.bias(ops.reshape(position, (1,)), keys)
        for block, before in zip(self.blocks, cache, strict=True):
            hidden, grown = block.step(hidden, before, mask, memory_mask, position, bias)
            after.append(grown)
        return self._normalized(hidden), after

    def reorder(self, cache: list, parents: Tensor) -> list:
        """See `DecoderBlock.reorder_cache`."""
        return [b.reorder_cache(c, parents) for b, c in zip(self.blocks, cache, strict=True)]

    def _normalized(self, hidden):
        return hidden if self.norm is None else self.norm(hidden)
