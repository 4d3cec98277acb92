"""The stacks together: rules that they are held to, what they look like, and how they are made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from infra.constructs.layer_contents import ROOT
from tests.infra.templates import STACKS, Assembly, lint_findings
from tests.support.sampling import sampled


def test_cdk_nag_finds_nothing_that_has_no_reason(default: Assembly, ephemeral: Assembly) -> None:
    assert default.findings == []
    assert ephemeral.findings == []


@pytest.mark.parametrize("stack", STACKS)
def test_cfn_lint_finds_nothing(default: Assembly, ephemeral: Assembly, stack: str) -> None:
    assert lint_findings(default, stack) == []
    if stack in sampled(STACKS, part=1):
        assert lint_findings(ephemeral, stack) == []


@pytest.mark.parametrize("stack", STACKS)
def test_the_template_is_as_it_was(default: Assembly, stack: str, snapshot: SnapshotAssertion) -> None:
    assert compact(default, stack) == snapshot


def compact(assembly: Assembly, stack: str) -> str:
    """A line a resource and an output, references as text, hashes of assets masked."""
    template = assembly.templates[stack]
    lines = []
    for name, resource in sorted(template["Resources"].items()):
        kind = resource["Type"].removeprefix("AWS::")
        rest = {key: value for key, value in resource.items() if key not in ("Type", "Properties")}
        properties = {key: value for key, value in resource.get("Properties", {}).items() if key != "Tags"}
        lines.append(f"{kind} {name} {json.dumps({**properties, **rest}, sort_keys=True, separators=(',', ':'))}")
    for name, output in sorted(template.get("Outputs", {}).items()):
        lines.append(f"Output {name} {output['Value']}")
    return without_hashes("\n".join(lines))


@pytest.mark.parametrize("environment", ["default", "ephemeral"])
def test_rules_schedules_and_queues_have_a_dead_letter_queue(environment: str, request: pytest.FixtureRequest) -> None:
    assembly: Assembly = request.getfixturevalue(environment)
    edges = 0
    for stack, name, resource in assembly.all_resources():
        kind, properties = resource["Type"].removeprefix("AWS::"), resource.get("Properties", {})
        where = f"{name} of {stack}"
        if kind == "Events::Rule":
            edges += 1
            assert all("Arn" in target.get("DeadLetterConfig", {}) for target in properties["Targets"]), where
        if kind == "Scheduler::Schedule":
            edges += 1
            assert "Arn" in properties["Target"].get("DeadLetterConfig", {}), where
        if kind == "SQS::Queue" and not properties["QueueName"].endswith(("-failed", "-undelivered")):
            edges += 1
            assert properties["RedrivePolicy"]["maxReceiveCount"] > 1, where
    assert edges > 10


def test_two_environments_share_no_name(default: Assembly, ephemeral: Assembly) -> None:
    dev, prod = physical_names(default), physical_names(ephemeral)
    assert len(dev) > 40
    assert dev & prod == set()


def physical_names(assembly: Assembly) -> set[tuple[str, str]]:
    """Types and names that may exist only once in an account and region."""
    found = set()
    for _, _, resource in assembly.all_resources():
        for key, value in resource.get("Properties", {}).items():
            if key in _NAMING and isinstance(value, str) and resource["Type"] not in _NAMED_WITHIN:
                found.add((resource["Type"], value))
    return found


_NAMING = {"AgentName", "AlarmName", "ArchiveName", "BucketName", "DashboardName", "FunctionName", "LogGroupName"}
_NAMING |= {"Name", "QueueName", "RoleName", "TableName", "TopicName"}
_NAMED_WITHIN = (  # names within something that has the environment's name, or references
    "AWS::BedrockAgentCore::GatewayTarget",
    "AWS::Lambda::Alias",
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Permission",
    "AWS::Lambda::Version",
    "AWS::Scheduler::Schedule",
)


@pytest.mark.parametrize("environment", ["default", "ephemeral"])
def test_every_taggable_resource_names_its_environment(environment: str, request: pytest.FixtureRequest) -> None:
    assembly: Assembly = request.getfixturevalue(environment)
    expected = {"default": "dev", "ephemeral": "prod"}[environment]
    tagged = [r["Properties"]["Tags"] for _, _, r in assembly.all_resources() if "Tags" in r.get("Properties", {})]
    assert len(tagged) > 15
    for tags in tagged:
        by_key = tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
        assert by_key["environment"] == expected


PACKAGES = Path("~/.cache/aws/jsii/package-cache").expanduser()
"""Packages of CDK that jsii has unpacked for the other tests, which takes seconds."""


@pytest.mark.slow
def test_app_py_makes_the_same_templates_without_account_docker_git_or_network(
    default: Assembly, tmp_path: Path
) -> None:
    """Proxies that refuse every connection stand for the missing network."""
    nowhere = "http://127.0.0.1:9"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
    environment |= {"HOME": str(tmp_path), "HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "CDK_OUTDIR": str(tmp_path)}
    environment |= {"PATH": str(node_folder(tmp_path)), "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(PACKAGES)}
    subprocess.run([sys.executable, "app.py"], cwd=ROOT, env=environment, check=True, capture_output=True, timeout=110)
    for stack in STACKS:
        (made,) = tmp_path.glob(f"*-{stack}.template.json")
        assert masked(made) == masked(default.path(stack))


def node_folder(tmp_path: Path) -> Path:
    """A search path with node and nothing else."""
    found = shutil.which("node")
    assert found
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "node").symlink_to(found)
    return folder


def masked(template: Path) -> object:
    return json.loads(without_hashes(template.read_text()))


def without_hashes(text: str) -> str:
    """With those of assets and of functions' versions masked, which change with every line of code."""
    text = re.sub(r"[0-9a-f]{64}", "<asset>", text)
    return re.sub(r"(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}", r"\1<version>", text)
