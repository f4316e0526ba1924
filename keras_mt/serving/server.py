"""A server: its workers, its application, and how it ends."""

import asyncio
import contextlib
import json
import logging
import multiprocessing
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn

from keras_mt.errors import InputError
from keras_mt.serving.app import Service, Settings, create_app
from keras_mt.serving.catalogue import Catalogue
from keras_mt.serving.glossaries import Glossaries
from keras_mt.serving.pool import Pool

_log = logging.getLogger("keras_mt.serving")
_FIELDS = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"}


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
    pools = [Pool(model, **workers) for model in models]
    listening = _bound(host, port)  # Before models load; what asks meanwhile is refused.
    try:
        await asyncio.gather(*(pool.start() for pool in pools))
        service = Service(Catalogue(pools), settings, glossaries)
        config = uvicorn.Config(
            create_app(service),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=75,  # Longer than clients leave a connection idle.
            timeout_graceful_shutdown=1,  # For clients that do not read their answers.
        )
        listening.listen()
        name = f"[{host}]" if ":" in host else host
        _log.info("running on http://%s:%d", name, listening.getsockname()[1])
        await _Server(config, service, grace).serve([listening])
    finally:
        listening.close()
        await asyncio.gather(*(pool.stop() for pool in pools))
        for process in multiprocessing.active_children():
            process.kill()  # One that was still loading.


def _bound(host, port):
    """A socket of an address that nobody else listens on."""
    try:
        # With its protocol: asyncio has packets wait for each other where it does not see TCP.
        *kind, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(*kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror}") from None
    return listening


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
        time = self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z")
        line = {"time": time, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {n: x for n, x in vars(record).items() if n not in _FIELDS}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)
