"""Serves the API in a process of its own: `holdfast api`."""

import asyncio
import logging
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from holdfast.http.live import Live

LEAVE_SECONDS = 3


class _Server(uvicorn.Server):
    """Leaves once it is told to: those who watch are let go, and whoever tells it twice changes nothing."""

    def __init__(self, config: uvicorn.Config, live: Live) -> None:
        super().__init__(config)
        self._live = live

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._live.end()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            super().handle_exit(sig, frame)


def _tells_more(line: logging.LogRecord) -> bool:
    """Whether a line says more than that what was broken off was broken off, which another line counts."""
    return line.exc_info is None or not isinstance(line.exc_info[1], asyncio.CancelledError)


def serve(app: FastAPI, host: str, port: int) -> None:
    """Serve it until this process is told to leave."""
    # Whom a proxy speaks for is asked of no header but its own: uvicorn must not take the address from one.
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        # What is answered slowly does not hold it up.
        timeout_graceful_shutdown=LEAVE_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_tells_more)
    with suppress(KeyboardInterrupt):
        _Server(config, app.state.live).run()
