"""The state of one import."""

from __future__ import annotations

from dataclasses import replace

from ...domain.retention import Stage, is_overdue
from ...domain.transfer.export_format import EpisodeRecord, ImportReport
from ...domain.transfer.transcripts import ImportSource
from ...ports.values import ImportedEpisode
from ..core.runtime import Runtime


class ImportRun:
    """An import: its arguments, and the report so far."""

    def __init__(
        self,
        runtime: Runtime,
        tenant: str,
        user: str | None,
        agent: str | None,
        source: ImportSource,
    ) -> None:
        self.runtime, self.tenant, self.user, self.agent = runtime, tenant, user, agent
        self.source = source
        self.now = runtime.clock.now()
        self.report = ImportReport(source=source.value)

    def count(self, **more: int) -> None:
        added = {name: getattr(self.report, name) + number for name, number in more.items()}
        self.report = replace(self.report, **added)

    def bring(self, brought: ImportedEpisode, *, turns: int, has_new_id: bool = False) -> None:
        if not self.runtime.store.import_episode(brought):
            self.count(passed_over=1)
            return
        late = self._is_overdue(brought.kept)
        found = () if brought.summary is None else brought.summary.facts or ()
        facts = len(brought.facts) + len(found)
        new = int(has_new_id)
        self.count(episodes=1, turns=turns, facts=facts, given_new_ids=new, overdue=int(late))

    def _is_overdue(self, kept: EpisodeRecord) -> bool:
        if kept.aged_from is None:
            return False
        scope = kept.episode.scope
        policy = self.runtime.config(scope.tenant, scope.agent).retention
        stage = Stage.ARCHIVED if kept.episode.is_archived else Stage.ACTIVE
        return is_overdue(stage, policy, since=kept.aged_from, now=self.now)
