"""What makes a new index beside the one that answers: a queue of turns, and the function that takes them."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda_event_sources as event_sources
from constructs import Construct

from infra.constructs import answering_models, rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.hybrid_index import SearchEngine
from infra.constructs.queues import SET_ASIDE_DAYS, dead_letter_queue, work_queue
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, common_settings
from infra.names import REBUILDS, REBUILDS_FAILED, Names
from opx.ports.tables import DOCUMENTS, EMBEDDINGS, KEYS, LIFECYCLE, PROJECTS

REBUILD_INDEX = FunctionSpec(
    use_case="rebuild_index",
    dependencies="ingest",
    description="Makes a new index while the old one answers",
    memory=1024,
    timeout=900,  # a new index takes hours, and goes on in the next invocation
)

_CHUNKS = ("chunks/*", "clients/*/chunks/*")


class RebuildIndex(Construct):
    """A message begins it, and each turn sends the next one. A message whose function was killed comes again after the
    function's hold on the work has ended."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, collection: SearchEngine, source: LayerSource
    ) -> None:
        super().__init__(scope, construct_id)
        self.failed = dead_letter_queue(self, "Failed", names.queue(REBUILDS_FAILED), of="the queue of rebuilds")
        self.turns = work_queue(
            self,
            "Turns",
            names.queue(REBUILDS),
            dead_letters=self.failed,
            receives=3,
            visibility=Duration.seconds(2 * REBUILD_INDEX.timeout + 60),
            kept_days=SET_ASIDE_DAYS,
        )
        self.rebuild = UseCaseFunction(
            self,
            "RebuildIndex",
            spec=REBUILD_INDEX,
            names=names,
            source=source,
            settings={
                **common_settings(names, collection.endpoint),
                "corpus_bucket": names.corpus_bucket,
                "rebuild_queue_url": self.turns.queue_url,
                **answering_models.writing_settings(names),
            },
            rights=_rights(names, collection, self.turns.queue_arn),
        )
        self.rebuild.function.add_event_source(
            event_sources.SqsEventSource(self.turns, batch_size=1, max_concurrency=2)
        )
        for folder in _CHUNKS:
            reason = "objects have no names known at deployment; the folders are those of chunks"
            acknowledge_wildcard(self.rebuild.role, f"{names.corpus_arn}/{folder}", reason)
        rights.acknowledge_texts(self.rebuild.role, names)
        CfnOutput(self, "RebuildsQueueUrl", value=self.turns.queue_url)


def _rights(names: Names, collection: SearchEngine, turns: str) -> list[iam.PolicyStatement]:
    """Of the corpus, chunks are read and nothing else; of the catalog, only claims are written, and how often the corpus
    changed."""
    bucket = names.corpus_arn
    return [
        rights.allow(["s3:ListBucket"], bucket),
        rights.allow(["s3:GetObject"], *(f"{bucket}/{folder}" for folder in _CHUNKS)),
        rights.on_tables(names, (DOCUMENTS, EMBEDDINGS, KEYS, LIFECYCLE), rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:PutItem")),
        rights.use_collection(collection.arn),
        *rights.embed_texts(names),
        rights.allow(["sqs:SendMessage"], turns),
    ]
