"""Durable state: the corpus bucket and the tables."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack
from constructs import Construct

from infra import console_choices
from infra.constructs import secret_originals
from infra.constructs.backup_plan import BackupPlan
from infra.constructs.corpus_bucket import CorpusBucket
from infra.constructs.knowledge_table import KnowledgeTable
from infra.names import Names
from opx.ports.tables import ALL_TABLES

_COMMON = "opx-knowledge-"


class StorageStack(Stack):
    """The corpus bucket and every table of the library, with a plan for their backups if that is chosen."""

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: corpus and tables")
        ephemeral = names.deployment.ephemeral
        corpus = CorpusBucket(
            self,
            "Corpus",
            bucket_name=names.corpus_bucket,
            ephemeral=ephemeral,
            origins=console_choices.origins(names.deployment),
        )
        for spec in ALL_TABLES:
            name = spec.name.removeprefix(_COMMON).title()
            table = KnowledgeTable(self, f"{name}Table", spec=spec, table_name=names.table(spec), ephemeral=ephemeral)
            table.node.add_dependency(corpus)  # whose name may be taken: then no table should be created
        if names.deployment.encrypts_originals:
            secret_originals.add_key(self, names=names)
        if names.deployment.backup == "daily":
            BackupPlan(self, "Backup", names=names)
        CfnOutput(self, "CorpusBucket", value=corpus.bucket.bucket_name)
