"""The page to try the service on: three files, nothing from elsewhere."""

from __future__ import annotations

from importlib import resources

from fastapi import APIRouter, Response

router = APIRouter(include_in_schema=False)
_KINDS = {"try.html": "text/html", "try.css": "text/css", "try.js": "text/javascript"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


@router.get("/")
def page() -> Response:
    return _file("try.html")


@router.get("/try.css")
def style() -> Response:
    return _file("try.css")


@router.get("/try.js")
def script() -> Response:
    return _file("try.js")


def _file(name: str) -> Response:
    content = (resources.files(__package__) / "page" / name).read_bytes()
    return Response(content, media_type=f"{_KINDS[name]}; charset=utf-8", headers=_HEADERS)
