"""The function that seals what is stored each night, and the secret for the key that it signs with."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge
from infra.constructs.code import LayerSource
from infra.constructs.schedules import invocations
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, table_settings
from infra.names import Names
from opx.ports.tables import ANNOUNCEMENTS, DOCUMENTS, KEYS, LIFECYCLE
from opx.settings import DEPLOYED_KEY
from opx_assurance.archive.exporting import ARCHIVED

SEAL_KNOWLEDGE = FunctionSpec(
    use_case="seal_knowledge",
    dependencies="ingest",  # it has the library that signs
    description="Seals what is stored, and finds what was altered since the last seal",
    memory=2048,
    timeout=900,
)

SEALED = "cron(10 3-6 * * ? *)"
"""Once a night, and three more times in case a run is out of time: a run after the seal reads one item."""

SEAL_FAILED = "seal-failed"
_NO_ROTATION = (
    "seals of another key are refused until a person accepts it; it is replaced by hand, with put-secret-value"
)

_FOLDERS = (*rights.DOCUMENT_FOLDERS, *rights.CHUNK_FOLDERS)


class NightlySeal(Construct):
    """The function, its schedule, and an empty secret. Nobody but this function may read the secret: it is not below the name
    of those that sources may name."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, source: LayerSource) -> None:
        super().__init__(scope, construct_id)
        secret = secretsmanager.CfnSecret(
            self,
            "SigningKey",
            name=names.signing_key,
            description="Signs the nightly seals: a private key of Ed25519 in PEM form, from `opx seal --new-key`",
        )
        acknowledge(secret, "SMG4", _NO_ROTATION)
        self.seal = UseCaseFunction(
            self,
            SEAL_KNOWLEDGE,
            names=names,
            source=source,
            settings={
                **table_settings(names),
                "corpus_bucket": names.corpus_bucket,
                "signing_key": DEPLOYED_KEY + names.signing_key,
            },
            rights=_rights(names),
            folders=_FOLDERS,
        )
        schedules = invocations(
            self,
            "Schedules",
            names=names,
            function_arn=self.seal.target_arn,
            failed=("Failed", SEAL_FAILED),
            function=self.seal,
        )
        schedules.add("seal-knowledge", SEALED, description="Seal what is stored")


def _rights(names: Names) -> list[iam.PolicyStatement]:
    """It reads everything that an archive has, and writes seals alone. Listing distinguishes a missing object (404) from a
    forbidden one (403)."""
    archived = dict.fromkeys(table.spec for table in ARCHIVED)
    scanned = [spec for spec in archived if spec is not LIFECYCLE]
    return [
        rights.allow(["s3:ListBucket"], names.corpus_arn),
        rights.on_objects(names, _FOLDERS, ["s3:GetObject"]),
        rights.on_tables(names, (DOCUMENTS,), (*rights.READ_ITEMS, "dynamodb:Scan")),
        rights.on_tables(names, (KEYS,), ["dynamodb:BatchGetItem"]),
        rights.on_tables(names, (ANNOUNCEMENTS,), ["dynamodb:Query"]),
        rights.allow(["dynamodb:Scan"], *map(names.table_arn, scanned)),
        rights.on_tables(
            names,
            (LIFECYCLE,),
            ["dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:Scan"],
        ),
        rights.allow(["secretsmanager:GetSecretValue"], names.signing_key_arn),
        rights.send_to(names, SEAL_FAILED),
    ]
