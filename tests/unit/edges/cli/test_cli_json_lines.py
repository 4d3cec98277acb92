"""Tests of `--json` on commands that read, and of JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from opx.edges.cli.main import cli
from tests.support.cli_support import Opx

WRITES = """
    alerts-import edit reviewed restore delete hold-remove rebuild webhook-secret webhook-test evidence
    client-add project-assign project-remove source-add source-pause source-pull source-remove source-resume
    stream-add stream-remove baseline-push graph-alias-add graph-alias-merge graph-alias-remove graph-alias-undo graph-relink
    secret-protect secret-remove secret-set gaps-close gaps-ignore gaps-reopen gaps-assign ingest watch
"""
SERVES = "mcp serve console run demo completion do"
"""Commands that serve, print a script, or step through a procedure with keys."""


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for number in range(3):
        opx.write(f"{number}.md", f"# Runbook {number} →\n\nRestart service {number}.\n")
    opx.write("bad.md", b"\x00\x01")
    opx("ingest", opx.folder / "docs")
    opx("search", "restart service", "--min-confidence", "0")
    return opx


def without_json(command: click.Command, name: str, context: click.Context) -> Iterator[str]:
    """Commands without `--json`, by their names with dashes."""
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found
            yield from () if each == "call" else without_json(found, f"{name}-{each}".strip("-"), context)
    elif not any("--json" in parameter.opts for parameter in command.params):
        yield name


def test_every_command_that_reads_has_json() -> None:
    assert sorted(without_json(cli, "", click.Context(cli))) == sorted((WRITES + SERVES).split())


@pytest.mark.parametrize("command", ["list", "audit", "failed", "failed list", "gaps"])
def test_json_lines_has_the_items_of_json_one_on_each_line(opx: Opx, command: str) -> None:
    opx("search", "an unheard of wombat")
    as_json = json.loads(opx(*command.split(), "--json").stdout)
    lines = opx(*command.split(), "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == as_json
    assert as_json


def test_captured_entries_are_printed_as_json_lines(opx: Opx) -> None:
    for number in range(2):
        opx("learn", "capture", "failure", f"deploy {number} hangs", "--step", "raise the timeout")
    found = [json.loads(line) for line in opx("learn", "list", "--jsonl").stdout.splitlines()]
    assert {one["failure_description"] for one in found} == {"deploy 0 hangs", "deploy 1 hangs"}
    assert opx("learn", "verify", found[0]["id"][:8], "--worked").exit_code == 0


def test_an_id_that_begins_several_entries_lists_them(opx: Opx) -> None:
    for number in range(20):
        opx("learn", "capture", "failure", f"deploy {number} hangs", "--step", "raise the timeout")
    ids = [json.loads(line)["id"] for line in opx("learn", "list", "--jsonl").stdout.splitlines()]
    twice = next(one[0] for one in ids if sum(other[0] == one[0] for other in ids) > 1)
    result = opx("learn", "verify", twice, "--worked")
    assert result.exit_code == 2
    assert f"opx: {twice} is the beginning of " in result.stderr


def test_a_search_within_a_document_takes_the_beginning_of_its_id_or_its_name(opx: Opx) -> None:
    listed = json.loads(opx("list", "--json").stdout)
    wanted = next(one["documentId"] for one in listed if one["title"].startswith("Runbook 1"))
    for name in (wanted[:8], "1.md"):
        found = opx("search", "restart service", "--document", name, "--min-confidence", "0", "--json")
        assert {one["metadata"]["documentId"] for one in json.loads(found.stdout)["results"]} == {wanted}
    assert opx("search", "restart service", "--document", "ffffffff").exit_code == 2
