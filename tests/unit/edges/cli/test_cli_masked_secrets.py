"""`opx secret found` and `opx secret protect`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from opx.edges.cli.secrets import protected_line
from opx.operations.masked_secrets import ProtectedOriginals
from tests.support.cli_support import Opx

PASSWORD = "hunter2Xy9zQ"


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    opx.write("vault.md", f"---\nowner: ann\n---\n# Vault\n\nUnseal the vault.\n\npassword: {PASSWORD}\n")
    opx.write("clean.md", "# Pods\n\nRead the log of the pod.")
    assert opx("ingest", tmp_path / "docs").exit_code == 0
    return opx


def test_documents_with_masked_secrets_are_listed_by_owner_with_what_to_do(opx: Opx) -> None:
    result = opx("secret", "found")
    assert result.exit_code == 0
    assert "global, ann" in result.stdout
    assert "vault.md, version 1, original: plain" in result.stdout
    assert "line 5: " in result.stdout
    assert "- change the secrets where they are used" in result.stdout
    assert "- encrypt the original: `opx secret protect`" in result.stdout
    assert "clean.md" not in result.stdout
    assert PASSWORD not in result.stdout
    (found,) = json.loads(opx("secret", "found", "--json").stdout)
    assert (found["original"], len(found["secrets"])) == ("plain", 1)


def test_originals_are_encrypted_on_request(opx: Opx) -> None:
    assert opx("secret", "protect").stdout == "1 of 1 original encrypted now\n"
    assert opx("secret", "protect").stdout == "0 of 1 original encrypted now\n"
    assert "original: encrypted" in opx("secret", "found").stdout
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in opx.home.rglob("*") if path.is_file())
    assert opx("reconcile", "--thorough").exit_code == 0
    assert "nothing changed" in opx("ingest", opx.folder / "docs").stdout


def test_originals_that_functions_encrypt_are_counted_apart() -> None:
    assert (
        protected_line(ProtectedOriginals(0, 3, queued=2)) == "0 of 3 originals encrypted now, 2 queued for ingestion"
    )


def test_without_masked_secrets_the_list_is_one_line(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx.write("clean.md", "# Pods\n\nRead the log of the pod.")
    opx("ingest", tmp_path / "docs")
    assert opx("secret", "found").stdout == "no document has masked secrets\n"
