"""Encryption of originals of documents with masked secrets, if it is chosen: the key, and the rights to use it."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge
from infra.constructs.keeping import removal_policy
from infra.names import Names

KEY_CHARACTERS = 43
"""Letters and digits that are base64 of 32 bytes."""

_NO_ROTATION = "originals that are encrypted with it could not be read with another one"


def add_key(scope: Construct, *, names: Names) -> None:
    """The key, in the stack of what it decrypts: it is retained as the bucket is. CloudFormation makes another one when the
    parameters of its generation change."""
    secret = secretsmanager.CfnSecret(
        scope,
        "OriginalsKey",
        name=names.originals_secret,
        description="Encrypts originals of documents with masked secrets: without it they can't be ingested again",
        generate_secret_string=secretsmanager.CfnSecret.GenerateSecretStringProperty(
            password_length=KEY_CHARACTERS, exclude_punctuation=True
        ),
    )
    secret.apply_removal_policy(removal_policy(ephemeral=names.deployment.ephemeral))
    acknowledge(secret, "SMG4", _NO_ROTATION)


def choice(names: Names) -> dict[str, str]:
    """The setting of functions that list originals, or encrypt them."""
    deployment = names.deployment
    return {"secret_originals": deployment.secret_originals} if deployment.encrypts_originals else {}


def encrypting_settings(names: Names) -> dict[str, str]:
    """Settings of the function that encrypts them."""
    return {**choice(names), "originals_key": names.originals_secret} if names.deployment.encrypts_originals else {}


def encrypting_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to replace documents by their ciphertext, and to erase their earlier versions."""
    if not names.deployment.encrypts_originals:
        return []
    replace = ["s3:DeleteObjectVersion", "s3:GetObjectVersion", "s3:PutObject", "s3:PutObjectTagging"]
    return [
        rights.allow(["secretsmanager:GetSecretValue"], names.originals_secret_arn),
        rights.allow(["s3:ListBucketVersions"], names.corpus_arn),
        rights.on_objects(names, rights.DOCUMENT_FOLDERS, replace),
    ]
