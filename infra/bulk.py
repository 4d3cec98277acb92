"""Bulk ingestion and reindexing: a state machine, the function of its stages, and the role of batch inference."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import answering_models, batch_inference, bulk_jobs, managed_search, rights, secret_originals
from infra.constructs.batch_inference import FOLDER, BatchInferenceRole
from infra.constructs.bulk_machine import BulkMachine
from infra.constructs.code import LayerSource
from infra.constructs.ingesting import ingesting_settings
from infra.constructs.use_case_function import (
    FindEngine,
    FunctionSpec,
    SearchEngine,
    UseCaseFunction,
    arns_of,
)
from infra.ingestion import WRITTEN_TABLES, acknowledge_reading, reading_rights
from infra.names import REBUILDS, Names
from opx.ports.tables import ANNOUNCEMENTS, PROJECTS

_FOLDERS = (*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS, FOLDER)

BULK_STAGE = FunctionSpec(
    use_case="bulk_stage",
    dependencies="ingest",
    description="Processes a shard of a bulk job, or does one turn of it",
    memory=2048,
    timeout=900,
)


class BulkStack(Stack):
    """Costs nothing while no job runs. Jobs are started by the function behind the HTTP API, or by `opx bulk start`."""

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
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: bulk ingestion and reindexing")
        collection = engine(self)
        self.batch_role = BatchInferenceRole(self, "BatchInference", names=names)
        self.stage = UseCaseFunction(
            self,
            BULK_STAGE,
            names=names,
            source=source,
            settings={
                **ingesting_settings(names, collection),
                "rebuild_queue_url": names.queue_url(REBUILDS),
                **bulk_jobs.settings(names),
            },
            rights=_rights(names, collection),
            folders=_FOLDERS,
        )
        acknowledge_reading(self.stage, names)
        batch_inference.acknowledge_jobs(self.stage.role)
        self.machine = BulkMachine(self, "Machine", names=names, function_arn=self.stage.target_arn)
        CfnOutput(self, "StateMachine", value=names.state_machine_arn)


def _rights(names: Names, collection: SearchEngine) -> list[iam.PolicyStatement]:
    """Those of ingestion and of reindexing, the folder of bulk jobs, and batch inference. Listing distinguishes a missing
    object (404) from a forbidden one (403), and finds documents."""
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, (*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS), ["s3:GetObject"]),
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, rights.READ_ATTESTATIONS),
        rights.on_objects(names, rights.CHUNK_FOLDERS, ["s3:AbortMultipartUpload", "s3:PutObject"]),
        bulk_jobs.working_files(names),
        rights.on_tables(names, WRITTEN_TABLES, rights.READ_ITEMS + rights.WRITE_ITEMS),
        rights.on_tables(names, (PROJECTS,), (*rights.READ_ITEMS, "dynamodb:PutItem")),
        rights.allow(["dynamodb:DeleteItem"], names.table_arn(ANNOUNCEMENTS)),
        rights.use_collections(*arns_of(collection)),
        *rights.embed_texts(names),
        *batch_inference.starting_rights(names),
        rights.allow(["sqs:SendMessage"], *map(names.queue_arn, ("ingest", REBUILDS))),
        *reading_rights(names),
        *managed_search.copying_rights(names),
        *answering_models.writing_rights(names),
        *secret_originals.encrypting_rights(names),
    ]
