"""The queue of texts: turns by the definition, batches of like length."""

import math
import random

from hypothesis import given
from hypothesis import strategies as st

from keras_mt.serving.queue import FairQueue, Turn

# The caller, the length and the kind of texts; how many texts are taken in between.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 3), st.integers(0, 300), st.booleans()),
        st.integers(1, 5),
    ),
    max_size=60,
)


def test_a_batch_of_long_texts_has_few():
    queue = FairQueue()
    for i in range(20):
        queue.add((i, "long"), 9000, Turn())
        queue.add((i, "short"), 80, Turn())
    sizes = {"short": [], "long": []}
    while batch := queue.take(8):
        sizes[batch[0][1]].append(len(batch))
    assert max(sizes["short"]) == 8 and max(sizes["long"]) == 2
    assert [sum(each) for each in sizes.values()] == [20, 20]


@given(STEPS)
def test_the_first_of_each_batch_is_that_of_the_definition(steps):
    """Start-time fair queueing with a list instead of heaps: the least beginning is next."""
    queue, turns = FairQueue(), [Turn() for _ in range(4)]
    waiting, now, ends = [], 0, [0] * 4
    for number, step in enumerate([*steps, *[1] * 60]):
        if isinstance(step, tuple):
            caller, length, kind = step
            item = (number, length, kind)
            begin = max(now, ends[caller])
            ends[caller] = begin + length + 16
            waiting.append((begin, item))
            queue.add(item, length, turns[caller], kind)
        else:
            taken = queue.take(step)
            assert (taken == []) == (not waiting) and len(taken) <= step
            if taken:
                now, item = max(now, min(waiting)[0]), min(waiting)[1]
                assert taken[0] == item
                assert {kind for *_, kind in taken} == {item[2]}
                lengths = [length + 1 for _, length, _ in taken]
                assert max(lengths) / min(lengths) <= 2
            waiting = [(begin, item) for begin, item in waiting if item not in taken]
        assert len(queue) == len(waiting)
    assert not waiting


def test_a_sentence_does_not_wait_behind_a_book():
    queue, book = FairQueue(), Turn()
    for i in range(1000):
        queue.add(("book", i), 80, book)
    queue.take(8)
    for caller in range(20):
        queue.add(("sentence", caller), 80, Turn())
    taken = [queue.take(8) for _ in range(4)]
    assert sum(kind == "sentence" for batch in taken for kind, _ in batch) == 20


def test_callers_get_the_same_share_whatever_the_lengths_of_their_texts():
    choose = random.Random(1)
    queue, turns, got = FairQueue(), [Turn(), Turn(), Turn()], [0, 0, 0]
    for caller, longest in enumerate((20, 100, 500)):
        for number in range(5000):
            length = choose.randrange(1, longest)
            queue.add((caller, number, length), length, turns[caller])
    while sum(got) < 100_000:
        for caller, _, length in queue.take(1):
            got[caller] += length + 16
    assert max(got) - min(got) <= 2 * 516


def test_full_batches_are_of_like_length():
    choose = random.Random(2)
    queue = FairQueue()
    for number in range(2000):
        length = int(math.exp(choose.uniform(1, 6)))
        queue.add((number, length), length, Turn())
    batches = []
    while batch := queue.take(8):
        batches.append([length for _, length in batch])
    assert sum(map(len, batches)) == 2000
    assert sum(max(own) * len(own) for own in batches) < 1.4 * sum(map(sum, batches))
    assert len(batches) < 2000 / 8 * 1.2


@given(st.lists(st.integers(0, 200), max_size=40), st.sets(st.integers(0, 39)))
def test_what_is_removed_is_not_taken(lengths, removed):
    queue, turn = FairQueue(), Turn()
    for number, length in enumerate(lengths):
        queue.add(number, length, turn)
    for number in removed:
        queue.remove(number)
    taken = []
    while batch := queue.take(3):
        taken += batch
    assert sorted(taken) == [i for i in range(len(lengths)) if i not in removed]
    assert not len(queue) and queue.take(1) == []
