"""The operator's calls for one tenant, across its users and agents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from ..domain.audit import AuditCheck, AuditEntry, AuditHead
from ..domain.checks import check_limit, episode_id_of
from ..domain.episode import Episode, Page, Scope, TurnHit, TurnSearch, check_name
from ..domain.erasure import EraseProgress, EraseReceipt, Subject
from ..domain.facts import FactKind, FactSharing
from ..domain.ids import as_id
from ..domain.policy import EpisodicRetentionPolicy
from ..domain.retention import Hold, RetentionCounts
from ..domain.transfer.export_format import LONGEST_PART, ImportReport
from ..ports.values import EpisodeQuery, TenantScopes
from . import facts, holds, retention
from .core import audit
from .core.runtime import Runtime
from .privacy import erasure, scrub
from .privacy.scrub import Progress, ScrubReport
from .scope import MemoryScope
from .transfer import export, importer

if TYPE_CHECKING:
    from ..domain.episode import ScopeOverview, ScopeSearch
    from ..ports.privacy import Trace
    from .memory import Memory


class MemoryTenant:
    """A tenant's memory, across its agents and users: for its operator, not for an agent."""

    def __init__(self, memory: Memory, tenant: str) -> None:
        self._memory = memory
        self.tenant = check_name("tenant", tenant, longest=100)

    def __repr__(self) -> str:
        return f"MemoryTenant({self.tenant!r})"

    @property
    def _runtime(self) -> Runtime:
        return self._memory.runtime

    def locate(
        self,
        episode_id: Episode | UUID | str,
        *,
        include_deleted: bool = False,
        actor: str = "library",
    ) -> MemoryScope | None:
        """Return the scope of an episode; None if this tenant has no such episode.

        With `include_deleted`, finds episodes that are deleted and not purged yet, too.
        """
        key = as_id("episode_id", episode_id, Episode)
        if key is None:
            return None
        found = self._runtime.store.locate([key], tenant=self.tenant, deleted=include_deleted)
        return MemoryScope(self._memory, found[key], actor=actor) if found else None

    def episodes(
        self,
        page: int = 1,
        page_size: int = 20,
        *,
        agents: Collection[str] | None = None,
        user: str | None = None,
        include_archived: bool = True,
        actor: str = "library",
    ) -> Page[Episode]:
        """Return a page of episodes across scopes, newest first."""
        check_limit(page, "page")
        check_limit(page_size, "page_size")
        with audit.reading_across(
            self._runtime, "episodes", tenant=self.tenant, user=user, actor=actor
        ) as runtime:
            items, total = runtime.store.list_episodes(
                EpisodeQuery(
                    of=TenantScopes(self.tenant, agents, user),
                    include_archived=include_archived,
                    offset=(page - 1) * page_size,
                    limit=page_size,
                )
            )
        return Page(items=tuple(items), total_count=total, page=page, page_size=page_size)

    def agents(self) -> list[str]:
        """Return the agents that have stored anything of this tenant's users, sorted by name."""
        return self._runtime.store.agents(self.tenant)

    def people(
        self,
        *,
        starts: str = "",
        agents: Collection[str] | None = None,
        user: str | None = None,
        after: Scope | None = None,
        limit: int = 50,
        actor: str = "library",
    ) -> list[ScopeOverview]:
        """Return the counts of each user with each agent, sorted by user and agent, after `after`.

        `starts` restricts them to users whose id begins with it, `agents` and `user` to these.
        """
        check_limit(limit)
        with audit.reading_across(
            self._runtime, "people", tenant=self.tenant, user=user, actor=actor
        ) as runtime:
            search = runtime.store.people(
                self.tenant, starts=starts, agents=agents, user=user, after=after, limit=limit
            )
        return list(search.found)

    def search_people(
        self,
        text: str,
        *,
        agents: Collection[str] | None = None,
        user: str | None = None,
        after: Scope | None = None,
        limit: int = 50,
        actor: str = "library",
    ) -> ScopeSearch:
        """Find users and agents whose id contains `text`, in any case, by user and agent.

        A call reads a bounded number of ids. Pass `reached` as `after` to continue.
        """
        check_limit(limit)
        with audit.reading_across(
            self._runtime, "people", tenant=self.tenant, user=user, actor=actor
        ) as runtime:
            return runtime.store.people(
                self.tenant, contains=text, agents=agents, user=user, after=after, limit=limit
            )

    def search(
        self,
        words: str,
        *,
        agents: Collection[str] | None = None,
        user: str | None = None,
        after: Scope | None = None,
        limit: int = 25,
        turns: int = 3,
        min_score: float | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        actor: str = "library",
    ) -> TurnSearch:
        """Find what was said, by words and meaning, across users; the audit log records it.

        A call searches `limit` users with an agent each, and finds up to `turns` of each of them,
        of the relevance that the agent's settings ask for, or of `min_score`. Pass `reached` as
        `after` to continue.
        """
        check_limit(turns, "turns")
        people = self.people(
            agents=agents, user=user, after=after, limit=check_limit(limit) + 1, actor=actor
        )
        scopes = [each.scope for each in people[:limit]]
        found: list[tuple[Scope, TurnHit]] = []
        for each in scopes:
            least = min_score
            if least is None:
                # Most of them said nothing about it, and a search always has a best turn.
                least = self._runtime.config(each.tenant, each.agent).recall.min_recall_score
            hits = MemoryScope(self._memory, each, actor=actor).recall_turns(
                words, limit=turns, min_score=least, since=since, until=until
            )
            found += [(each, hit) for hit in hits]
        # Whatever `audit_reads` says, because it may be about people whom nobody asked for.
        audit.record(
            self._runtime, "search", tenant=self.tenant, actor=actor, user=user, users=len(scopes)
        )
        found.sort(key=lambda each: -(each[1].score or 0.0))
        return TurnSearch(
            found=tuple(found),
            searched=len(scopes),
            reached=scopes[-1] if len(people) > limit else None,
        )

    def hold(
        self,
        *,
        user: str | None = None,
        episode_id: Episode | UUID | str | None = None,
        reason: str,
        actor: str = "library",
    ) -> Hold:
        """Place a legal hold on a user or an episode: no retention and no erasure until `lift`.

        :raises EpisodeNotFound: for an episode that is not this tenant's
        """
        key = None if episode_id is None else episode_id_of(episode_id)
        return holds.place(
            self._runtime, self.tenant, user=user, episode_id=key, reason=reason, actor=actor
        )

    def preview_retention(self, agent: str, policy: EpisodicRetentionPolicy) -> RetentionCounts:
        """Count what the next run would do to an agent's ended episodes under a policy."""
        return retention.preview(self._runtime, self.tenant, check_name("agent", agent), policy)

    def holds(self) -> list[Hold]:
        """Return the holds in force, oldest first."""
        return self._runtime.store.holds(self.tenant)

    def lift(self, hold_id: Hold | UUID | str, *, actor: str = "library") -> Hold:
        """Lift a hold. The next retention run processes the episodes that are due.

        :raises NotFound: when this tenant has no such hold
        """
        return holds.lift(self._runtime, self.tenant, hold_id, actor=actor)

    def erase_user(
        self,
        user: str,
        *,
        agent: str | None = None,
        physical: bool = True,
        actor: str = "library",
    ) -> EraseReceipt:
        """Erase everything of one user, with one agent or with all, from rows, caches and files.

        An unknown user gives a receipt of zeros. Without `physical` the files are rewritten by a
        later `Memory.compact`; the receipt says so.

        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        subject = self._subject(user, agent)
        return erasure.erase(self._runtime, subject, actor=actor, physical=physical)

    def _subject(self, user: str, agent: str | None) -> Subject:
        return Subject(
            tenant=self.tenant,
            user=check_name("user", user),
            agent=None if agent is None else check_name("agent", agent),
        )

    def begin_erasing(
        self, user: str, *, agent: str | None = None, actor: str = "library"
    ) -> EraseProgress:
        """Remove the rows as `erase_user` does, and leave the rest to `finish_erasing` or a worker.

        :raises LegalHold: when the user or an episode is under a hold; nothing is removed
        """
        subject = self._subject(user, agent)
        begun = erasure.begin(self._runtime, subject, actor=actor)
        return erasure.progress(self._runtime, self.tenant, begun.id)

    def finish_erasing(self, erasure_id: EraseReceipt | UUID | str) -> EraseReceipt:
        """Do the later steps of an erasure: a remote index, the files, the verification.

        :raises NotFound: when this tenant has none of that id
        """
        return erasure.complete(self._runtime, self.erasing(erasure_id).erasure)

    def erasing(self, erasure_id: EraseReceipt | UUID | str) -> EraseProgress:
        """Return the steps of an erasure that are done and pending.

        :raises NotFound: when this tenant has none of that id
        """
        return erasure.progress(self._runtime, self.tenant, erasure_id)

    def erasable(self, user: str, *, agent: str | None = None) -> int:
        """Count the episodes that `erase_user` would remove; deleted ones are not counted."""
        agents = None if agent is None else [agent]
        of = TenantScopes(self.tenant, agents, check_name("user", user))
        return self._runtime.store.list_episodes(EpisodeQuery(of=of, limit=0))[1]

    def trace(
        self, user: str, *, agent: str | None = None, episode_id: UUID | None = None
    ) -> Trace | None:
        """Note what is stored of a user or an episode, to search the files for it after an erasure.

        None if the database's files cannot be read from here.
        """
        subject = Subject(tenant=self.tenant, user=user, agent=agent, episode_id=episode_id)
        return self._runtime.store.trace(subject)

    def receipt(self, erasure_id: EraseReceipt | UUID | str) -> EraseReceipt:
        """Return the current receipt of an erasure.

        :raises NotFound: when this tenant has none of that id
        """
        return erasure.receipt(self._runtime, self.tenant, erasure_id)

    def receipts(
        self, *, before: EraseReceipt | UUID | str | None = None, limit: int = 100
    ) -> list[EraseReceipt]:
        """Return the receipts of this tenant's erasures before `before`, newest first."""
        return erasure.receipts(self._runtime, self.tenant, before=before, limit=check_limit(limit))

    def audit(self, *, after: int = 0, limit: int = 1_000) -> list[AuditEntry]:
        """Return the audit log's entries with a `seq` above `after`, in order."""
        return self._runtime.store.audit(self.tenant, after=after, limit=check_limit(limit))

    def audit_head(self) -> AuditHead:
        """Return the number and the hash of the newest entry of the audit log."""
        return self._runtime.store.audit_head(self.tenant)

    def verify_audit(self, *, head: str | None = None) -> AuditCheck:
        """Verify the hash chain of the whole log, and that `head`, noted earlier, is part of it."""
        return audit.verify(self._runtime, self.tenant, head=head)

    def subject(self, user: str) -> str:
        """Return the keyed hash that stands for a user in the audit log and on receipts."""
        return audit.subject_of(self._runtime, self.tenant, check_name("user", user))

    def share_facts(
        self,
        *,
        kinds: Collection[FactKind | str],
        agents: Collection[str],
        actor: str = "library",
    ) -> FactSharing:
        """Let agents share facts: of these kinds, what one knows of a user is known to all of them.

        It replaces what was shared before. By default nothing is shared. The audit log records it.

        :raises InvalidSetting: for no kind, or fewer than two agents
        """
        return facts.share(self._runtime, self.tenant, kinds, agents, actor=actor)

    def stop_sharing_facts(self, *, actor: str = "library") -> None:
        """Let no agent know facts of another again."""
        facts.stop(self._runtime, self.tenant, actor=actor)

    def shared_facts(self) -> FactSharing | None:
        """Return which facts are shared by which agents; None if nothing is."""
        self._runtime.clear_config_cache()
        return self._runtime.fact_sharing(self.tenant)

    def export_user(
        self, user: str, *, agent: str | None = None, actor: str = "library"
    ) -> Iterator[str]:
        """Export everything of one user, with one agent or with all, as JSON Lines.

        Each line ends in a line break, for `file.writelines`. The lines are generated one by one,
        so memory use does not grow with the export. Deleted episodes are not exported.

        :raises EpisodeChanged: when an episode is archived or erased while it is read
        :raises StoreReadOnly: because the audit log must record the export
        """
        return export.export(self._runtime, self.tenant, user, agent=agent, actor=actor)

    def import_user(
        self,
        lines: Iterable[str],
        *,
        user: str | None = None,
        agent: str | None = None,
        source: str | None = None,
        longest: int = LONGEST_PART,
        actor: str = "library",
    ) -> ImportReport:
        """Import lines of `export_user`, from this or another database, or other programs'
        transcripts.

        `user` and `agent` replace the names in an export; transcripts name no user. `source` is
        `octopus`, `openai` or `chatgpt`, and is detected from the first line by default. Episodes
        that exist are skipped, so an import can be run again. One conversation of a transcript may
        have `longest` characters, because it is read into memory whole.

        :raises InvalidInput: naming the line and the field; the episodes before it are stored
        """
        report = importer.import_user(
            self._runtime,
            self.tenant,
            lines,
            user=user,
            agent=agent,
            source=source,
            longest=longest,
            actor=actor,
        )
        self._memory.wake()
        return report

    def scrub(
        self,
        *,
        user: str | None = None,
        agent: str | None = None,
        dry_run: bool = False,
        numbered: bool | None = None,
        compact: bool = True,
        progress: Progress | None = None,
        actor: str = "library",
    ) -> ScrubReport:
        """Redact the personal data that is stored, whatever the agents' settings say of new text.

        Covers messages, summaries, key facts, standing facts and metadata, in every stage; ids
        stay. Changed text is embedded and summarized again. `numbered` says whether placeholders
        have numbers, and defaults to each agent's settings. `progress` is called with the report
        after every session. The process may be killed at any point: a second run changes only the
        rest. Sessions under a legal hold stay unchanged.
        """
        report = scrub.scrub(
            self._runtime,
            self.tenant,
            user=user,
            agent=agent,
            dry_run=dry_run,
            numbered=numbered,
            compact=compact,
            progress=progress,
            actor=actor,
        )
        self._memory.wake()
        return report
