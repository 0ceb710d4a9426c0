"""Runs the API server for `holdfast api`."""

import asyncio
import logging
import resource
import socket
from contextlib import suppress
from types import FrameType

import uvicorn
from fastapi import FastAPI

from holdfast.http.protocol import CONNECTIONS_MAX, Connections, LimitedProtocol
from holdfast.http.routes.live import Live

LEAVE_SECONDS = 3
# Half of them are for connections: those that end for others are still open for a moment.
FILES = 2 * CONNECTIONS_MAX
# uvicorn ticks ten times a second.
SWEEP_TICKS = 10


class _Server(uvicorn.Server):
    """Leaves once it is told to: those who watch are let go, and whoever tells it twice changes nothing."""

    def __init__(self, config: uvicorn.Config, live: Live, connections: Connections) -> None:
        super().__init__(config)
        self._live = live
        self._connections = connections

    async def on_tick(self, counter: int) -> bool:
        if counter % SWEEP_TICKS == 0:
            self._connections.sweep()
        return await super().on_tick(counter)

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
    most = min(CONNECTIONS_MAX, _allow_files() // 2)
    connections = Connections(most)

    class Protocol(LimitedProtocol):
        connections_of_process = connections

    # Whom a proxy speaks for is asked of no header but its own: uvicorn must not take the address from one.
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        # The parser that uvicorn always has, whatever else is installed: deadlines are built on it.
        http=Protocol,
        ws="none",
        # So many are accepted before any is read. Were they more than the cap, a whole request could be
        # closed unread for one that came just after it.
        backlog=most // 2,
        # What is answered slowly does not hold it up.
        timeout_graceful_shutdown=LEAVE_SECONDS,
    )
    logging.getLogger("uvicorn.error").addFilter(_tells_more)
    with suppress(KeyboardInterrupt):
        _Server(config, app.state.live, connections).run()


def _allow_files() -> int:
    """Raise the soft limit on open files as far as needed and allowed; answers the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
