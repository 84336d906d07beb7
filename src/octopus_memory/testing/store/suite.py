"""The contract of every store: inherit `StoreSuite` and provide a store.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self) -> Iterator[EpisodeStore]:
            store = MyStore(new_empty_database())
            yield store
            store.close()

A second fixture, `reopen`, closes that store and opens its database again; without it, tests of
durability are skipped. A test that calls a method of a capability which the store does not claim is
skipped, with the reason. Otherwise no test is left out for one adapter: mark one that cannot pass
as an expected failure, with the reason.
"""

from __future__ import annotations

from .append import AppendTests, IdempotencyTests, TargetTests
from .close import (
    ArchiveTests,
    CloseTests,
    PutSummaryTests,
    RestoreTests,
    StageEntryTests,
    TouchTests,
)
from .content import AtomicityTests, ConcurrentAppendTests, MessageTests, TimeTests
from .episodes import (
    EpisodeReadTests,
    ListTests,
    OpenEpisodesTests,
    SessionReadTests,
    TurnReadTests,
)
from .erasure import EraseTests
from .fact_life import FactLifeTests
from .facts import BetterFactsTests, FactAtomicityTests, FactIsolationTests, FactTests
from .forget import ForgetTests, PreviewTests
from .holds import HoldTests, LeadTests
from .index_turns import IndexTurnsTests, UnindexedStageTests, UnindexedTurnsTests
from .isolation import IsolationTests, KeyTests, LookAlikeTests, TenantReadTests
from .ledger import LedgerLifeTests, LedgerTests
from .mirror import MirrorRemovalTests, MirrorTests, WaitingRowsTests
from .overview import AuditTests, ConfigTests, LifeTests, OverviewTests, StatsTests
from .recall_rows import ModelTests, RecallRowTests, RecallStateTests, VectorTests
from .removals import ErasureTests, OwnRowsTests, RemovalTests, TurnRemovalTests
from .retention import AgedTests, ColdArchiveTests, DeleteTests, PurgeTests
from .scrub import RewriteTests, StoredTests
from .scrub_rewrite import RewriteMirrorTests, RewriteRefusalTests, RewrittenMeanwhileTests
from .sessions import (
    MessageKeyTests,
    ResetTests,
    SessionListTests,
    TurnByIdTests,
    UnindexedTurnTests,
)
from .transfer import ExportTests, ImportTests
from .work import BacklogTests, ClaimTests, LeaseTests


class StoreSuite(
    AppendTests,
    TargetTests,
    IdempotencyTests,
    AtomicityTests,
    ConcurrentAppendTests,
    CloseTests,
    PutSummaryTests,
    ArchiveTests,
    AgedTests,
    ColdArchiveTests,
    DeleteTests,
    RestoreTests,
    PurgeTests,
    StageEntryTests,
    HoldTests,
    LeadTests,
    TouchTests,
    SessionReadTests,
    EpisodeReadTests,
    ListTests,
    TurnReadTests,
    OpenEpisodesTests,
    RecallRowTests,
    RecallStateTests,
    VectorTests,
    ModelTests,
    UnindexedTurnsTests,
    IndexTurnsTests,
    UnindexedStageTests,
    ClaimTests,
    LeaseTests,
    BacklogTests,
    MirrorTests,
    MirrorRemovalTests,
    WaitingRowsTests,
    ConfigTests,
    StatsTests,
    LifeTests,
    MessageTests,
    TimeTests,
    IsolationTests,
    LookAlikeTests,
    TenantReadTests,
    KeyTests,
    EraseTests,
    ErasureTests,
    RemovalTests,
    OwnRowsTests,
    AuditTests,
    StoredTests,
    RewriteTests,
    RewriteRefusalTests,
    RewriteMirrorTests,
    RewrittenMeanwhileTests,
    ExportTests,
    ImportTests,
    FactTests,
    BetterFactsTests,
    FactLifeTests,
    FactAtomicityTests,
    FactIsolationTests,
    TurnRemovalTests,
    PreviewTests,
    ForgetTests,
    LedgerTests,
    LedgerLifeTests,
    OverviewTests,
    MessageKeyTests,
    ResetTests,
    SessionListTests,
    UnindexedTurnTests,
    TurnByIdTests,
):
    """The contract of `EpisodeStore`."""
