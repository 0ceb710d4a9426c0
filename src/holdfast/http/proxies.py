"""Trusts the user names that an authenticating proxy sends, if the proxy itself is trusted."""

import hmac
import ipaddress
import logging
import time
import unicodedata
from dataclasses import dataclass
from typing import Self, TypeAlias

from starlette.requests import Request

from holdfast.core.errors import Misused
from holdfast.http.problems import Refused
from holdfast.ops.tokens import Bearer, Role

SECRET_HEADER = "X-Holdfast-Proxy-Secret"  # noqa: S105 (its name)
SECRET_CHARACTERS_MIN = 16
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOG = logging.getLogger("holdfast.http")
LOG_SECONDS = 60.0
_logged_at = -LOG_SECONDS
_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


@dataclass(frozen=True, slots=True)
class Proxy:
    """The networks that a proxy asks from, the headers that name the person, and its shared secret."""

    networks: tuple[Network, ...]
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    secret: str = ""

    @classmethod
    def of(cls, addresses: str, user_header: str, groups_header: str, secret: str) -> Self:
        """A proxy at addresses or networks, separated by commas.

        Without a secret, the address alone proves that a request comes from the proxy. Every process of this
        machine has the loopback address, so there the secret is required.
        """
        try:
            networks = tuple(ipaddress.ip_network(one.strip()) for one in addresses.split(",") if one.strip())
        except ValueError as error:
            raise Misused(f"--proxy takes addresses and networks such as 10.0.0.0/24: {error}") from error
        if secret and len(secret) < SECRET_CHARACTERS_MIN:
            raise Misused(f"HOLDFAST_PROXY_SECRET has fewer than {SECRET_CHARACTERS_MIN} characters")
        if not secret and any(_overlap(one, other) for one in networks for other in _LOOPBACK):
            raise Misused(
                f"--proxy {addresses} includes the loopback address, so every process of this machine "
                "could claim to be an admin: set HOLDFAST_PROXY_SECRET, and let the proxy send it as "
                f"{SECRET_HEADER}"
            )
        return cls(networks, user_header, groups_header, secret)

    def bearer(self, request: Request) -> Bearer:
        """Whom the proxy names; their role is that of their highest group, `holdfast-operator` and so on."""
        reason = self._why_not_sender(request)
        if reason is not None:
            _log_refusal(reason)
            raise Refused(401, "this request did not come from the configured proxy; machines send a token")
        name = _single(request, self.user_header)
        if not name:
            raise Refused(403, f"the proxy named nobody: it sent no {self.user_header}")
        if _is_odd(name):
            raise Refused(403, f"{self.user_header} begins or ends with a blank or has a control character")
        groups = {group.strip() for group in _single(request, self.groups_header).split(",")}
        roles = [role for role in (Role.ADMIN, Role.OPERATOR, Role.VIEWER) if f"holdfast-{role}" in groups]
        if not roles:
            raise Refused(403, "you are in no group of this API: holdfast-viewer, -operator or -admin")
        # However they write their name, they are one person: they do not approve their own plans.
        return Bearer(f"proxy:{unicodedata.normalize('NFKC', _as_sent(name)).casefold()}", name, roles[0])

    def _why_not_sender(self, request: Request) -> str | None:
        """Why a request is not the proxy's, for the log: whoever sent it is not told."""
        peer = _address(request.client.host if request.client else "")
        if peer is None or not any(peer in network for network in self.networks):
            return f"its address {peer} is not one of --proxy"
        if not self.secret:
            # A process of this machine has one of its addresses, which may lie in the proxy's network.
            own = (request.scope.get("server") or ("",))[0]
            is_own = peer.is_loopback or peer == _address(own)
            return f"its address {peer} is one of this machine: set HOLDFAST_PROXY_SECRET" if is_own else None
        sent = _single(request, SECRET_HEADER)
        if hmac.compare_digest(sent.encode(), self.secret.encode()):
            return None
        return f"{SECRET_HEADER} was not sent" if not sent else f"{SECRET_HEADER} has another value"


def _log_refusal(reason: str) -> None:
    """At most one line a minute: anybody can send such requests."""
    global _logged_at
    now = time.monotonic()
    if now - _logged_at >= LOG_SECONDS:
        _logged_at = now
        _LOG.warning("holdfast: refused a request that did not come from the configured proxy: %s", reason)


def _as_sent(name: str) -> str:
    """The name that a proxy sent as UTF-8, which servers read byte by byte."""
    try:
        return name.encode("latin-1").decode()
    except UnicodeError:
        return name


def _is_odd(name: str) -> bool:
    """Whether it could look like somebody else's name."""
    written = _as_sent(name)
    return written != written.strip() or any(unicodedata.category(one) in {"Cc", "Cf"} for one in written)


def _single(request: Request, name: str) -> str:
    """The value of a header; refused where it was sent twice, because one of them may be the client's own."""
    values = request.headers.getlist(name)
    if len(values) > 1:
        raise Refused(400, f"{name} was sent more than once: the proxy must replace what clients send")
    return values[0] if values else ""


def _address(written: str) -> Address | None:
    try:
        address = ipaddress.ip_address(written)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)
