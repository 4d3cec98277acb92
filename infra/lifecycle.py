"""Retention, reindexing, seals and the ledger of announced changes, with their functions."""

from __future__ import annotations

import json

from aws_cdk import Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import managed_search, rights, warm_words
from infra.constructs.announcement_ledger import AnnouncementLedger
from infra.constructs.code import LayerSource
from infra.constructs.nightly_seal import NightlySeal
from infra.constructs.rebuild_index import RebuildIndex
from infra.constructs.schedules import Schedules, invocations
from infra.constructs.use_case_function import (
    FindEngine,
    FunctionSpec,
    SearchEngine,
    UseCaseFunction,
    arns_of,
    common_settings,
)
from infra.names import Names
from opx.lifecycle.reindex.reindexing import CALIBRATE_IF_DUE
from opx.lifecycle.warm_words import WARM_WORDS
from opx.ports.tables import CALENDAR, DOCUMENTS, ENTRIES, GRAPH, KEYS, LIFECYCLE, PATTERNS, PROJECTS, USES

PRUNE_KNOWLEDGE = FunctionSpec(
    use_case="prune_knowledge",
    dependencies="ingest",  # entries are removed from the index as in ingestion
    description="Removes versions past their retention",
    memory=1024,
    timeout=900,
)

PRUNED = "cron(30 2-5 * * ? *)"
"""Once a night, and three more times in case a run is out of time: a run without work reads only a few items."""

PRUNE_FAILED = "prune-failed"

CALIBRATED = "cron(0 6 * * ? *)"
"""Once a day; takes a second if no calibration is due."""

CHANGED_TABLES = (CALENDAR, DOCUMENTS, ENTRIES, GRAPH, KEYS, LIFECYCLE, PATTERNS)

_FOLDERS = (*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS)


class LifecycleStack(Stack):
    """The function that prunes expired documents once a day, and the one that builds new indexes on request, calibrates once
    a day if due, and keeps the segment of words; nightly seals; the ledger of announced changes. The schedules are in the
    sources stack's group."""

    def __init__(
        self,
        scope: Construct,
        stack_id: str,
        *,
        names: Names,
        engine: FindEngine,
        source: LayerSource,
        env: Environment,
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: retention and new indexes")
        collection = engine(self)
        self.prune = self._prune(names, collection, source)
        schedules = invocations(
            self,
            "Schedules",
            names=names,
            function_arn=self.prune.target_arn,
            failed=("PruneFailed", PRUNE_FAILED),
            function=self.prune,
        )
        schedules.add("prune-knowledge", PRUNED, description="Remove versions past their retention")
        self.rebuild = RebuildIndex(self, "Rebuild", names=names, collection=collection, source=source)
        self._schedule_messages(names)
        self.seal = NightlySeal(self, "Seal", names=names, source=source)
        self.ledger = AnnouncementLedger(self, "Ledger", names=names, source=source)

    def _prune(self, names: Names, collection: SearchEngine, source: LayerSource) -> UseCaseFunction:
        function = UseCaseFunction(
            self,
            PRUNE_KNOWLEDGE,
            names=names,
            source=source,
            settings={
                **common_settings(names, collection),
                "corpus_bucket": names.corpus_bucket,
                **managed_search.copying_settings(names),
            },
            rights=_pruning_rights(names, collection),
            folders=_FOLDERS,
        )
        managed_search.acknowledge_copies(function.role, names)
        return function

    def _schedule_messages(self, names: Names) -> None:
        """Schedules of messages to the function that builds indexes."""
        schedules = Schedules(
            self,
            "CalibrationSchedules",
            names=names,
            target=self.rebuild.slices.queue_arn,
            action="sqs:SendMessage",
            dead_letters=self.rebuild.failed,
        )
        schedules.add(
            "calibrate-confidence",
            CALIBRATED,
            description="Calibrate confidence on the corpus when due",
            payload=json.loads(CALIBRATE_IF_DUE),
        )
        if names.deployment.keeps_words:
            schedules.add(
                "make-warm-words",
                warm_words.MADE,
                description="Make the segment of words anew when the corpus has changed",
                payload=json.loads(WARM_WORDS),
            )


def _pruning_rights(names: Names, collection: SearchEngine) -> list[iam.PolicyStatement]:
    """Chunk files list the index entries of a version. Listing distinguishes a missing object (404) from a forbidden one
    (403), and returns when a file was written."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, _FOLDERS, ["s3:DeleteObject", "s3:GetObject"]),
        rights.on_tables(names, CHANGED_TABLES, rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, (PROJECTS,), ["dynamodb:BatchGetItem", "dynamodb:PutItem"]),
        rights.on_tables(names, (USES,), ["dynamodb:BatchGetItem"]),
        rights.use_collections(*arns_of(collection)),
        rights.send_to(names, PRUNE_FAILED),
        *managed_search.copying_rights(names),
    ]
