"""From files of many formats to every answer: passwords that a structure states are nowhere but in the uploaded files."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from opx.domain.documents import RemarkKind
from opx.hygiene.cleaning import Cleaner
from tests.support.cli_support import Opx

WORDS = (
    "Blaumeise",
    "Kohlmeise",
    "Tannenmeise",
    "Haubenmeise",
    "Sumpfmeise",
    "Weidenmeise",
    "Schwanzmeise",
    "Bartmeise",
)
ENCODED = base64.b64encode(b"orders:Beutelmeise").decode()
LONG = "The exporter listens on port 9187 and restarts with the database. " * 40
FILES = {
    "runbooks/restore.md": (
        f"---\nauthor: Login dba, password {WORDS[0]}.\nowner: dba\n---\n"
        f"# Restore the orders database with the password {WORDS[1]}.\n\n"
        f"## Steps\n\n1. Stop the exporter:\n\n   ```sh\n   mysql -h db1 -u root -p{WORDS[2]} orders\n   ```\n\n"
        f"2. Start it again.\n\n## Accounts\n\n| Host | Password |\n|---|---|\n| db1 | {WORDS[3]} |\n\n{LONG}\n\n"
        f"orders-db runs on db1. The root password is {WORDS[4]}.\n"
    ),
    "config/orders.yaml": f"apiVersion: v1\nkind: Secret\nmetadata:\n  name: orders\ndata:\n  dsn: {ENCODED}\n",
    "config/hosts.csv": f"host,login,password\ndb1,root,{WORDS[5]}\n",
    "config/main.tf": f'variable "db_password" {{\n  type    = string\n  default = "{WORDS[6]}"\n}}\n',
    "config/app.properties": f"orders.datasource.user=orders\norders.datasource.password={WORDS[7]}\n",
}
SECRETS = (*WORDS, ENCODED)


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for name, text in FILES.items():
        opx.write(name, text)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    return opx


def quoted(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def test_nothing_that_is_stored_has_them(opx: Opx) -> None:
    for command in (("search", "orders database password"), ("list",), ("status",)):
        opx(*command)
    stored = [path for path in opx.home.rglob("*") if path.is_file() and path.name not in {Path(n).name for n in FILES}]
    assert len(stored) > 5
    found = {secret: path.name for path in stored for secret in SECRETS if secret.encode() in path.read_bytes()}
    assert found == {}


@pytest.mark.parametrize(
    "command",
    [
        ("search", "restore the orders database", "--min-confidence", "0", "--json"),
        ("search", "restore the orders database", "--min-confidence", "0"),
        ("search", "db1 root password accounts", "--min-confidence", "0", "--json"),
        ("search", "kind Secret orders dsn", "--min-confidence", "0"),
        ("list", "--json"),
        ("list", "--remarks", "secret"),
        ("graph", "alias", "list"),
    ],
)
def test_no_answer_has_them(opx: Opx, command: tuple[str, ...]) -> None:
    result = opx(*command)
    assert result.stdout
    assert quoted(result.output) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("options", [(), ("--json", "--chunks"), ("--outline",)])
def test_no_document_that_is_shown_has_them(opx: Opx, name: str, options: tuple[str, ...]) -> None:
    shown = opx("show", name, *options)
    assert quoted(shown.output) == []
    if not options:
        assert "[masked " in shown.stdout


def test_receipts_and_questions_do_not_have_them(opx: Opx) -> None:
    opx("search", f"is the root password {WORDS[0]}9! or not", "--min-confidence", "0")
    for command in (("audit", "list"), ("gaps", "--json")):
        assert quoted(opx(*command).output) == []


def test_list_for_the_owner_names_documents_and_kinds(opx: Opx) -> None:
    rows = opx("list", "--remarks", "secret").stdout.splitlines()
    assert "REMARKS" in rows[0]
    assert rows.index("") == len(FILES) + 1  # below the table, each remark with its line
    assert len(rows) > 2 * len(FILES) + 1
    assert any("value of a Kubernetes Secret" in row for row in rows)
    assert any("password on a command line" in row and "password in a table" in row for row in rows)


def test_metadata_is_cleaned_by_the_same_rules() -> None:
    cleaner = Cleaner()
    assert quoted(cleaner.value("title", f"The root password is {WORDS[0]}.")) == []
    assert [remark.kind for remark in cleaner.remarks] == [RemarkKind.MASKED_SECRET]
