"""Reindexing beside the index that answers: a queue of slices, and the function that processes them."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import answering_models, rights, warm_words
from infra.constructs.code import LayerSource
from infra.constructs.queues import dead_letter_queue, work_queue
from infra.constructs.use_case_function import FunctionSpec, SearchEngine, UseCaseFunction, arns_of, common_settings
from infra.names import REBUILDS, REBUILDS_FAILED, Names
from opx.ports.tables import DOCUMENTS, EMBEDDINGS, KEYS, LIFECYCLE, PROJECTS

REBUILD_INDEX = FunctionSpec(
    use_case="rebuild_index",
    dependencies="ingest",
    description="Builds a new index while the old one stays in use",
    memory=1024,
    timeout=900,  # a new index takes hours, and continues in the next invocation
)


class RebuildIndex(Construct):
    """A message starts it, and each time-boxed slice sends the next one. The message of a killed function is delivered again
    after the function's lease of the job has expired."""

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, collection: SearchEngine, source: LayerSource
    ) -> None:
        super().__init__(scope, construct_id)
        self.failed = dead_letter_queue(self, "Failed", names.queue(REBUILDS_FAILED), of="the queue of rebuilds")
        self.slices = work_queue(
            self,
            "Turns",
            names.queue(REBUILDS),
            dead_letters=self.failed,
            receives=3,
            visibility=Duration.seconds(2 * REBUILD_INDEX.timeout + 60),
        )
        self.rebuild = UseCaseFunction(
            self,
            REBUILD_INDEX,
            names=names,
            source=source,
            settings={
                **common_settings(names, collection),
                "corpus_bucket": names.corpus_bucket,
                "rebuild_queue_url": self.slices.queue_url,
                **answering_models.writing_settings(names),
                **warm_words.settings(names),
            },
            rights=_rights(names, collection, self.slices.queue_arn),
            folders=(*rights.CHUNK_FOLDERS, *warm_words.folders(names)),
        )
        self.rebuild.consume(self.slices, max_concurrency=2, report_failures=False)
        rights.acknowledge_texts(self.rebuild.role, names)
        CfnOutput(self, "RebuildsQueueUrl", value=self.slices.queue_url)


def _rights(names: Names, collection: SearchEngine, slices: str) -> list[iam.PolicyStatement]:
    """Rights of the function: of the corpus, it reads only chunks, and replaces segments of words; of the catalog, it writes
    only claims and the corpus's change counter."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, rights.CHUNK_FOLDERS, ["s3:GetObject"]),
        rights.on_tables(names, (DOCUMENTS, EMBEDDINGS, KEYS, LIFECYCLE), rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:PutItem")),
        rights.use_collections(*arns_of(collection)),
        *rights.embed_texts(names),
        rights.allow(["sqs:SendMessage"], slices),
        *warm_words.making_rights(names),
    ]
