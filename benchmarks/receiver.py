"""A receiver of webhooks for benchmarks: `python -m benchmarks.receiver PORT FILE SECRETS`.

`/ok/…` says yes at once, `/dead/…` never says anything. For each request that it answered a line stands in
FILE: when it came (monotonic), its id, its path, and whether its signature was good under the secret that
SECRETS, a JSON document, has for the path.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TextIO

import httptools

from holdfast.webhooks import NotOurs, verify

YES = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
FLUSH_SECONDS = 0.2


class Reception(asyncio.Protocol):
    """One connection."""

    def __init__(self, secrets: dict[str, str], file: TextIO) -> None:
        self._secrets = secrets
        self._file = file
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def _begin(self) -> None:
        self._path = ""
        self._headers: dict[str, str] = {}
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Some of a request."""
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        """Some of its path."""
        self._path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        self._headers[name.decode()] = value.decode()

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        self._body += body

    def on_message_complete(self) -> None:
        """It is whole: answer it, unless it is for the dead."""
        if self._path.startswith("/ok/"):
            try:
                verify(self._body, self._headers, self._secrets[self._path])
            except NotOurs as error:
                said = str(error).replace(" ", "_")
            else:
                said = "good"
            event = self._headers["webhook-id"]
            self._file.write(f"{time.monotonic():.6f} {event} {self._path} {said}\n")
            self._transport.write(YES)
        self._begin()


async def serve(port: int, secrets: dict[str, str], out: TextIO) -> None:
    """Until it is killed."""
    await asyncio.get_running_loop().create_server(lambda: Reception(secrets, out), "127.0.0.1", port)
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        out.flush()


def main(port: str, file: str, secrets: str) -> None:
    with Path(file).open("w") as out:
        asyncio.run(serve(int(port), json.loads(Path(secrets).read_text()), out))


if __name__ == "__main__":
    main(*sys.argv[1:])
