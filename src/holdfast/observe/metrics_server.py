"""Serves a worker's metrics, liveness and readiness over HTTP."""

import asyncio
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus

LINE_SECONDS = 5.0
LINES_MAX = 100

# A status, a content type and a body.
Answer = tuple[HTTPStatus, str, bytes]


def document(values: Mapping[str, object], *, well: bool) -> Answer:
    """Figures about oneself, and whether all is well."""
    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
    return (
        status,
        "application/json",
        json.dumps({"status": "ok" if well else "not ready", **values}).encode(),
    )


class MetricsServer:
    """A server for a few pages that anybody on its address may read."""

    def __init__(self, pages: Mapping[str, Callable[[], Answer]]) -> None:
        self._pages = pages
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> None:
        """Listen; a port that is taken is an OSError."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=8_192)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Whoever asks too slowly or at length has the connection closed.
        with suppress(OSError, TimeoutError, ValueError):
            async with asyncio.timeout(LINE_SECONDS):
                asked = (await reader.readline()).split()
                for _ in range(LINES_MAX):
                    if not (await reader.readline()).strip():
                        break
                writer.write(self._answer(asked))
                await writer.drain()
        with suppress(OSError):
            writer.close()
            await writer.wait_closed()

    def _answer(self, asked: list[bytes]) -> bytes:
        method, path = (
            (asked[0], asked[1].decode("latin-1").partition("?")[0]) if len(asked) == 3 else (b"", "")
        )
        page = self._pages.get(path)
        if method not in (b"GET", b"HEAD") or page is None:
            status, media_type, body = HTTPStatus.NOT_FOUND, "text/plain", b"not here\n"
        else:
            status, media_type, body = page()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {media_type}\r\n"
            f"Content-Length: {len(body)}\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if method == b"HEAD" else body)
