"""Decides which addresses a delivery may use: public ones, unless the installation allows others.

A name is looked up once, every address that it has is looked at, and the connection goes to one of those.
So a resolver that answers otherwise the second time changes nothing, and a name with one address inside and
one outside is refused.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlsplit

from holdfast.core.errors import Misused
from holdfast.core.redact import shown_url

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
# Asked for a name and a port, answers addresses as text.
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]

PORTS = {"https": 443, "http": 80}
PORT_MIN = 1_024
HOST_CHARACTERS_MAX = 253
URL_CHARACTERS_MAX = 2_000
LOOKUPS_MAX = 64

# IPv4 inside IPv6, as a resolver of a network without IPv4 of its own answers for names of the other one.
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# What `is_global` lets pass, or did in older Pythons, and no public receiver has.
_NOT_PUBLIC = (
    ipaddress.ip_network("fec0::/10"),
    ipaddress.ip_network("3fff::/20"),
    ipaddress.ip_network("5f00::/16"),
    ipaddress.ip_network("192.0.0.0/24"),
    ipaddress.ip_network("192.88.99.0/24"),
    # A cloud's own services, reachable from its machines alone (Azure WireServer).
    ipaddress.ip_network("168.63.129.16/32"),
)


# Printable ASCII without spaces, and without what some readers take for a slash.
_URL = re.compile(r"[!-\[\]-~]+")


class AddressRefused(Exception):
    """The endpoint's name leads to an address that deliveries must not reach."""


@dataclass(frozen=True, slots=True)
class Place:
    """What an endpoint's URL says of where it is."""

    secure: bool
    host: str
    port: int
    # As it stands in a request: the name, with the port if it is not the usual one.
    authority: str
    path: str

    @property
    def shown(self) -> str:
        """As logs and the audit have it."""
        return shown_url(f"{'https' if self.secure else 'http'}://{self.authority}{self.path}")


def place_of(url: str, *, plain: bool = True) -> Place:
    """Read a URL strictly: whoever connects must mean the same place as whoever checked."""
    if len(url) > URL_CHARACTERS_MAX or not _URL.fullmatch(url):
        raise Misused(
            f"an endpoint's URL has up to {URL_CHARACTERS_MAX} visible ASCII characters, and no backslash"
        )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Misused(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in PORTS or (parts.scheme == "http" and not plain):
        allowed = "https or http" if plain else "https"
        raise Misused(f"an endpoint's URL begins with {allowed}: {url!r} does not")
    if not host or len(host) > HOST_CHARACTERS_MAX or "%" in host:
        raise Misused(f"{url!r} names no host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise Misused("an endpoint's URL has no user, no password and no fragment: deliveries are signed")
    usual = PORTS[parts.scheme]
    if port is not None and port < PORT_MIN and port not in PORTS.values():
        raise Misused(
            f"an endpoint's port is 443, 80, or {PORT_MIN} and above: {port} is some other service's"
        )
    shown = f"[{host}]" if ":" in host else host
    return Place(
        parts.scheme == "https",
        host,
        port or usual,
        shown if port in (None, usual) else f"{shown}:{port}",
        (parts.path or "/") + (f"?{parts.query}" if parts.query else ""),
    )


def networks_of(text: str) -> tuple[Network, ...]:
    """Networks as a setting has them: `10.0.0.0/8, ::1/128`."""
    try:
        return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise Misused(f"{text!r} are no networks: {error}") from error


def is_public(address: Address) -> bool:
    """Whether it can only mean somebody on the public internet, whatever is wrapped in it."""
    if address.version == 6 and address in _NAT64:
        return is_public(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF))
    if (
        not address.is_global
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
        or address.is_loopback
        or address.is_link_local
        or any(address.version == network.version and address in network for network in _NOT_PUBLIC)
    ):
        return False
    return all(is_public(inner) for inner in _wrapped(address))


def _wrapped(address: Address) -> Iterator[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    # ISATAP: an IPv4 address behind 0000:5efe or 0200:5efe in the lower half.
    lower = int(address) & 0xFFFF_FFFF_FFFF_FFFF
    if lower >> 32 in (0x0000_5EFE, 0x0200_5EFE):
        yield ipaddress.IPv4Address(lower & 0xFFFF_FFFF)


class SystemResolver:
    """The machine's own resolver, asked once at a time for each name.

    It blocks a thread for as long as a name server is silent, whoever has given up meanwhile: with asyncio's
    own few threads, some dead names would be the end of all deliveries.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(LOOKUPS_MAX, "holdfast-lookup")
        self._asked: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name."""
        asked = self._asked.get((host, port))
        if asked is None:
            loop = asyncio.get_running_loop()
            asked = self._asked[host, port] = loop.run_in_executor(self._threads, _looked_up, host, port)
            asked.add_done_callback(lambda done: self._heard(host, port, done))
        return await asyncio.shield(asked)

    def close(self) -> None:
        """Wait for none of them."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _heard(self, host: str, port: int, done: "asyncio.Future[list[str]]") -> None:
        del self._asked[host, port]
        if not done.cancelled():
            # Whoever asked may be gone: then nobody else looks at it.
            done.exception()


def _looked_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(info[4][0]) for info in found))


async def checked(place: Place, allowed: Sequence[Network], resolve: Resolver) -> Sequence[Address]:
    """The addresses of a place, all of them fit to be connected to; `AddressRefused` if one is not."""
    try:
        answers = await resolve(place.host, place.port)
    except (OSError, UnicodeError) as error:
        raise LookupError(f"{place.host} cannot be looked up: {error}") from error
    addresses = [ipaddress.ip_address(answer.partition("%")[0]) for answer in answers]
    if not addresses:
        raise LookupError(f"{place.host} has no address")
    for address in addresses:
        inside = any(address.version == network.version and address in network for network in allowed)
        if not inside and not is_public(address):
            raise AddressRefused(f"{place.host} leads to {address}, which is not on the public internet")
    return addresses
