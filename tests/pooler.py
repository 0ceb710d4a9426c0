"""A server before PostgreSQL that refuses startup options, as PgBouncer in transaction mode does."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

# A client asks for encryption first; the answer is one letter.
_ENCRYPTION = (80877103, 80877104)
_REFUSAL = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"


@contextmanager
def refusing_options(url: str) -> Iterator[str]:
    """The same database past such a server."""
    parts = psycopg.conninfo.conninfo_to_dict(url)
    upstream = (str(parts["host"]), int(str(parts["port"])))
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve, args=(server, upstream), daemon=True).start()
        yield f"postgresql://{parts['user']}@127.0.0.1:{server.getsockname()[1]}/{parts['dbname']}"
        # Closing alone would not wake the thread that waits for the next client.
        server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, upstream: tuple[str, int]) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        threading.Thread(target=_attend, args=(client, upstream), daemon=True).start()


def _attend(client: socket.socket, upstream: tuple[str, int]) -> None:
    with client, suppress(OSError, struct.error):
        asked = _startup(client)
        if b"\0options\0" in asked:
            client.sendall(b"E" + struct.pack("!i", len(_REFUSAL) + 4) + _REFUSAL)
            return
        with socket.create_connection(upstream) as behind:
            behind.sendall(asked)
            threading.Thread(target=_pump, args=(behind, client), daemon=True).start()
            _pump(client, behind)


def _startup(client: socket.socket) -> bytes:
    """The first message that is not about encryption, as it was sent."""
    while True:
        head = client.recv(8, socket.MSG_WAITALL)
        length, code = struct.unpack("!ii", head)
        if code not in _ENCRYPTION:
            return head + client.recv(length - 8, socket.MSG_WAITALL)
        client.sendall(b"N")


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_RDWR)
