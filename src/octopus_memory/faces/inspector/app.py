"""Routes of the inspector, for the service and for `octopus inspect`."""

from __future__ import annotations

import logging
import secrets
import shlex
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib import resources
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from ...domain.errors import Conflict, InvalidInput, NotFound, OctopusError
from ...domain.identity import AccessRole, Credential
from ...engine.memory import Memory
from ..lockout import Lockout
from . import wording
from .access import SECONDS, SignIn, Visitor, local_operator
from .rendering import environment
from .views import (
    audit,
    erasure,
    facts,
    forget,
    health,
    playground,
    replay,
    retention,
    search,
    timeline,
    users,
)
from .visit import Answer, Download, Forbidden, Page, Redirect, View, Visit

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

_LARGEST_FORM = 1024 * 1024
_WRONG_ALLOWED = 10
_STATIC = {
    "inspector.css": "text/css",
    "inspector.js": "text/javascript",
    "octopus.svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_VIEWS: dict[str, View] = {
    "/": users.show,
    "/timeline": timeline.show,
    "/replay": replay.show,
    "/playground": playground.show,
    "/playground/result": playground.result,
    "/facts": facts.show,
    "/search": search.show,
    "/forget": forget.show,
    "/retention": retention.show,
    "/erasure": erasure.show,
    "/erasure/progress": erasure.progress,
    "/erasure/steps": erasure.steps,
    "/erasure/receipt": erasure.receipt,
    "/erasure/download": erasure.download,
    "/audit": audit.show,
    "/health": health.show,
    "/health/live": health.live,
}
_ACTIONS: dict[str, View] = {
    "/timeline/delete": timeline.delete,
    "/timeline/restore": timeline.restore,
    "/facts/add": facts.add,
    "/facts/correct": facts.correct,
    "/facts/pin": facts.pin,
    "/facts/delete": facts.delete,
    "/search/find": search.find,
    "/forget/preview": forget.preview,
    "/forget/confirm": forget.confirm,
    "/retention/policy": retention.set_policy,
    "/retention/try": retention.try_policy,
    "/retention/hold": retention.place_hold,
    "/retention/lift": retention.lift_hold,
    "/erasure/erase": erasure.erase,
    "/health/keys/make": health.make_key,
    "/health/keys/rotate": health.rotate_key,
    "/health/keys/revoke": health.revoke_key,
}


class Inspector:
    """Pages over one memory. The caller closes the memory."""

    def __init__(
        self,
        memory: Memory,
        *,
        local_token: str | None = None,
        check_local: Callable[[Scope], None] | None = None,
        read_token: Callable[[str], Credential | None] | None = None,
        lockout: Lockout | None = None,
        file: str | None = None,
    ) -> None:
        """`check_local`, if given, is called for each request in place of signing in.

        It raises an error for a request that did not come from this machine. `read_token` verifies
        a JWT, and raises an error if the issuer's keys cannot be fetched. `lockout` is that of
        the face that mounts these pages. `file` is the database that commands on the pages name.
        """
        self._memory = memory
        self._sign_in = SignIn(memory, local_token=local_token, read_token=read_token)
        self._check_local = check_local
        self._db_option = "" if file is None else f" --db {shlex.quote(file)}"
        self._lockout = lockout or Lockout(_WRONG_ALLOWED)
        # Replaces the cookie in development mode. Every process of a service derives the same.
        self._nonce = sha256(b"local\0" + memory.api_keys.signing_secret()).hexdigest()

    def routes(self) -> list[Route]:
        pages = [Route(path, self._safe(self._page(view))) for path, view in _VIEWS.items()]
        actions = [
            Route(path, self._safe(self._action(do)), methods=["POST"])
            for path, do in _ACTIONS.items()
        ]
        return [
            *pages,
            *actions,
            Route("/sign-in", self._show_sign_in),
            Route("/sign-in", self._safe(self._take_sign_in), methods=["POST"]),
            Route("/sign-out", self._safe(self._sign_out), methods=["POST"]),
            Route("/inspector/{name}", _static),
        ]

    def app(self) -> Starlette:
        """Return the pages as a program of their own, with one for wrong addresses, too."""
        nowhere = Route("/{path:path}", self._safe(self._page(_nowhere)))
        return Starlette(routes=[*self.routes(), nowhere])

    def _safe(self, answer: Handler) -> Handler:
        """Answer with a page, too, if the database fails before a view runs."""

        async def answer_safely(request: Request) -> Response:
            try:
                return await answer(request)
            except OctopusError as error:
                return self._unavailable(None, error)

        return answer_safely

    def _page(self, view: View) -> Handler:
        async def answer(request: Request) -> Response:
            visitor = await self._visitor(request)
            if visitor is None:
                return self._to_sign_in(request)
            visit = Visit(
                memory=self._memory,
                visitor=visitor.in_tenant(request.query_params.get("tenant")),
                query=dict(request.query_params),
            )
            return await run_in_threadpool(self._respond, request, visit, view)

        return answer

    def _action(self, view: View) -> Handler:
        async def answer(request: Request) -> Response:
            visitor = await self._visitor(request)
            if visitor is None:
                return self._to_sign_in(request)
            form = await _form(request)
            if not _is_own(request, form, visitor):
                return self._problem(visitor, 403, "This form is too old. Go back and reload it.")
            visit = Visit(
                memory=self._memory,
                visitor=visitor.in_tenant(form.get("tenant")),
                query={},
                form=form,
            )
            return await run_in_threadpool(self._respond, request, visit, view)

        return answer

    async def _visitor(self, request: Request) -> Visitor | None:
        if self._check_local is not None:
            try:
                self._check_local(request.scope)
            except Exception:  # noqa: BLE001 - the face that mounts these pages raises its own class
                return None
            return local_operator(self._nonce)
        token = request.query_params.get("token")
        cookie = request.cookies.get(self._sign_in.cookie_name, "")
        if token:
            cookie = self._sign_in.with_local_token(token) or cookie
        return await run_in_threadpool(self._sign_in.visitor, cookie) if cookie else None

    def _respond(self, request: Request, visit: Visit, view: View) -> Response:
        try:
            return self._made(request, visit, view(visit))
        except Forbidden as error:
            return self._problem(visit.visitor, 403, str(error))
        except NotFound as error:
            return self._problem(visit.visitor, 404, wording.missing(error), visit)
        except InvalidInput as error:
            return self._problem(visit.visitor, 422, str(error), visit)
        except Conflict as error:
            return self._problem(visit.visitor, 409, str(error), visit)
        except OctopusError as error:
            return self._unavailable(visit.visitor, error)

    def _unavailable(self, visitor: Visitor | None, error: OctopusError) -> Response:
        log.warning("a page of the inspector failed: %s", error.for_log())
        return self._problem(visitor, 503, "The database does not answer. Try again.")

    def _made(self, request: Request, visit: Visit, answer: Answer) -> Response:
        match answer:
            case Redirect():
                to = answer.to
                if answer.message:
                    to += ("&" if "?" in to else "?") + urlencode(
                        {"done": answer.message, "seal": visit.visitor.seal(answer.message)}
                    )
                work = None if answer.afterwards is None else BackgroundTask(answer.afterwards)
                return _with_headers(RedirectResponse(to, 303, background=work))
            case Download():
                response = Response(answer.content, media_type=answer.kind)
                response.headers["Content-Disposition"] = f'attachment; filename="{answer.name}"'
                return _with_headers(response)
        response = self._html(visit.visitor, answer, visit=visit)
        if request.query_params.get("token") and self._check_local is None:
            # The token must not stay in the address bar, nor in the history.
            response = _with_headers(RedirectResponse("/", 303))
            self._set_cookie(request, response, visit.visitor.cookie)
        return response

    def _html(self, visitor: Visitor | None, page: Page, *, visit: Visit | None = None) -> Response:
        values = {
            "visitor": visitor,
            "visit": visit,
            "done": "" if visit is None else _message(visit),
            "link": None if visit is None else visit.link,
            "scope_link": None if visit is None else visit.scope_link,
            "signs_in": visitor is not None and not visitor.every_tenant,
            "roles": AccessRole,
            "db_option": self._db_option,
            **page.values,
        }
        text = environment().get_template(page.template).render(values)
        # Half a surrogate pair, which UTF-8 cannot write, is shown as U+FFFD.
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return _with_headers(Response(whole, page.status, media_type="text/html"))

    def _problem(
        self, visitor: Visitor | None, status: int, words: str, visit: Visit | None = None
    ) -> Response:
        """Say what went wrong, with the way back to the user that `visit` names."""
        scope = None
        if visit is not None:
            with suppress(InvalidInput, Forbidden):
                scope = visit.whose
        if visitor is not None:
            visit = visit or Visit(memory=self._memory, visitor=visitor, query={})
        values: Mapping[str, Any] = {"status": status, "words": words, "scope": scope}
        page = Page(template="problem.html", values=values, status=status)
        return self._html(visitor, page, visit=visit)

    def _to_sign_in(self, request: Request) -> Response:
        if self._check_local is not None:
            return self._problem(None, 403, "Development mode answers this machine alone.")
        to = request.url.path
        if request.method == "GET" and request.url.query and "token" not in request.query_params:
            to += f"?{request.url.query}"
        if request.method != "GET" or to == "/":
            return _with_headers(RedirectResponse("/sign-in", 303))
        return _with_headers(RedirectResponse(f"/sign-in?{urlencode({'to': to})}", 303))

    async def _show_sign_in(self, request: Request) -> Response:
        to = _own_path(request.query_params.get("to", "/"))
        return self._sign_in_page(to, 200, "")

    async def _take_sign_in(self, request: Request) -> Response:
        form = await _form(request)
        to = _own_path(form.get("to", "/"))
        host = request.client.host if request.client else ""
        if not _is_same_origin(request):
            return self._problem(None, 403, "This form came from another site.")
        given = form.get("key", "").strip()
        cookie = await run_in_threadpool(self._sign_in.with_key, given)
        try:
            cookie = cookie or await run_in_threadpool(self._sign_in.with_jwt, given)
        except InvalidInput as error:
            return self._sign_in_page(to, 422, str(error))
        except Exception as error:  # noqa: BLE001 - the face that reads tokens raises its own class
            log.warning("a JWT could not be checked: %s", type(error).__name__)
            return self._sign_in_page(to, 503, "The token cannot be checked now. Try again later.")
        if cookie is None:
            # Only instead of a 401, because others may send valid credentials from this address.
            if self._lockout.left(host):
                return self._sign_in_page(to, 429, "Too many wrong credentials. Wait a minute.")
            self._lockout.failed(host)
            words = "key or token" if self._sign_in.takes_jwts else "key"
            return self._sign_in_page(to, 401, f"This {words} is not valid, or has expired.")
        response = _with_headers(RedirectResponse(to, 303))
        self._set_cookie(request, response, cookie)
        return response

    def _sign_in_page(self, to: str, status: int, words: str) -> Response:
        values = {
            "to": to,
            "wrong": words,
            "takes_jwts": self._sign_in.takes_jwts,
            "is_local": self._sign_in.is_local,
        }
        return self._html(None, Page(template="sign_in.html", values=values, status=status))

    async def _sign_out(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is not None and not _is_own(request, await _form(request), visitor):
            return self._problem(visitor, 403, "This form is too old. Go back and reload it.")
        if visitor is not None:
            await run_in_threadpool(self._sign_in.end, visitor.cookie)
        response = _with_headers(RedirectResponse("/sign-in", 303))
        response.delete_cookie(self._sign_in.cookie_name, httponly=True, samesite="strict")
        return response

    def _set_cookie(self, request: Request, response: Response, cookie: str) -> None:
        response.set_cookie(
            self._sign_in.cookie_name,
            cookie,
            max_age=SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )


def _nowhere(_visit: Visit) -> Answer:
    values = {"status": 404, "words": "There is no such page.", "scope": None}
    return Page(template="problem.html", values=values, status=404)


def _message(visit: Visit) -> str:
    """Return the message of a redirect; nothing for one that the server did not write."""
    given, seal = visit.query.get("done", ""), visit.query.get("seal", "")
    right = visit.visitor.seal(given)
    return given if secrets.compare_digest(seal.encode(), right.encode()) else ""


async def _form(request: Request) -> dict[str, str]:
    """Parse a form here, because the parser of Starlette needs one more package."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST_FORM:
            return {}
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
    except (UnicodeDecodeError, ValueError):
        return {}


def _is_own(request: Request, form: Mapping[str, str], visitor: Visitor) -> bool:
    """Check that a form came from a page of this visit."""
    given = form.get("csrf", "")
    is_right = secrets.compare_digest(given.encode(), visitor.csrf.encode())
    return is_right and _is_same_origin(request)


def _is_same_origin(request: Request) -> bool:
    origin = request.headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc == request.headers.get("host", "")
    except ValueError:
        return False


def _own_path(given: str) -> str:
    """Return a path of this site, or the first page for anything else."""
    is_own = given.startswith("/") and not given.startswith(("//", "/\\")) and "\\" not in given
    return given if is_own and given.isprintable() else "/"


def _with_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers[name] = value
    return response


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        return _with_headers(Response("not found", 404, media_type="text/plain"))
    content = (resources.files("octopus_memory.faces.inspector") / "static" / name).read_bytes()
    response = _with_headers(Response(content, media_type=_STATIC[name]))
    response.headers["Cache-Control"] = "no-cache"
    return response
