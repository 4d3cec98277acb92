"""The ledger of announced changes: rule, queue, and the function that keeps it and announces lost changes again."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import rights
from infra.constructs.code import LayerSource
from infra.constructs.ingest_queue import RECEIVES, VISIBILITY_TIMEOUTS, document_changes
from infra.constructs.queues import dead_letter_queue, work_queue
from infra.constructs.schedules import Schedules, keep_failed_calls
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, table_settings
from infra.names import Names
from opx.ingestion.corpus.announcements import ANNOUNCE_AGAIN, DELAY_SECONDS
from opx.ports.tables import ANNOUNCEMENTS, FAILURES, KEYS

RECORD_ANNOUNCEMENTS = FunctionSpec(
    use_case="record_announcements",
    dependencies="api",
    description="Keeps the ledger of announced changes, and announces lost ones again",
    memory=512,
    timeout=900,
)

QUEUE, FAILED = "announcements", "announcements-failed"
EVENTS_A_BATCH, WINDOW = 1000, Duration.seconds(60)
"""Most batches are far smaller: most changes are ingested before their announcement is delivered."""

AT_ONCE = 2
"""Batches that are recorded at the same time. Lambda accepts no smaller number."""

CHECKED = "cron(50 0/6 * * ? *)"
"""Four times a day: a change is announced again on the day on which its message is found to be lost, and a run that is out
of time is continued six hours later."""

KEEP_LEDGER = (
    "dynamodb:BatchWriteItem",
    "dynamodb:DeleteItem",
    "dynamodb:GetItem",
    "dynamodb:PutItem",
    "dynamodb:Query",
)


class AnnouncementLedger(Construct):
    """Announcements of changed documents, beside the queue of changes: delivered after `DELAY_SECONDS`, recorded unless
    the change was ingested by then. They don't depend on the queue of changes, nor does it depend on them."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, source: LayerSource) -> None:
        super().__init__(scope, construct_id)
        of = "the queue of announcements, its rule and schedule, and of failed calls"
        self.failed = dead_letter_queue(self, "Failed", names.queue(FAILED), of=of)
        self.queue = work_queue(
            self,
            "Queue",
            names.queue(QUEUE),
            dead_letters=self.failed,
            receives=RECEIVES,
            visibility=Duration.seconds(VISIBILITY_TIMEOUTS * RECORD_ANNOUNCEMENTS.timeout),
            delay=Duration.seconds(DELAY_SECONDS),
        )
        self.rule = events.Rule(
            self,
            "DocumentChanged",
            description="The changes that are ingested, for the ledger",
            event_pattern=document_changes(names.corpus_bucket),
            targets=[targets.SqsQueue(self.queue, dead_letter_queue=self.failed)],
        )
        self.record = UseCaseFunction(
            self,
            RECORD_ANNOUNCEMENTS,
            names=names,
            source=source,
            settings={
                **table_settings(names),
                "corpus_bucket": names.corpus_bucket,
                "ingest_queue_url": names.queue_url("ingest"),
            },
            rights=_rights(names),
            folders=rights.DOCUMENT_FOLDERS,
        )
        self.record.consume(
            self.queue, batch_size=EVENTS_A_BATCH, window=WINDOW, max_concurrency=AT_ONCE, report_failures=False
        )
        self._schedule(names)

    def _schedule(self, names: Names) -> None:
        arn = self.record.target_arn
        keep_failed_calls(self, "FailedCalls", function_arn=arn, queue=self.failed, function=self.record)
        schedules = Schedules(
            self, "Schedules", names=names, target=arn, action="lambda:InvokeFunction", dead_letters=self.failed
        )
        about = "Announce changes again whose messages are lost"
        schedules.add("announce-again", CHECKED, description=about, payload=ANNOUNCE_AGAIN)


def _rights(names: Names) -> list[iam.PolicyStatement]:
    return [
        rights.on_tables(names, (ANNOUNCEMENTS,), KEEP_LEDGER),
        rights.allow(["dynamodb:BatchGetItem"], names.table_arn(FAILURES), names.table_arn(KEYS)),
        rights.look_clients_up(names),
        rights.allow(["s3:ListBucket"], names.corpus_arn),  # a missing object is 404 then, not 403
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, ["s3:GetObject"]),
        rights.allow(["sqs:GetQueueAttributes", "sqs:SendMessage"], names.queue_arn("ingest")),
        rights.send_to(names, FAILED),
    ]
