"""Deployment of the assembly that CDK makes of the source tree, and its repetition without changes."""

from __future__ import annotations

from pathlib import Path

from tests.deployment.assemblies import Assembly, restrict
from tests.deployment.cdk import Cdk
from tests.deployment.emulator import Emulator
from tests.deployment.environments import ENVIRONMENT
from tests.deployment.system import SystemUnderTest

COMPLETE = ("storage", "ingestion", "retrieval", "api")


def test_every_stack_that_the_emulator_takes_is_deployed(assembly: Assembly, deployed: set[str]) -> None:
    for stack, types in assembly.left_out.items():
        print(f"left out of {stack}: {', '.join(types)}")
    assert deployed == set(assembly.stacks)


def test_the_stacks_on_the_way_from_a_document_to_an_answer_are_deployed_as_a_whole(
    assembly: Assembly, deployed: set[str]
) -> None:
    wanted = {f"opx-knowledge-{ENVIRONMENT}-{stack}" for stack in COMPLETE}
    assert wanted <= deployed
    assert not wanted & assembly.left_out.keys()


def test_synthesising_and_deploying_again_changes_nothing(
    system: SystemUnderTest, cdk: Cdk, emulator: Emulator, context: dict[str, str], tmp_path: Path
) -> None:
    cdk.synthesise(context, tmp_path)
    again = restrict(tmp_path, emulator.resource_types())
    made = cdk.make("deploy", again, context)
    print(made.output)
    assert (made.status, made.changed, made.deployed) == (0, set(), set(again.stacks))
