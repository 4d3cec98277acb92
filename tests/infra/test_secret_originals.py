"""The choice to encrypt originals of documents with masked secrets: its key, and rights that exist with the choice alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import boto3
import pytest

from infra.constructs.secret_originals import KEY_CHARACTERS
from opx.ingestion.originals import OriginalsKey, OriginalsProtection, OriginalState
from opx.settings import ENCRYPT, Settings
from opx_aws.ports import S3Storage
from tests.infra.templates import Assembly, lint_findings, listed
from tests.infra.test_functions import environment
from tests.infra.test_ingestion import BUCKET
from tests.support.webhook_support import SecretsInMemory

NAME = "dev-opx-originals/key"
SECRET = f"arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:{NAME}"
KEY = "documents/runbooks/vault.md"
ERASE, DOCUMENTS = "s3:DeleteObjectVersion", f"{BUCKET}/documents/*"

Pair = tuple[str, str]


@pytest.fixture(scope="module")
def encrypting(make: Callable[..., Assembly]) -> Assembly:
    return make(secret_originals="encrypt", webhooks="true")


def rights_by_role(assembly: Assembly) -> dict[str, set[Pair]]:
    """Actions and resources of each role, by stack and logical id of its policy."""
    found = dict[str, set[Pair]]()
    for stack, name, resource in assembly.all_resources():
        if resource["Type"] == "AWS::IAM::Policy":
            statements = resource["Properties"]["PolicyDocument"]["Statement"]
            found[f"{stack} {name}"] = {
                (action, arn)
                for one in statements
                for action in listed(one["Action"])
                for arn in listed(one["Resource"])
            }
    return found


def roles_with(assembly: Assembly, action: str, resource: str) -> list[str]:
    """Stacks of the roles that may do this."""
    return [
        role.partition(" ")[0]
        for role, rights in rights_by_role(assembly).items()
        if any(action == may and fnmatchcase(resource, pattern) for may, pattern in rights)
    ]


def test_by_default_there_is_no_key_and_no_right_to_erase_versions(default: Assembly) -> None:
    assert default.resources("storage", "SecretsManager::Secret") == {}
    assert roles_with(default, ERASE, DOCUMENTS) == []
    assert "OPX_SECRET_ORIGINALS" not in environment(default, "ingestion")
    assert ("s3:PutObject", DOCUMENTS) not in ingestion_rights(default)
    assert "s3:ListBucketVersions" not in {action for action, _ in ingestion_rights(default)}


def test_the_key_is_retained_with_the_bucket_that_it_decrypts(encrypting: Assembly) -> None:
    (secret,) = encrypting.resources("storage", "SecretsManager::Secret").values()
    assert secret["Name"] == NAME
    assert secret["GenerateSecretString"] == {"PasswordLength": KEY_CHARACTERS, "ExcludePunctuation": True}
    resources = (one for _, _, one in encrypting.all_resources() if one["Type"] == "AWS::SecretsManager::Secret")
    (whole,) = [one for one in resources if one["Properties"]["Name"] == NAME]
    assert whole["DeletionPolicy"] == "RetainExceptOnCreate"
    assert whole["UpdateReplacePolicy"] == "Retain"
    assert lint_findings(encrypting, "storage") == []


def test_a_generated_secret_is_a_key() -> None:
    secrets = SecretsInMemory()
    secrets.values[NAME] = ("aZ9" * KEY_CHARACTERS)[:KEY_CHARACTERS]
    assert len(OriginalsKey(lambda: secrets, NAME)()) == 32


def test_ingestion_alone_reads_the_key_and_erases_versions(encrypting: Assembly) -> None:
    assert roles_with(encrypting, "secretsmanager:GetSecretValue", f"{SECRET}-aBcDeF") == ["ingestion"]
    assert roles_with(encrypting, ERASE, DOCUMENTS) == ["ingestion"]
    settings = Settings.from_environ(environment(encrypting, "ingestion"))
    assert (settings.secret_originals, settings.originals_key) == (ENCRYPT, NAME)


def test_the_function_that_lists_originals_knows_the_choice(encrypting: Assembly) -> None:
    assert Settings.from_environ(environment(encrypting, "api")).secret_originals == ENCRYPT
    assert "OPX_ORIGINALS_KEY" not in environment(encrypting, "api")


def test_whoever_reads_documents_reads_their_tags(encrypting: Assembly) -> None:
    readers = roles_with(encrypting, "s3:GetObject", f"{BUCKET}/{KEY}")
    assert {"ingestion", "api", "retrieval", "sources", "lifecycle"} <= set(readers)
    assert readers == roles_with(encrypting, "s3:GetObjectTagging", f"{BUCKET}/{KEY}")


def ingestion_rights(assembly: Assembly) -> set[Pair]:
    return next(rights for role, rights in rights_by_role(assembly).items() if role.startswith("ingestion "))


# -- the calls of the function


class Recorder:
    """Records the rights that calls of S3 take, after "Required permissions for Amazon S3 API operations"."""

    def __init__(self) -> None:
        self.wanted = set[Pair]()

    def note(self, params: Mapping[str, Any], model: Any, **_: object) -> None:
        version = "Version" if "VersionId" in params else ""
        found = {
            "DeleteObject": [f"DeleteObject{version}"],
            "GetObject": [f"GetObject{version}"],
            "GetObjectTagging": [f"GetObject{version}Tagging"],
            "HeadObject": [f"GetObject{version}"],
            "PutObject": ["PutObject", *(["PutObjectTagging"] if "Tagging" in params else [])],
        }
        if model.name == "ListObjectVersions":
            self.wanted.add(("s3:ListBucketVersions", BUCKET))
            return
        self.wanted |= {(f"s3:{action}", f"{BUCKET}/{params['Key']}") for action in found[model.name]}


def test_ingestion_may_do_all_that_encrypting_takes(encrypting: Assembly, aws: boto3.Session) -> None:
    client: Any = aws.client("s3")
    client.create_bucket(Bucket="corpus", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    client.put_bucket_versioning(Bucket="corpus", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"old secret", b"new secret"):
        client.put_object(Bucket="corpus", Key=KEY, Body=body)
    recorder = Recorder()
    client.meta.events.register("provide-client-params.s3", recorder.note)
    storage = S3Storage("corpus", lambda *_, **__: client)
    originals = OriginalsProtection(storage.objects, storage.replaceable, lambda: b"k" * 32)
    assert originals.protect(KEY)
    assert originals.state(KEY) is OriginalState.ENCRYPTED
    assert storage.objects.head(KEY) is not None
    assert {ERASE, "s3:ListBucketVersions", "s3:PutObjectTagging"} <= {action for action, _ in recorder.wanted}
    rights = ingestion_rights(encrypting)
    assert [
        (action, resource)
        for action, resource in sorted(recorder.wanted)
        if not any(action == may and fnmatchcase(resource, pattern) for may, pattern in rights)
    ] == []
