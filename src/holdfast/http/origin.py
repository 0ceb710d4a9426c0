"""What a browser does by itself, and must not: acts that another site began."""

from starlette.requests import Request

from holdfast.http.problems import Refused

SAFE = frozenset({"GET", "HEAD"})


def refuse_strangers(request: Request) -> None:
    """Refuse an act that a page of another site sent.

    A browser says where an act comes from (`Sec-Fetch-Site`, `Origin`), and a page cannot change that.
    Whoever says neither is no browser.
    """
    if request.method in SAFE:
        return
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if site is not None and site not in {"same-origin", "none"}:
        raise Refused(403, "this act was begun by another site")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refused(403, f"this act was begun by {origin[:100]}, and not by this site")
