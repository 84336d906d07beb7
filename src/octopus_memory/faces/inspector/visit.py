"""A request as the views see it, and the answers that a view can give."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import urlencode

from ...domain.episode import Scope
from ...domain.errors import InvalidInput
from ...domain.identity import AccessRole
from ...engine.memory import Memory
from ...engine.scope import MemoryScope
from ...engine.tenant import MemoryTenant
from .access import Visitor


class Forbidden(Exception):
    """The visitor's role or reach does not allow what they asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A template to render."""

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    """Another page of the inspector to go to, with a message to show there."""

    to: str
    message: str = ""
    afterwards: Callable[[], object] | None = None
    """Work that the server does after it has answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """A file for the visitor."""

    name: str
    content: bytes
    kind: str = "application/json"


Answer: TypeAlias = Page | Redirect | Download
View: TypeAlias = Callable[["Visit"], Answer]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A request as a view sees it."""

    memory: Memory
    visitor: Visitor
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)

    def need(self, *roles: AccessRole, whole: bool = False) -> None:
        """:raises Forbidden: for another role; with `whole`, for a part of the tenant alone"""
        if not self.visitor.may(*roles):
            raise Forbidden(f"the role {self.visitor.principal.role} may not see this")
        if whole and not self.visitor.is_whole:
            raise Forbidden("this credential is for a part of the tenant alone")

    @property
    def actor(self) -> str:
        return self.visitor.principal.actor

    @property
    def tenant(self) -> MemoryTenant:
        return self.memory.tenant(self.visitor.principal.tenant)

    def given(self, name: str) -> str:
        """A value of the form or the query; empty if neither has it."""
        return self.form.get(name) or self.query.get(name) or ""

    def number(self, name: str, default: int, *, least: int = 1, most: int = 1_000_000) -> int:
        """A whole number of the form or the query, held within its limits."""
        try:
            return min(max(int(self.given(name)), least), most)
        except ValueError:
            return default

    @property
    def whose(self) -> Scope:
        """The scope that the request names.

        :raises Forbidden: the credential does not reach it
        """
        principal = self.visitor.principal
        agent, user = self.given("agent"), self.given("user")
        for name, value in (("agent", agent), ("user", user)):
            if not value:
                raise InvalidInput(name, "must be given")
        if not principal.reaches(agent=agent, user=user):
            raise Forbidden("this credential is for another agent or user")
        return Scope(tenant=principal.tenant, agent=agent, user=user)

    @property
    def scope(self) -> MemoryScope:
        """The calls inside the scope that the request names."""
        whose = self.whose
        return self.memory.scope(
            tenant=whose.tenant, agent=whose.agent, user=whose.user, actor=self.actor
        )

    def link(self, path: str, **more: Any) -> str:
        """The address of a page in the same tenant."""
        tenant = {"tenant": self.visitor.principal.tenant} if self.visitor.every_tenant else {}
        given = {name: value for name, value in more.items() if value not in (None, "")}
        query = urlencode(tenant | given)
        return f"{path}?{query}" if query else path

    def scope_link(self, path: str, scope: Scope, **more: Any) -> str:
        """The address of a page about one user with one agent."""
        return self.link(path, agent=scope.agent, user=scope.user, **more)
