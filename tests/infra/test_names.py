"""Physical names of environments."""

from __future__ import annotations

import pytest
from aws_cdk import Aws

from infra.configuration import Deployment
from infra.names import Names
from opx.ports.tables import ALL_TABLES, DOCUMENTS

LONGEST_ENVIRONMENT = "a123456789"
LONGEST_REGION = "ap-southeast-1"


def names(environment: str, **more: str) -> Names:
    return Names(Deployment(environment=environment, **more))  # type: ignore[arg-type]


def test_the_plain_environment_has_the_names_that_users_know() -> None:
    plain = names("prod")
    assert plain.table(DOCUMENTS) == "opx-knowledge-documents"
    assert plain.corpus_bucket == "opx-knowledge-corpus"
    assert plain.prefix == ""


def test_another_environment_puts_its_name_before() -> None:
    assert names("dev").table(DOCUMENTS) == "dev-opx-knowledge-documents"
    assert names("dev").prefix == "dev-"


def test_the_bucket_of_another_environment_names_account_and_region() -> None:
    assert names("dev").corpus_bucket == f"dev-opx-knowledge-corpus-{Aws.ACCOUNT_ID}-{Aws.REGION}"


def test_a_given_bucket_name_wins() -> None:
    assert names("prod", corpus_bucket="acme-knowledge").corpus_bucket == "acme-knowledge"


def test_two_environments_share_no_name() -> None:
    def all_names(environment: str) -> set[str]:
        those = names(environment)
        tables = {those.table(spec) for spec in ALL_TABLES}
        single = {those.corpus_bucket, those.collection, those.stack("storage"), those.queue("ingest")}
        return tables | single | {those.function("ingest_documents"), those.role("ingest_documents")}

    assert not all_names("one") & all_names("two")


@pytest.mark.parametrize("kind", ["read", "write", "manage"])
def test_an_access_policy_of_the_longest_environment_fits_into_32_characters(kind: str) -> None:
    assert len(names(LONGEST_ENVIRONMENT).access_policy(kind)) <= 32


def test_a_bucket_of_the_longest_environment_fits_into_63_characters() -> None:
    bucket = names(LONGEST_ENVIRONMENT).corpus_bucket
    assert len(bucket.replace(Aws.ACCOUNT_ID, "1" * 12).replace(Aws.REGION, LONGEST_REGION)) <= 63


def test_a_role_of_the_longest_environment_fits_into_64_characters() -> None:
    role = names(LONGEST_ENVIRONMENT).role("retrieve_knowledge")
    assert len(role.replace(Aws.REGION, LONGEST_REGION)) <= 64
