"""A TCP proxy before PostgreSQL that can cut: at once, before an answer, or in silence."""

import asyncio
import random
import socket
import struct
import threading
from contextlib import suppress


class Proxy:
    """Runs in a thread of its own; orders come from the nemesis."""

    def __init__(self, port: int, upstream: int, seed: int) -> None:
        self.port = port
        self._upstream = upstream
        self._random = random.Random(seed)
        self._loop = asyncio.new_event_loop()
        self._pairs: set[Pair] = set()
        self.cuts = 0
        # Whatever comes is swallowed, and nobody is told; whoever comes is turned away.
        self.silent = False
        self.refusing = False
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        ready = threading.Event()
        self._loop.call_soon(ready.set)
        self._thread.start()
        ready.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut_all(self) -> None:
        """Reset every connection now."""

        def cut() -> None:
            for pair in list(self._pairs):
                pair.cut()

        self._loop.call_soon_threadsafe(cut)

    def cut_before_an_answer(self, share: float) -> None:
        """Let the next request of some connections through, and cut before its answer."""

        def arm() -> None:
            for pair in self._pairs:
                if self._random.random() < share:
                    pair.armed = True

        self._loop.call_soon_threadsafe(arm)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self._loop.run_forever()
        server.close()
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.close()
            return
        pair = Pair(self, writer, up_writer)
        self._pairs.add(pair)
        halves = [
            asyncio.ensure_future(pair.pump(reader, up_writer, asked=True)),
            asyncio.ensure_future(pair.pump(up_reader, writer, asked=False)),
        ]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The proxy is stopped; whoever accepted this connection wants no exception.
            return
        finally:
            pair.cut()
            self._pairs.discard(pair)
            for half in halves:
                half.cancel()


class Pair:
    """One connection, both halves."""

    def __init__(self, proxy: Proxy, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self.armed = False
        self._asked = False

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asked: bool) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                if asked and self.armed:
                    self._asked = True
                if not asked and self._asked:
                    # The server has answered, so it has committed; the client never hears of it.
                    self._proxy.cuts += 1
                    return
                if self._proxy.silent:
                    continue
                writer.write(data)
                await writer.drain()

    def cut(self) -> None:
        for writer in (self._client, self._server):
            sock = writer.get_extra_info("socket")
            if sock is not None:
                with suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
