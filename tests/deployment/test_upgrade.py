"""Upgrade of storage from the commit before to this source tree: documents and rows survive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from opx.ports.tables import DOCUMENTS
from tests.deployment.assemblies import restrict
from tests.deployment.cdk import Cdk, CdkError
from tests.deployment.emulator import Emulator
from tests.deployment.engines import Engine
from tests.deployment.installation import ROOT
from tests.deployment.system import SystemUnderTest
from tests.doubles.bedrock import BedrockDouble

ENVIRONMENT = "grown"
BEFORE = os.environ.get("UPGRADE_FROM", "HEAD~1")


@pytest.fixture
def earlier_tree(tmp_path: Path) -> Path:
    """The source tree of the commit before, or of `UPGRADE_FROM`."""
    command = ["git", "archive", "--format=tar", BEFORE]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("no earlier version to upgrade from: there is no git")
    if done.returncode:
        pytest.skip(f"no earlier version to upgrade from: {done.stderr.decode(errors='replace').strip()}")
    tree = tmp_path / "earlier"
    tree.mkdir()
    subprocess.run(["tar", "-xf", "-", "-C", str(tree)], input=done.stdout, check=True)
    return tree


def test_documents_and_rows_survive_an_upgrade(
    earlier_tree: Path, cdk: Cdk, emulator: Emulator, engine: Engine, bedrock: BedrockDouble, tmp_path: Path
) -> None:
    system = SystemUnderTest(emulator, engine, bedrock, ENVIRONMENT)
    stack = system.names.stack("storage")
    try:
        cdk.synthesise({"environment": ENVIRONMENT}, tmp_path / "before", tree=earlier_tree)
    except CdkError as exc:
        pytest.skip(f"the earlier version can't be synthesised here: {str(exc).splitlines()[-1]}")
    cdk.deploy(restrict(tmp_path / "before", emulator.resource_types()), stack)
    system.put("documents/kept.md", "# Kept\n\nThis was here before.")
    row = {"documentId": {"S": "kept"}, "entry": {"S": "document#kept#1"}, "version": {"N": "1"}}
    emulator.client("dynamodb").put_item(TableName=system.names.table(DOCUMENTS), Item=row)
    cdk.synthesise({"environment": ENVIRONMENT}, tmp_path / "now")
    cdk.deploy(restrict(tmp_path / "now", emulator.resource_types()), stack)
    kept = system.s3.get_object(Bucket=system.bucket, Key="documents/kept.md")["Body"].read()
    assert b"This was here before." in kept
    assert system.items(DOCUMENTS) == [row]
