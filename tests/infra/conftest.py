"""Synthesised stacks. Starting jsii and synthesising take seconds: each environment is made once a session.

`tests.support.scheduling` has all of these run in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lambdas.retrieve_knowledge.handler import make_handler
from tests.infra.templates import Assembly, synthesise
from tests.support.agent_calls import Handler, a_system
from tests.support.fakes import function_logs


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Assembly]:
    """Synthesise an environment with this context."""

    def made(**context: object) -> Assembly:
        outdir: Path = tmp_path_factory.mktemp("cdk")
        return synthesise(context, outdir)

    return made


@pytest.fixture(scope="session")
def bulk(make: Callable[..., Assembly]) -> Assembly:
    """With bulk jobs."""
    return make(bulk="true", bulk_children="200", batch_most_records="100000")


@pytest.fixture(scope="session")
def default(make: Callable[..., Assembly]) -> Assembly:
    """Templates with default options: environment dev, next-generation search, state retained."""
    return make()


@pytest.fixture(scope="session")
def ephemeral(make: Callable[..., Assembly]) -> Assembly:
    """The other choices: environment prod, classic search, a model behind an inference profile, state not retained."""
    return make(environment="prod", ephemeral="true", search_generation="classic", embedding_model=PROFILE)


@pytest.fixture(scope="session")
def private(make: Callable[..., Assembly]) -> Assembly:
    """A key of its own and a network; ephemeral, so that the key goes with it."""
    return make(kms_key="own", vpc="true", ephemeral="true")


@pytest.fixture(scope="session")
def without_snapstart(make: Callable[..., Assembly]) -> Assembly:
    """Functions without SnapStart and reserved concurrency, and a collection that never sleeps."""
    return make(snapstart="false", query_concurrency="0", ingest_concurrency="0", search_min_ocu="2")


@pytest.fixture(scope="session")
def with_key(make: Callable[..., Assembly]) -> Assembly:
    """A key that exists already, and an address for alarms."""
    return make(kms_key=KEY_ARN, alarm_email="ops@example.org")


@pytest.fixture(scope="session")
def managed(make: Callable[..., Assembly]) -> Assembly:
    """A knowledge base of Bedrock beside our own search."""
    return make(knowledge_base="bedrock")


@pytest.fixture(scope="session")
def least(make: Callable[..., Assembly]) -> Assembly:
    """Neither agent nor API, for one project, with sources in other buckets and on a private host."""
    reached = {"allowed_hosts": "jira.internal", "source_buckets": "docs-of-ops, other"}
    return make(agent="none", api_auth="none", client_id="acme", project_id="shop", **reached)


@pytest.fixture(scope="session")
def tokens(make: Callable[..., Assembly]) -> Assembly:
    """Callers with tokens, of the HTTP API and of the agents' gateway, beside one for IAM roles; and further choices, as
    synthesising takes seconds."""
    trusted = {"jwt_issuer": ISSUER, "jwt_audience": "cli, console", "jwt_clients": "machine"}
    others = {"client_id": "acme", "project_id": "shop", "source_buckets": "docs-of-ops"}
    return make(api_auth="jwt", gateway_auth="both", **trusted, **others, query_concurrency="0", snapstart="false")


@pytest.fixture(scope="session")
def beside(make: Callable[..., Assembly]) -> Assembly:
    """A classic collection beside the one of the next generation, in an environment with the longest name."""
    return make(environment=LONGEST, next_search_generation="classic", next_search_standby="false", vpc="true")


@pytest.fixture(scope="session")
def console_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A console as small as can be."""
    folder = tmp_path_factory.mktemp("console_files")
    (folder / "assets").mkdir()
    (folder / "assets" / "index-1.js").write_text("export {}")
    (folder / "index.html").write_text("<!doctype html><title>OPX Knowledge</title>")
    (folder / "settings.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def handler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handler]:
    """The retrieval function, to be called as a template says that it is."""
    with a_system(tmp_path_factory.mktemp("home")) as system, function_logs():
        yield make_handler(lambda: system)


ISSUER = "https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_example"
KEY_ARN = "arn:aws:kms:eu-central-1:111111111111:key/1b2c3d4e"
PROFILE = "eu.cohere.embed-v4:0"
LONGEST = "production"
