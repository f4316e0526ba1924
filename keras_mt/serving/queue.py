"""The texts that wait for a worker: callers take turns, and texts of like length go together."""

import heapq
import itertools
import math
from collections.abc import Hashable
from typing import Any

_OVERHEAD = 16  # The cost of a text besides its characters.
_BATCH = 1 << 14  # The characters of a batch, about, if it has several texts.


class Turn:
    """The place of a caller's next text: after what its texts before have cost."""

    finish = 0.0


class FairQueue:
    """A queue in which the texts of a book do not keep a sentence waiting.

    It is start-time fair queueing (Goyal et al. 1996, https://doi.org/10.1145/248156.248171): a
    text begins where its caller's last one ends, or now, whichever is later, and the least
    beginning is next. The others of its batch are of the same kind and of like length.

    Example:

    >>> queue, book, caller = FairQueue(), Turn(), Turn()
    >>> for i in range(3):
    ...     queue.add(f"sentence {i}", 80, book)
    >>> queue.take(1)
    ['sentence 0']
    >>> queue.add("question", 20, caller)
    >>> queue.take(1), queue.take(8), len(queue)
    (['question'], ['sentence 1', 'sentence 2'], 0)
    """

    def __init__(self) -> None:
        self._heaps: dict[Hashable, list] = {}
        self._waiting: set[Any] = set()
        self._numbers, self._now = itertools.count(), 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, item: Hashable, length: int, turn: Turn, kind: Hashable = None) -> None:
        """Adds an item of a kind, with a length in characters, to a caller's turn."""
        begin = max(self._now, turn.finish)
        turn.finish = begin + length + _OVERHEAD
        heap = self._heaps.setdefault((kind, int(2 * math.log2(length + 1))), [])
        heapq.heappush(heap, (begin, next(self._numbers), item))
        self._waiting.add(item)

    def remove(self, item: Hashable) -> None:
        """Removes an item, if it still waits."""
        self._waiting.discard(item)
        if not self._waiting:
            self._heaps.clear()

    def take(self, most: int) -> list[Any]:
        """Takes the item that is next, and up to so many in all with those like it."""
        for key, heap in [*self._heaps.items()]:
            while heap and heap[0][-1] not in self._waiting:
                heapq.heappop(heap)
            if not heap:
                del self._heaps[key]
        if not self._heaps:
            return []
        kind, length = min(self._heaps, key=lambda key: self._heaps[key][0])
        self._now = max(self._now, self._heaps[kind, length][0][0])
        most = max(1, min(most, int(_BATCH / 2 ** (length / 2))))
        taken = []
        for key in (kind, length), (kind, length - 1):  # A full batch of slightly shorter ones.
            heap = self._heaps.get(key, [])
            while heap and len(taken) < most:
                item = heapq.heappop(heap)[-1]
                if item in self._waiting:
                    self._waiting.remove(item)
                    taken.append(item)
        return taken
