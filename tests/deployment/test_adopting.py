"""Take-back of what a destroyed deployment left in the account: documents answer again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests.deployment.assemblies import Assembly, restrict
from tests.deployment.cdk import Cdk, Made
from tests.deployment.emulator import Emulator
from tests.deployment.engines import Engine
from tests.deployment.system import SystemUnderTest
from tests.doubles.bedrock import BedrockDouble

ENVIRONMENT = "again"
KEY = "documents/runbooks/zirconium.md"
TEXT = "# Zirconium gateway\n\nRestart the zirconium gateway by draining its lanes first."
DEPLOYED = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE")
QUESTION = "How is the zirconium gateway restarted?"


@dataclass(frozen=True)
class Lost:
    """An environment that was deployed, used and destroyed. `counts`: its rows and objects before."""

    system: SystemUnderTest
    first: Assembly
    context: Mapping[str, str]
    key: str
    counts: Mapping[str, int]


@pytest.fixture(scope="module")
def lost(
    cdk: Cdk,
    emulator: Emulator,
    engine: Engine,
    bedrock: BedrockDouble,
    context: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Lost:
    own = context | {"environment": ENVIRONMENT, "kms_key": "own"}
    folder = tmp_path_factory.mktemp("first")
    cdk.synthesise(own, folder)
    first = restrict(folder, emulator.resource_types())
    made = cdk.make("deploy", first, own)
    assert made.status == 0, made.output[-4000:]
    system = SystemUnderTest(emulator, engine, bedrock, ENVIRONMENT)
    system.put(KEY, TEXT)
    system.ingested(KEY, "draining its lanes")
    assert "draining its lanes" in system.ask(QUESTION)
    key = encryption_key(emulator, system)
    counts = system.counts()
    cdk.destroy(first)
    return Lost(system, first, own, key, counts)


def encryption_key(emulator: Emulator, system: SystemUnderTest) -> str:
    """Id of the environment's key, as its stack has it."""
    stack = emulator.client("cloudformation").describe_stack_resources(StackName=system.names.stack("key"))
    (key,) = [item for item in stack["StackResources"] if item["ResourceType"] == "AWS::KMS::Key"]
    return str(key["PhysicalResourceId"])


@pytest.fixture(scope="module")
def refused(lost: Lost, cdk: Cdk) -> Made:
    """The result of a deployment onto retained resources, which comes before their adoption in any order of the tests."""
    return cdk.make("deploy", lost.first, lost.context)


def test_a_deployment_onto_retained_resources_is_refused_with_the_way_out(refused: Made) -> None:
    print(refused.output)
    assert refused.status != 0
    assert "no stack has them" in refused.output
    assert "`make adopt`" in refused.output
    assert refused.deployed == set()


@pytest.fixture(scope="module")
def adopted(lost: Lost, refused: Made, cdk: Cdk) -> Assembly:
    """The assembly of `make adopt`, which was run and lost nothing (counted before a test's question adds to the audit)."""
    made = cdk.make("adopt", lost.first, lost.context)
    print(made.output)
    assert made.status == 0, made.output[-4000:]
    assert made.deployed == set(lost.first.stacks)
    assert lost.system.counts() == lost.counts
    return lost.first


def test_what_was_retained_is_taken_back_and_answers(
    lost: Lost, adopted: Assembly, cdk: Cdk, emulator: Emulator
) -> None:
    system = lost.system
    assert "draining its lanes" in system.ask(QUESTION)
    assert encryption_key(emulator, system) == lost.key
    assert cdk.make("deploy", adopted, lost.context).changed == set()


def test_stacks_that_a_removal_and_a_failed_deployment_left_behind_are_completed(
    lost: Lost, adopted: Assembly, cdk: Cdk, emulator: Emulator
) -> None:
    learning, events = lost.system.names.stack("learning"), emulator.client("events")
    cdk.destroy(adopted, learning)
    removed = set(adopted.stacks) - existing(emulator)
    assert learning in removed
    taken = lost.system.names.learning_bus
    events.create_event_bus(Name=taken)
    failed = cdk.make("adopt", adopted, lost.context)
    assert failed.status != 0
    assert "EventBus already exists" in failed.output
    events.delete_event_bus(Name=taken)
    made = cdk.make("adopt", adopted, lost.context)
    print(made.output)
    assert made.status == 0, made.output[-4000:]
    assert learning in made.changed <= removed
    assert existing(emulator) >= set(adopted.stacks)
    assert "draining its lanes" in lost.system.ask(QUESTION)


def existing(emulator: Emulator) -> set[str]:
    """Names of the stacks that are deployed."""
    pages = emulator.client("cloudformation").get_paginator("describe_stacks").paginate()
    states = {stack["StackName"]: stack["StackStatus"] for page in pages for stack in page["Stacks"]}
    return {name for name, state in states.items() if state in DEPLOYED}
