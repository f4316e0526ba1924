"""The worker processes of a model, and the texts that wait for them."""

import asyncio
import contextlib
import dataclasses
import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from starlette.exceptions import HTTPException

from keras_mt.errors import InputError
from keras_mt.serving.queue import FairQueue, Turn
from keras_mt.serving.worker import Answer, Facts, Job, translate
from keras_mt_command import begin_worker, load_worker

_log = logging.getLogger("keras_mt.serving")
_TRIES = 3  # The workers that a text may take with it.
_HEARTBEAT = 1.0  # Seconds after which a worker that has nothing to do is looked after.
_LONGEST_PAUSE = 30  # Seconds between two workers that cannot start.


@dataclasses.dataclass(eq=False)
class _Task:
    """A job and its answer to come."""

    job: Job
    answer: asyncio.Future[Answer]
    tries: int = 0


class Pool:
    """Translates with one model, in processes of its own.

    Args:
        model: The folder of a run or an export, or the name of a model on the hub.
        workers: The number of worker processes.
        max_waiting: The number of waiting texts from which on new ones are refused.
        patience: The seconds after which a batch without an answer ends its worker.
    """

    def __init__(
        self,
        model: str | os.PathLike,
        workers: int = 1,
        max_waiting: int = 10_000,
        patience: float = 120,
    ):
        path = Path(model).resolve() if Path(model).exists() else Path(model)
        self.name = (path.parent if path.name.isdigit() else path).name
        self.facts: Facts | None = None
        self.queue = FairQueue()
        self.deaths = 0
        self._path, self._patience = path, patience
        self._workers, self._max_waiting = workers, max_waiting
        self._ready, self._idle = 0, []
        self._running: list[asyncio.Task] = []
        self._seconds = 0.1  # Between two answers, a moving average.

    @property
    def is_ready(self) -> bool:
        """True while a worker is ready."""
        return self._ready > 0

    async def start(self) -> None:
        """Starts the workers; raises what keeps the first one from loading the model."""
        executor = await self._started()
        executors = [executor] + [None] * (self._workers - 1)
        self._running = [asyncio.create_task(self._work(executor)) for executor in executors]

    async def stop(self) -> None:
        """Ends the workers, whatever they do."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def translate(self, jobs: Sequence[Job], waits: bool = False) -> list[Answer]:
        """An answer for each job; a caller that is cancelled gives up its places.

        Raises HTTPException if too many texts wait; a caller that `waits` comes later instead.
        """
        while len(self.queue) >= self._max_waiting:
            if not waits:
                seconds = 1 + int(len(self.queue) * self._seconds)
                message = f"too many texts are waiting: try again in {seconds} s"
                raise HTTPException(429, message, {"Retry-After": str(seconds)})
            await asyncio.sleep(0.1)
        turn, loop = Turn(), asyncio.get_running_loop()
        tasks = [_Task(job, loop.create_future()) for job in jobs]
        self._add(tasks, turn)
        try:
            return await asyncio.gather(*(task.answer for task in tasks))
        finally:
            for task in tasks:
                self.queue.remove(task)

    def _add(self, tasks, turn):
        for task in tasks:
            # One whose worker died goes alone, so that it takes no other with it again.
            kind = task if task.tries else task.job.detailed
            self.queue.add(task, len(task.job.text), turn, kind)
        for _ in tasks[: len(self._idle)]:
            self._idle.pop().set()  # First who worked last, whose caches are warm.

    async def _started(self):
        """A process that is ready."""
        executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), begin_worker)
        try:
            self.facts = await asyncio.wrap_future(executor.submit(load_worker, str(self._path)))
        except BaseException as error:
            executor.shutdown(wait=False)
            if isinstance(error, BrokenProcessPool):
                message = f"a process that loaded {self._path} died: is there memory for it?"
                raise InputError(message) from None
            raise
        return executor

    async def _work(self, executor):
        """Gives batches to a worker, and to the next one if it dies."""
        pause = 1
        while True:
            try:
                executor = executor or await self._started()
                pause = 1
                await self._feed(executor, self.facts.pid)
            except BrokenProcessPool:
                self.deaths += 1
                _log.error("a worker died and is replaced", extra={"model": self.name})
            except Exception as error:
                _log.error("no worker can start: %s", error, extra={"model": self.name})
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            executor = None

    async def _feed(self, executor, pid):
        """Gives batches to a worker, as long as it lives."""

        async def call(function, *arguments):
            timer = asyncio.get_running_loop().call_later(self._patience, _kill, pid)
            try:
                return await asyncio.wrap_future(executor.submit(function, *arguments))
            finally:
                timer.cancel()

        tasks = []
        self._ready += 1
        try:
            while True:
                if not (tasks := self.queue.take(self.facts.batch)):
                    if not await self._woken():
                        await call(os.getpid)  # If it lives.
                    continue
                start = time.monotonic()
                answers = await call(translate, [task.job for task in tasks])
                seconds = (time.monotonic() - start) / len(tasks) / self._workers
                self._seconds += 0.1 * (seconds - self._seconds)
                for task, answer in zip(tasks, answers, strict=True):
                    if not task.answer.done():
                        task.answer.set_result(answer)
                tasks = []
        finally:
            self._ready -= 1
            _kill(pid)
            executor.shutdown(wait=False)
            self._take_back(tasks)

    async def _woken(self):
        """Waits for texts; False if none come for a while."""
        self._idle.append(idle := asyncio.Event())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARTBEAT):
                await idle.wait()
        if idle in self._idle:
            self._idle.remove(idle)
        return idle.is_set()

    def _take_back(self, tasks):
        """Has what a worker that died had translated by others, but for what ended several."""
        for task in tasks:
            task.tries += 1
            if task.tries == _TRIES and not task.answer.done():
                task.answer.set_result(Answer(failure="its workers died"))
            if not task.answer.done():
                self._add([task], Turn())


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
