"""`holdfast api`: serves the HTTP API for the console, scripts and HTTP workers."""

import ipaddress
import os
import socket
import sys
from typing import Annotated

import typer

from holdfast.cli.load import load
from holdfast.cli.options import handlers_of
from holdfast.cli.output import on_database
from holdfast.config import Settings
from holdfast.core.errors import Misused
from holdfast.observe.log import LogLines
from holdfast.ops.caller import Caller

HOST = "127.0.0.1"
PORT = 8_410
RATE = 50.0


async def _nothing(_: Caller) -> None:
    """Only whether the database is there, at its version."""


def api(  # noqa: PLR0913 (one for each option)
    app: Annotated[
        str | None,
        typer.Argument(
            metavar="APP", envvar="HOLDFAST_APP", help="MODULE:NAME, for guards, payload checks and secrets."
        ),
    ] = None,
    host: Annotated[str, typer.Option(envvar="HOLDFAST_API_HOST", help="Where to listen.")] = HOST,
    port: Annotated[
        int, typer.Option(envvar="HOLDFAST_API_PORT", min=1, max=65_535, help="On which port.")
    ] = PORT,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Whoever reaches it is an admin; on this machine only.")
    ] = False,
    rate: Annotated[
        float,
        typer.Option(envvar="HOLDFAST_API_RATE", min=1, help="Requests a second that one token may send."),
    ] = RATE,
    proxy: Annotated[
        str,
        typer.Option(
            envvar="HOLDFAST_API_PROXY",
            help="Networks of a proxy that knows the people, with commas; HOLDFAST_PROXY_SECRET proves it.",
        ),
    ] = "",
    proxy_user: Annotated[
        str, typer.Option(envvar="HOLDFAST_API_PROXY_USER", help="The header with which it says who.")
    ] = "X-Forwarded-User",
    proxy_groups: Annotated[
        str, typer.Option(envvar="HOLDFAST_API_PROXY_GROUPS", help="And the one with their groups.")
    ] = "X-Forwarded-Groups",
) -> None:
    """Serve the HTTP API; `holdfast token create` makes a token for it."""
    try:
        from holdfast.http.application import create
        from holdfast.http.identity import Auth
        from holdfast.http.proxies import Proxy
        from holdfast.http.server import serve
    except ImportError as error:
        raise Misused(f"the HTTP API needs what holdfast[api] installs: {error}") from error
    if no_auth and not _is_loopback(host):
        raise Misused(f"--no-auth makes everybody an admin: it is for this machine alone, not for {host}")
    if no_auth and proxy:
        raise Misused("choose one of --no-auth and --proxy")
    settings = Settings() if app is None else load(app).settings
    # Not an option: other users of this machine see the arguments of a process.
    secret = os.environ.get("HOLDFAST_PROXY_SECRET", "")
    trusted = Proxy.of(proxy, proxy_user, proxy_groups, secret) if proxy else None
    on_database(_nothing, settings=settings)
    made = create(
        settings,
        handlers_of(app),
        auth=Auth.NONE if no_auth else Auth.PROXY if trusted else Auth.TOKENS,
        listen=LogLines(),
        rate=rate,
        proxy=trusted,
    )
    _can_listen(host, port)
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    if app is None:
        sys.stderr.write(
            "holdfast: no APP was named: guards and payload checks are not available; secret fields are "
            "struck out as workers have declared them\n"
        )
    sys.stderr.write(f"holdfast: the API is at {address}/api, its console at {address}/ops\n")
    serve(made, host, port)


def _can_listen(host: str, port: int) -> None:
    """Say in a line what is wrong with the address, before anything is started."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(address)
    except OSError as error:
        raise Misused(f"--host {host} --port {port} cannot be listened to: {error.strerror}") from error


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
