"""Serves the console's built pages under /ops."""

import re
from functools import cache
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from holdfast.http.problems import Refused

router = APIRouter(tags=["console"], include_in_schema=False)

# Whatever stands in a page can do nothing by itself: no script, style or picture of others, nothing inline.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# Names of assets carry a hash of what is in them.
_ASSET = re.compile(r"assets/[A-Za-z0-9_.-]{1,100}")
_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml", "woff2": "font/woff2"}
_FOR_EVER = "public, max-age=31536000, immutable"
_NOT_BUILT = (
    "<!doctype html><title>Holdfast</title><p>This copy has no console: it was installed from a checkout. "
    "<code>make console</code> builds it; packages have it inside.</p>"
)


@router.get("/ops")
async def console(request: Request) -> Response:
    """The page of the console; which one it shows is its own matter."""
    return _page(request)


@router.get("/ops/{path:path}")
async def within(request: Request, path: str) -> Response:
    """An asset, or the same page at another address."""
    if path in {"", "queue"}:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"{_root(request)}/ops{query}", 307)
    if path.startswith("assets/"):
        return _asset(path)
    return _page(request)


def _root(request: Request) -> str:
    """Where the API is mounted, seen from outside."""
    return str(request.scope.get("root_path", "")).rstrip("/")


def _page(request: Request) -> HTMLResponse:
    text = _shell()
    if text is None:
        return HTMLResponse(_NOT_BUILT, 404)
    root = escape(_root(request))
    # Addresses in the page begin where the API does.
    text = text.replace('data-root=""', f'data-root="{root}"')
    text = text.replace('"/ops/assets/', f'"{root}/ops/assets/').replace('"/api/', f'"{root}/api/')
    return HTMLResponse(text, headers={"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"})


def _asset(path: str) -> Response:
    if _ASSET.fullmatch(path) is None or not (found := _pages() / path).is_file():
        raise Refused(404, f"there is no {path[:100]} in the console")
    media_type = _TYPES.get(path.rpartition(".")[2], "application/octet-stream")
    return Response(found.read_bytes(), media_type=media_type, headers={"Cache-Control": _FOR_EVER})


def _pages() -> Traversable:
    return files("holdfast.http") / "pages"


@cache
def _shell() -> str | None:
    found = _pages() / "index.html"
    return found.read_text(encoding="utf-8") if found.is_file() else None
