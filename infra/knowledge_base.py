"""A Bedrock Knowledge Base over copies of the corpus's chunks, as a second search engine."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, Environment, Stack
from aws_cdk import aws_bedrock as bedrock
from constructs import Construct

from infra.constructs import managed_index, managed_search, rights
from infra.constructs.code import LayerSource
from infra.constructs.knowledge_base_role import KnowledgeBaseRole
from infra.constructs.managed_search import ManagedBase
from infra.constructs.queues import dead_letter_queue, work_queue
from infra.constructs.use_case_function import FindEngine, FunctionSpec, UseCaseFunction
from infra.names import Names
from opx_aws.bedrock_embedder import DEFAULT_MODEL
from opx_aws.knowledge_base_objects import COPIES_FOLDER

RECEIVES = 100
"""Deliveries of a request to index: for about seven hours, which a job over a large corpus may take."""

WINDOW_SECONDS = 60
"""Seconds for which requests are batched; one ingestion job answers a batch."""

SYNC_KNOWLEDGE_BASE = FunctionSpec(
    use_case="sync_knowledge_base",
    dependencies="api",
    description="Starts ingestion jobs of the knowledge base after changes",
    memory=512,
    timeout=30,
)
VISIBILITY_SECONDS = 6 * SYNC_KNOWLEDGE_BASE.timeout + WINDOW_SECONDS
"""Also the time after which a request that came during a job is delivered again."""


class KnowledgeBaseStack(Stack):
    """The knowledge base, its data source, and the function that starts ingestion jobs, one after the other."""

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
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: managed knowledge base")
        collection = engine(self)
        self._names = names
        self.role = KnowledgeBaseRole(self, "Role", names=names, model=DEFAULT_MODEL, collection_arn=collection.arn)
        base = self._knowledge_base(collection.arn)
        data_source = self._data_source(base)
        self.base = ManagedBase(base.attr_knowledge_base_id, base.attr_knowledge_base_arn)
        self.sync = self._sync(source, data_source.attr_data_source_id)
        CfnOutput(self, "KnowledgeBaseId", value=self.base.id)
        CfnOutput(self, "DataSourceId", value=data_source.attr_data_source_id)

    def _knowledge_base(self, collection_arn: str) -> bedrock.CfnKnowledgeBase:
        """Hybrid search needs a vector store with a field for text: OpenSearch Serverless has one and scales to zero."""
        kinds = bedrock.CfnKnowledgeBase
        fields = kinds.OpenSearchServerlessFieldMappingProperty(
            vector_field=managed_index.VECTOR_FIELD,
            text_field=managed_index.TEXT_FIELD,
            metadata_field=managed_index.METADATA_FIELD,
        )
        store = kinds.OpenSearchServerlessConfigurationProperty(
            collection_arn=collection_arn, vector_index_name=managed_index.INDEX_NAME, field_mapping=fields
        )
        (model_arn,) = rights.model_arns(DEFAULT_MODEL)
        vectors = kinds.VectorKnowledgeBaseConfigurationProperty(embedding_model_arn=model_arn)
        base = kinds(
            self,
            "KnowledgeBase",
            name=self._names.system,
            description="Chunks of the OPX Knowledge corpus",
            role_arn=self.role.role.role_arn,
            knowledge_base_configuration=kinds.KnowledgeBaseConfigurationProperty(
                type="VECTOR", vector_knowledge_base_configuration=vectors
            ),
            storage_configuration=kinds.StorageConfigurationProperty(
                type="OPENSEARCH_SERVERLESS", opensearch_serverless_configuration=store
            ),
        )
        base.node.add_dependency(self.role)  # with its policy: the service tries the index when it is created
        return base

    def _data_source(self, base: bedrock.CfnKnowledgeBase) -> bedrock.CfnDataSource:
        """The copies as data source, each one chunk. Indexed copies are deleted with the index, not with the data source."""
        kinds = bedrock.CfnDataSource
        chunking = kinds.ChunkingConfigurationProperty(chunking_strategy="NONE")
        return kinds(
            self,
            "DataSource",
            name=f"{self._names.system}-chunks",
            knowledge_base_id=base.attr_knowledge_base_id,
            data_deletion_policy="RETAIN",
            data_source_configuration=kinds.DataSourceConfigurationProperty(
                type="S3",
                s3_configuration=kinds.S3DataSourceConfigurationProperty(
                    bucket_arn=self._names.corpus_arn, inclusion_prefixes=[COPIES_FOLDER]
                ),
            ),
            vector_ingestion_configuration=kinds.VectorIngestionConfigurationProperty(chunking_configuration=chunking),
        )

    def _sync(self, source: LayerSource, data_source_id: str) -> UseCaseFunction:
        failed = dead_letter_queue(
            self, "Failed", self._names.queue("sync-failed"), of="the queue of requests to index"
        )
        requests = work_queue(
            self,
            "Requests",
            self._names.queue(managed_search.SYNC_QUEUE),
            dead_letters=failed,
            receives=RECEIVES,
            visibility=Duration.seconds(VISIBILITY_SECONDS),
        )
        sync = UseCaseFunction(
            self,
            SYNC_KNOWLEDGE_BASE,
            names=self._names,
            source=source,
            settings={
                "backend": "aws",
                "knowledge_base_id": self.base.id,
                "data_source_id": data_source_id,
            },
            rights=[rights.allow(["bedrock:ListIngestionJobs", "bedrock:StartIngestionJob"], self.base.arn)],
        )
        sync.consume(
            requests,
            batch_size=1000,
            window=Duration.seconds(WINDOW_SECONDS),
            max_concurrency=2,  # the least that Lambda accepts
        )
        return sync
