"""What every store must do: inherit `StoreSuite` and give it a store.

    class TestMyStore(StoreSuite):
        @pytest.fixture
        def store(self) -> Iterator[EpisodeStore]:
            store = MyStore(new_empty_database())
            yield store
            store.close()

A second fixture, `reopen`, closes that store and opens its database again; without it the tests
of what outlives the object are skipped. A test is never left out for one adapter: where it cannot
pass, mark it as an expected failure, with the reason.
"""

from __future__ import annotations

from .append import AppendTests, IdempotencyTests, TargetTests
from .atomic import AtomicityTests, ConcurrentAppendTests
from .audit import AuditTests
from .close import ArchiveTests, CloseTests, PutSummaryTests, TouchTests
from .content import MessageTests, TimeTests
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
from .holds import HoldTests, LeadTests
from .index_turns import MakeFindableTests, UnfindableStageTests, UnfindableTests
from .isolation import IsolationTests, LookAlikeTests
from .ledger import LedgerLifeTests, LedgerTests
from .mirror import MirrorRemovalTests, MirrorTests, UnindexedTests
from .recall_rows import ModelTests, RecallRowTests, RecallStateTests, VectorTests
from .removals import ErasureTests, OwnRowsTests, RemovalTests
from .restore import RestoreTests, StageEntryTests
from .retention import AgedTests, ColdArchiveTests, DeleteTests, PurgeTests
from .scrub import RewriteTests, StoredTests
from .scrub_rewrite import RewriteMirrorTests, RewriteRefusalTests, RewrittenMeanwhileTests
from .sessions import MessageKeyTests, ResetTests, SessionListTests, UnindexedTurnTests
from .tenant import KeyTests, TenantReadTests
from .transfer import BringTests, KeptTests
from .transfer_whole import ConfigTests, LifeTests, StatsTests
from .turn_removal import TurnRemovalTests
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
    UnfindableTests,
    MakeFindableTests,
    UnfindableStageTests,
    ClaimTests,
    LeaseTests,
    BacklogTests,
    MirrorTests,
    MirrorRemovalTests,
    UnindexedTests,
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
    KeptTests,
    BringTests,
    FactTests,
    BetterFactsTests,
    FactLifeTests,
    FactAtomicityTests,
    FactIsolationTests,
    TurnRemovalTests,
    LedgerTests,
    LedgerLifeTests,
    MessageKeyTests,
    ResetTests,
    SessionListTests,
    UnindexedTurnTests,
):
    """The contract of `EpisodeStore`, sentence by sentence."""
