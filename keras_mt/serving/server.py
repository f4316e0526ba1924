"""A server: its workers, its application, and how it ends."""

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any

import uvicorn

from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.pool import Pool

_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


async def serve(
    models: Sequence[str],
    glossaries: Glossaries,
    settings: Settings,
    host: str,
    port: int,
    grace: float = 60.0,
    **workers: Any,
) -> None:
    """Serves models until SIGTERM or SIGINT; then what runs is answered, for `grace` seconds.

    `workers` are arguments of each `Pool`.
    """
    pools = [Pool(model, glossaries.terms, **workers) for model in models]
    try:
        await asyncio.gather(*(pool.start() for pool in pools))
        service = Service(Catalogue(pools), settings, glossaries)
        app = create_app(service)
        config = uvicorn.Config(
            app, host, port, log_config=None, access_log=False, server_header=False
        )
        await _Server(config, service, grace).serve()
    finally:
        await asyncio.gather(*(pool.stop() for pool in pools))


class _Server(uvicorn.Server):
    """A server that answers what runs before it ends, and refuses what is new meanwhile."""

    def __init__(self, config: uvicorn.Config, service: Service, grace: float):
        super().__init__(config)
        self._service, self._grace, self._ending = service, grace, None

    def handle_exit(self, sig, frame):
        if self._ending or not self._service.running:
            # Not uvicorn's way, which has the signal end the process before it tidies up.
            self.force_exit, self.should_exit = self.should_exit, True
            return
        self._service.is_ending = True
        self._ending = asyncio.get_running_loop().create_task(self._end())

    async def _end(self):
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._grace):
                while self._service.running:
                    await asyncio.sleep(0.05)
        self.should_exit = True


class JsonFormatter(logging.Formatter):
    """Log records as JSON, a line each."""

    def format(self, record: logging.LogRecord) -> str:
        values = {n: x for n, x in vars(record).items() if n not in _FIELDS}
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **values,
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
