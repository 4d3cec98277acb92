"""Tests of `opx config`."""

from __future__ import annotations

import json

from tests.support.cli_support import Opx


def settings(opx: Opx, **environ: str) -> dict[str, tuple[str, str]]:
    found = json.loads(opx("config", "--json", **environ).stdout)
    return {one["name"]: (one["value"], one["origin"]) for one in found}


def test_each_setting_has_its_origin(opx: Opx) -> None:
    found = settings(opx, OPX_SEARCH_LEGS="vector", OPX_HOME="/elsewhere")
    assert found["home"] == (str(opx.home), "option --home")
    assert found["search_legs"] == ("vector", "OPX_SEARCH_LEGS")
    assert found["chunk_tokens"] == ("500", "default")


def test_settings_with_defaults_are_left_out_unless_requested(opx: Opx) -> None:
    few = opx("config", OPX_SEARCH_LEGS="vector").stdout
    assert "search_legs  vector" in few
    assert "chunk_tokens" not in few
    assert "chunk_tokens" in opx("config", "--all").stdout


def test_secrets_are_not_shown(opx: Opx) -> None:
    environ = {"OPX_API_TOKEN": "s3cr3t", "OPX_CHAT_URL": "https://me:s3cr3t@models.example/v1"}
    environ["OPX_INDEX"] = "opensearch+https://me:s3cr3t@search.example:9200/opx"
    for options in ((), ("--json",)):
        result = opx("config", *options, **environ)
        assert "s3cr3t" not in result.output
        assert "https://models.example/v1" in result.stdout
        assert "opensearch+https://search.example:9200/opx" in result.stdout
    assert settings(opx, **environ)["api_token"] == ("(set, not shown)", "OPX_API_TOKEN")


def test_a_variable_that_nothing_reads_is_named_with_the_likely_one(opx: Opx) -> None:
    result = opx("config", OPX_CHUNK_TOKEN="300")
    assert result.exit_code == 0
    assert result.stderr == "opx: OPX_CHUNK_TOKEN is no setting: did you mean OPX_CHUNK_TOKENS?\n"


def test_it_works_without_a_home_and_creates_none(opx: Opx) -> None:
    assert opx("config").exit_code == 0
    assert not opx.home.exists()
