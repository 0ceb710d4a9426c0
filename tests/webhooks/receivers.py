"""Receivers for tests: real servers on loopback that answer as the worst of them do."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass(slots=True)
class Received:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Receiver:
    """A server, and what has come in."""

    port: int
    secure: bool
    connections: int = 0
    requests: list[Received] = field(default_factory=list)

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{path}"


async def read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    headers = {name.lower(): value for name, value in headers.items()}
    body = await reader.readexactly(int(headers["content-length"]))
    return Received(first.split(" ")[1], headers, body)


class _Server:
    """Serves connections until it is closed."""

    def __init__(self, found: Receiver, answers: list[bytes | Behaviour]) -> None:
        self._found = found
        self._left = answers
        self._tasks: set[asyncio.Task[object]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._found.connections += 1
        try:
            await self._answer(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            # The other side went, or the test is over.
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (request := await read_request(reader)) is not None:
            self._found.requests.append(request)
            answer = self._left.pop(0) if len(self._left) > 1 else self._left[0]
            if not isinstance(answer, bytes):
                await answer(reader, writer)
                return
            writer.write(answer)
            await writer.drain()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()


@asynccontextmanager
async def receiver(*answers: bytes | Behaviour, tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Answers one after the other, the last of them for ever; a behaviour does as it likes."""
    found = Receiver(0, tls is not None)
    serving = _Server(found, list(answers or [OK]))
    server = await asyncio.start_server(serving.serve, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        serving.close()
        server.close()


def answered(status: int, *headers: str, body: bytes = b"") -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *headers, f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def drips(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, for ever."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.1)


async def hangs(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Says nothing."""
    await reader.read()


async def resets(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Ends the connection as a crash does."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def resets_halfway(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begins an answer."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nxxx")
    await writer.drain()
    await resets(reader, writer)


async def floods(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says yes, and then does not stop."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000000\r\n\r\n")
    while True:
        writer.write(b"y" * 100_000)
        await writer.drain()


async def endless_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Headers without end."""
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        writer.write(b"x-%d: y\r\n" % number)
        await writer.drain()


async def endless_trailers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A body that has ended, and then does not end."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ")
    while True:
        writer.write(b"a" * 10_000)
        await writer.drain()
