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

from .store_suite_append import AppendTests, IdempotencyTests, TargetTests
from .store_suite_atomic import AtomicityTests, ConcurrentAppendTests
from .store_suite_audit import AuditTests
from .store_suite_close import ArchiveTests, CloseTests, PutSummaryTests, TouchTests
from .store_suite_content import MessageTests, TimeTests
from .store_suite_erasing import EraseTests
from .store_suite_fact_life import FactLifeTests
from .store_suite_facts import (
    BetterFactsTests,
    FactAtomicityTests,
    FactIsolationTests,
    FactTests,
)
from .store_suite_findable import MakeFindableTests, UnfindableStageTests, UnfindableTests
from .store_suite_holding import HoldTests, LeadTests
from .store_suite_isolation import IsolationTests, LookAlikeTests
from .store_suite_keeping import (
    AgedTests,
    ColdArchiveTests,
    DeleteTests,
    PurgeTests,
)
from .store_suite_mirror import MirrorRemovalTests, MirrorTests, UnindexedTests
from .store_suite_portable import BringTests, KeptTests
from .store_suite_reads import (
    EpisodeReadTests,
    ListTests,
    OpenEpisodesTests,
    SessionReadTests,
    TurnReadTests,
)
from .store_suite_recall import ModelTests, RecallRowTests, RecallStateTests, VectorTests
from .store_suite_removals import ErasureTests, OwnRowsTests, RemovalTests
from .store_suite_restore import RestoreTests, StageEntryTests
from .store_suite_rewriting import (
    RewriteMirrorTests,
    RewriteRefusalTests,
    RewrittenMeanwhileTests,
)
from .store_suite_scrubbing import RewriteTests, StoredTests
from .store_suite_tenant import KeyTests, TenantReadTests
from .store_suite_whole import ConfigTests, LifeTests, StatsTests
from .store_suite_work import BacklogTests, ClaimTests, LeaseTests


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
):
    """The contract of `EpisodeStore`, sentence by sentence."""
