"""Tests of what newcomers see: `opx` alone, grouped help, and names that don't exist."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click
import pytest

from opx import plugins
from opx.edges.cli.help import COMMON, SECTIONS, sections
from opx.edges.cli.main import cli
from opx.errors import _DISTRIBUTIONS
from opx.operations import features, load
from tests.support.cli_support import Opx


def test_opx_alone_in_a_home_without_knowledge_shows_how_to_begin(opx: Opx) -> None:
    result = opx()
    assert result.exit_code == 0
    assert f"There is no knowledge in {opx.home} yet" in result.stdout
    assert f"opx --home {opx.home} ingest docs/runbooks" in result.stdout
    assert "All commands: opx help all" in result.stdout
    assert not opx.home.exists()


def test_opx_alone_with_knowledge_shows_counts_and_three_commands(opx: Opx) -> None:
    opx.write("disk.md", "# Disk full\n\nDelete old logs.\n")
    opx.write("bad.md", b"\x00\x01")
    opx("ingest", opx.folder / "docs")
    result = opx()
    assert result.exit_code == 0
    assert f"{opx.home} has 1 document in 1 passage, 1 failed." in result.stdout
    assert re.findall(r"^  opx --home \S+ (\w+)", result.stdout, re.MULTILINE) == ["search", "failed", "gaps"]


def test_opx_alone_in_a_damaged_home_names_the_doctor(opx: Opx) -> None:
    opx.write("disk.md", "# Disk full\n\nDelete old logs.\n")
    opx("ingest", opx.folder / "docs")
    (opx.home / "opx.db").write_bytes(b"no database " * 4000)
    result = opx()
    assert result.exit_code == 0
    assert "no SQLite database" in result.stderr
    assert "doctor" in result.stdout


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("help",)])
def test_help_has_a_dozen_commands_and_the_way_to_the_others(opx: Opx, arguments: tuple[str, ...]) -> None:
    output = opx(*arguments).stdout
    assert re.findall(r"^  ([a-z]+)  ", output.split("\nCommands:\n")[1], re.MULTILINE) == COMMON.split()
    assert len(COMMON.split()) == 12
    assert output.endswith("All commands: opx help all\n")


def test_help_of_a_command_is_its_own(opx: Opx) -> None:
    assert opx("help", "learn", "capture").stdout == opx("learn", "capture", "--help").stdout
    assert opx("help", "serach").stderr.startswith("opx: there is no command 'serach': did you mean `opx search`")


def test_help_all_has_every_command_once_in_a_section(opx: Opx) -> None:
    output = opx("help", "all").stdout
    for title in SECTIONS:
        assert f"\n{title}:\n" in output
    commands = cli.list_commands(click.Context(cli))
    listed = [name for _, rows in sections({name: name for name in commands}) for name, _ in rows]
    assert sorted(listed) == sorted(commands)
    assert sorted(" ".join(SECTIONS.values()).split()) == sorted(commands)


def test_commands_parts_rows_and_tools_of_each_distribution_are_known_without_it() -> None:
    installed: dict[str, dict[str, list[str]]] = {}
    for group, kind in ((plugins.PARTS, "part"), (plugins.ROWS, "rows")):
        for name in sorted(plugins.names(group)):
            _add(installed, plugins._all()[group][name], kind, [name])
    for name, feature in features().items():
        plugin = plugins._all()[plugins.OPERATIONS][name]
        package = plugin.entry.module.partition(".")[0]
        tools = [tool for tool, one in load().tools().items() if one.run.__module__.startswith(f"{package}.")]
        _add(installed, plugin, "command", feature.commands)
        _add(installed, plugin, "tool", tools)
    known = {
        distribution: {kind: sorted(names.split()) for kind, names in kinds.items() if kind != "section"}
        for distribution, kinds in _DISTRIBUTIONS.items()
    }
    assert installed == known


def _add(installed: dict[str, dict[str, list[str]]], plugin: plugins.Plugin, kind: str, names: Iterable[str]) -> None:
    if found := sorted(names):
        of_kind = installed.setdefault(plugin.distributions[0].partition(" ")[0], {})
        of_kind[kind] = sorted([*of_kind.get(kind, []), *found])


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("serach", "`opx search`"),
        ("ls", "`opx list`"),
        ("Ingset", "`opx ingest`"),
        ("evla", "`opx eval`"),
        ("streams", "`opx stream`"),
    ],
)
def test_a_mistyped_command_gets_a_suggestion(opx: Opx, typed: str, meant: str) -> None:
    result = opx(typed)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"opx: there is no command '{typed}': did you mean {meant}")


def test_a_name_near_no_command_gets_the_way_to_the_list(opx: Opx) -> None:
    assert opx("xyzzy").stderr == "opx: there is no command 'xyzzy': `opx help all` lists all commands\n"


def test_a_mistyped_subcommand_gets_a_suggestion(opx: Opx) -> None:
    assert "'patterns'" in opx("learn", "paterns").stderr
