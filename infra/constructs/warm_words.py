"""Settings and rights for segments of the corpus's words, which answer while a sleeping collection wakes up."""

from __future__ import annotations

from aws_cdk import aws_iam as iam

from infra.constructs import rights
from infra.names import Names
from opx.ingestion.indexing.words import FOLDER

FOLDERS = (f"{FOLDER}*",)

MADE = "cron(20 * * * ? *)"
"""Once an hour; takes a second unless the corpus has changed."""


def settings(names: Names) -> dict[str, str]:
    """Settings of the functions that make segments, and that search them."""
    return {"warm_words": "on"} if names.deployment.keeps_words else {}


def folders(names: Names) -> tuple[str, ...]:
    """Folders of the corpus in these rights."""
    return FOLDERS if names.deployment.keeps_words else ()


def reading_rights(names: Names) -> list[iam.PolicyStatement]:
    """Right to read segments; the function may list the corpus already."""
    return [rights.on_objects(names, FOLDERS, ["s3:GetObject"])] if names.deployment.keeps_words else []


def making_rights(names: Names) -> list[iam.PolicyStatement]:
    """Rights to replace segments."""
    actions = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject")
    return [rights.on_objects(names, FOLDERS, actions)] if names.deployment.keeps_words else []
