"""Rejects requests that a page of another site started in a browser."""

from starlette.requests import Request

from holdfast.http.problems import Refused

SAFE = frozenset({"GET", "HEAD"})


def refuse_strangers(request: Request) -> None:
    """Refuse what a page of another site sent; reading is refused only where that is certain.

    A browser says where an act comes from (`Sec-Fetch-Site`, `Origin`), and a page cannot change that.
    Whoever says neither is no browser.
    """
    site = request.headers.get("sec-fetch-site")
    if request.method in SAFE:
        # It changes nothing, but it uses what one caller may use at once.
        if site == "cross-site":
            raise Refused(403, "this request was begun by another site")
        return
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    if site is not None and site not in {"same-origin", "none"}:
        raise Refused(403, "this act was begun by another site")
    if origin is not None and origin.partition("://")[2] != host:
        raise Refused(403, f"this act was begun by {origin[:100]}, and not by this site")
