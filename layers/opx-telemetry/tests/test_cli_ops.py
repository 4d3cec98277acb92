"""`opx ops`: the agents' questions about running systems on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opx.edges.cli.main import Launch, cli
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap, connect
from opx_telemetry.capability import telemetry
from opx_telemetry.rules import read_telemetry
from tests.support.telemetry_support import GROUP, RULES, fake_stores


def with_telemetry(settings: Settings) -> System:
    services = bootstrap(settings)
    services.part(telemetry).stores = fake_stores()
    services.installation.declare(read_telemetry, RULES)
    return services


def opx(home: Path, *arguments: str, start: Any = with_telemetry) -> Result:
    return CliRunner().invoke(
        cli, ["--home", str(home), "ops", *arguments], obj=Launch(start, connect, {}), prog_name="opx"
    )


def test_log_lines_are_printed(tmp_path: Path) -> None:
    result = opx(tmp_path, "logs", GROUP, "error")
    assert result.exit_code == 0, result.output
    assert "> 2025-06-15 15:06:40.000 error 1\n" in result.output


@pytest.mark.parametrize(
    ("arguments", "field", "value"),
    [
        (("logs", GROUP, "--show", "lines"), "logGroup", GROUP),
        (("metrics", "cpu", "i-1", "--max-lag", "5"), "metric", "cpu"),
        (("traces", "shop", "--limit", "3"), "service", "shop"),
    ],
)
def test_every_answer_can_be_had_as_json(tmp_path: Path, arguments: tuple[str, ...], field: str, value: str) -> None:
    result = opx(tmp_path, *arguments, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)[field] == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("logs", "/other", "error"), "log group '/other' may not be queried; there are: /ecs/shop"),
        (("logs", GROUP, "error", "--limit", "500"), "limit must be a whole number from 1 to 200, not 500"),
        (("traces", "other"), "service 'other' may not be queried; there are: shop"),
    ],
)
def test_a_refused_query_is_reported(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    result = opx(tmp_path, *arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_laptop_has_nothing_to_ask(tmp_path: Path) -> None:
    result = opx(tmp_path, "logs", GROUP, start=bootstrap)
    assert result.exit_code == 2
    assert "OPX_BACKEND=aws" in result.output
