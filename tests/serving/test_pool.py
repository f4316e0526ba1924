"""Worker processes that die, hang and fail, of a model that is a function."""

import asyncio
import multiprocessing
import os
import signal
import time

import pytest
from fake_worker import load, translate
from starlette.exceptions import HTTPException

from keras_mt.errors import InputError
from keras_mt.serving import pool as pools
from keras_mt.serving.pool import Pool
from keras_mt.serving.worker import Answer, Job

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def fake_workers(monkeypatch):
    monkeypatch.setattr(pools, "load_worker", load)
    monkeypatch.setattr(pools, "translate", translate)


def run(use, path="a model", **arguments):
    """What a coroutine function of a started pool returns, in 60 seconds at most."""

    async def body():
        pool = Pool(path, **arguments)
        try:
            await pool.start()
            return await asyncio.wait_for(use(pool), 60)
        finally:
            await pool.stop()

    return asyncio.run(body())


async def texts(pool, *given):
    return [answer.hypotheses[0].text for answer in await pool.translate([*map(Job, given)])]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.01)


def test_a_killed_worker_loses_no_text_and_mixes_none():
    async def use(pool):
        async def caller(number):
            for i in range(20):
                own = [f"text {number} {i} {part}" for part in range(1 + number % 3)]
                assert await texts(pool, *own) == [text.upper() for text in own]

        callers = asyncio.gather(*map(caller, range(32)))
        for death in range(2):
            await asyncio.sleep(0.05)
            [pid] = await texts(pool, "pid")
            os.kill(int(pid), signal.SIGKILL)
            assert not callers.done()
            await until(lambda death=death: pool.deaths > death)
        await callers
        assert pool.deaths == 2

    run(use, workers=2)


def test_a_text_that_kills_its_workers_fails_alone():
    async def use(pool):
        others = [pool.translate([Job(f"a {i}")]) for i in range(20)]
        killer = pool.translate([Job("die")])
        *found, killed = await asyncio.gather(*others, killer, *others[20:])
        assert [answer.hypotheses[0].text for [answer] in found] == [f"A {i}" for i in range(20)]
        assert killed == [Answer(failure="its workers died")]
        assert pool.deaths == 3
        assert await texts(pool, "next") == ["NEXT"]

    run(use)


def test_a_worker_that_hangs_is_ended():
    async def use(pool):
        start = time.monotonic()
        assert await pool.translate([Job("sleep 60")]) == [Answer(failure="its workers died")]
        assert time.monotonic() - start < 20
        assert await texts(pool, "next") == ["NEXT"]

    run(use, patience=0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_that_dies_or_stops_while_it_has_nothing_to_do_is_replaced(number, monkeypatch):
    monkeypatch.setattr(pools, "_HEARTBEAT", 0.1)

    async def use(pool):
        [first] = await texts(pool, "pid")
        os.kill(int(first), number)
        await until(lambda: not pool.is_ready)
        await until(lambda: pool.is_ready)
        assert await texts(pool, "pid") != [first]

    run(use, patience=0.5)


def test_a_full_queue_refuses_until_there_is_room_or_who_waits_goes_away():
    async def use(pool):
        busy = asyncio.create_task(texts(pool, "sleep 1"))
        await until(lambda: not pool.queue._waiting)
        leaving = asyncio.create_task(texts(pool, *["a"] * 10))
        await until(lambda: len(pool.queue) == 10)
        with pytest.raises(HTTPException, match="try again in") as error:
            await pool.translate([Job("b")])
        assert int(error.value.headers["Retry-After"]) >= 1
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        assert not len(pool.queue)
        waiting = asyncio.create_task(texts(pool, *["a"] * 10))
        await until(lambda: len(pool.queue) == 10)
        # One that has the time comes when there is room.
        [answer] = await pool.translate([Job("c")], waits=True)
        assert answer.hypotheses[0].text == "C" and waiting.done()
        await busy

    run(use, max_waiting=10)


@pytest.mark.parametrize(
    ("path", "message"), [("broken", "broken is no model"), ("deadly", "is there memory for it")]
)
def test_what_keeps_the_first_worker_from_loading_is_said(path, message):
    with pytest.raises(InputError, match=message):
        run(None, path)


def test_workers_that_cannot_start_are_tried_again_and_not_at_once(monkeypatch, caplog):
    async def use(pool):
        [pid] = await texts(pool, "pid")
        monkeypatch.setattr(pool, "_path", "deadly")
        os.kill(int(pid), signal.SIGKILL)
        waiting = asyncio.create_task(texts(pool, "a"))
        await until(lambda: "is there memory for it" in caplog.text)
        await asyncio.sleep(0.3)
        assert caplog.text.count("no worker can start") == 1
        monkeypatch.setattr(pool, "_path", "a model")
        assert await waiting == ["A"]

    run(use)


def test_a_pool_that_stops_leaves_no_process():
    async def use(pool):
        busy = [asyncio.create_task(texts(pool, "sleep 60")) for _ in range(2)]
        await until(lambda: pool.is_ready and not len(pool.queue))
        return busy

    start = time.monotonic()
    run(use, workers=2)
    while multiprocessing.active_children():
        assert time.monotonic() - start < 30
        time.sleep(0.05)
