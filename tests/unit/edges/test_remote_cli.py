"""The `opx` command on a deployed system: differences from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from opx.edges.cli.session import is_remote
from opx.edges.loading import RemoteLoader, Waiting
from opx.ingestion.corpus.announcements import Backlog
from opx.settings import Settings
from tests.doubles.http_double import Response
from tests.support.cli_support import Opx
from tests.support.remote_support import DeployedOpx, aws_credentials, deployed
from tests.unit.edges.cli.test_cli_process import modules_after

RUNBOOK = "# Disk full\n\nDelete old logs, then restart the service.\n"


@pytest.fixture
def opx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeployedOpx]:
    with deployed(tmp_path, monkeypatch) as opx:
        yield opx


def sources(opx: Opx) -> list[str]:
    return sorted(document["source"] for document in json.loads(opx("list", "--json").stdout))


def test_ingest_waits_until_the_workers_are_done(opx: DeployedOpx) -> None:
    opx.write("a.md", RUNBOOK)
    result = opx("ingest", opx.folder / "docs")
    assert (result.exit_code, result.stdout.split(" in ")[0]) == (
        0,
        "1 ingested, 0 unchanged, 0 deleted, 0 failed; 1 chunk",
    )
    assert "ingested   documents/docs/a.md (1 chunk)" in result.stderr
    assert opx("search", "disk logs", "--min-confidence", "0").exit_code == 0


def test_ingest_can_leave_documents_to_the_workers(opx: DeployedOpx) -> None:
    opx.write("a.md", RUNBOOK)
    result = opx("ingest", "--no-wait", opx.folder / "docs")
    assert result.stdout.startswith(
        "0 ingested, 0 unchanged, 0 deleted, 0 failed, 1 left to the workers of this corpus"
    )
    assert result.exit_code == 0
    assert sources(opx) == []
    assert json.loads(opx("status", "--json").stdout)["waiting"] == 1


def test_status_shows_the_changes_that_were_announced_and_not_ingested(
    opx: DeployedOpx, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Backlog(1000, more=True, oldest="2026-11-20T08:00:00Z")
    monkeypatch.setattr(opx.system.services.corpus, "backlog", lambda: found)
    (line,) = (line for line in opx("status").stdout.splitlines() if line.startswith("not yet ingested"))
    assert line.partition("ingested")[2].strip() == (
        "1,000 or more announced changes of over 15 minutes ago, the oldest of 2026-11-20T08:00:00Z "
        "(see `announced-not-ingested` in docs/deploy.md)"
    )


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for longer than one look takes."""
    monkeypatch.setattr("opx.edges.loading.Waiting", partial(Waiting, patience=0.0))


@pytest.mark.usefixtures("impatient")
def test_unsettled_documents_are_reported_with_the_commands_to_check(opx: DeployedOpx) -> None:
    opx.write("a.md", RUNBOOK)
    opx.write("b.md", RUNBOOK)
    opx.system.asleep = True
    result = opx("ingest", opx.folder / "docs")
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "opx: 2 documents are still being worked on: see `opx status` and `opx failed` in a while\n"
    )
    assert "2 left to the workers of this corpus" in result.stdout


@pytest.mark.usefixtures("impatient")
def test_an_unsettled_deletion_is_reported(opx: DeployedOpx) -> None:
    opx("ingest", opx.write("a.md", RUNBOOK))
    document_id = json.loads(opx("list", "--json").stdout)[0]["documentId"]
    opx.system.asleep = True
    result = opx("delete", document_id, "--yes")
    assert (result.exit_code, result.stdout) == (1, f"deleted {document_id}  Disk full\n")
    assert result.stderr.startswith("opx: 1 document is still being worked on: ")


def test_a_deletion_whose_answer_gets_lost_does_not_end_the_command(
    opx: DeployedOpx, monkeypatch: pytest.MonkeyPatch
) -> None:
    def a_worker_is_quicker(_attempt: int, _headers: object) -> float:
        opx.system.work()
        return 0.0

    monkeypatch.setattr("opx.edges.client.pause_before", a_worker_is_quicker)
    for name in ("a.md", "b.md"):
        opx.write(name, RUNBOOK + name)
    opx("ingest", opx.folder / "docs")
    first, second = (document["documentId"] for document in json.loads(opx("list", "--json").stdout))
    opx.system.lose_answers(path=f"/documents/{first}", method="DELETE")
    assert opx("delete", first, second, "--yes").exit_code == 0
    assert sources(opx) == []


def test_a_document_of_another_scope_is_not_deleted_nor_any_with_it(opx: DeployedOpx) -> None:
    opx.system.tokens = {"abc": {"scope": "opx/admin"}, "def": {"opx_client_id": "acme", "scope": "opx/write"}}
    opx("ingest", opx.write("a.md", RUNBOOK), OPX_API_TOKEN="abc")
    opx("ingest", opx.write("b.md", RUNBOOK + "b"), OPX_API_TOKEN="def")
    found = json.loads(opx("list", "--json", OPX_API_TOKEN="def").stdout)
    own, foreign = (document["documentId"] for document in sorted(found, key=lambda d: str(d["source"]), reverse=True))
    result = opx("delete", own, foreign, OPX_API_TOKEN="def")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (f"opx: {foreign} belongs to global, you may delete only client:acme: nothing is deleted\n")
    assert "DELETE" not in [request.method for request in opx.system.requests]


def test_a_folder_is_worked_on_whether_it_is_waited_for_or_not(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    assert opx("ingest", "--no-wait", opx.write("a.md", RUNBOOK)).stdout.startswith("1 ingested")


def test_files_are_named_from_the_folder_that_the_command_runs_in(
    opx: DeployedOpx, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    opx.write("a.md", RUNBOOK)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "b.md"
    elsewhere.write_text(RUNBOOK)
    monkeypatch.chdir(opx.folder / "docs")
    opx("ingest", "a.md", elsewhere)
    assert sources(opx) == [str(elsewhere), "a.md"]


def test_status_shows_api_and_scope(opx: DeployedOpx) -> None:
    facts = json.loads(opx("status", "--json").stdout)
    assert (facts["backend"], facts["api"], facts["scope"], facts["documents"]) == (
        "api",
        opx.system.endpoint,
        "global",
        0,
    )
    lines = opx("status").stdout.splitlines()
    assert lines[0].split() == ["api", opx.system.endpoint]
    assert lines[1].split() == ["your", "documents", "global"]


def test_status_reports_a_broken_index(opx: DeployedOpx) -> None:
    opx("ingest", opx.write("a.md", RUNBOOK))
    answering = opx.system.services.indexing.editions.current().index
    answering._database.set_meta("identity", "another/1")  # type: ignore[attr-defined]
    opened = opx.system.services.indexing.__dict__
    del opened["index"]
    opened.pop("editions").close()
    assert "was built for another/1" in json.loads(opx("status", "--json").stdout)["index"]


def test_a_procedure_is_gone_through_as_in_a_folder(opx: DeployedOpx) -> None:
    opx.write(
        "runbooks/kafka-lag.md",
        "# Consumer lag\n\n## Steps\n\n1. Look.\n\n   ```bash\n   kubectl get pods -n <namespace>\n   ```\n",
    )
    opx("ingest", opx.folder / "docs")
    rules = opx.folder / "rules.yaml"
    rules.write_text("alerts: [{name: GroupIsSlow, runbook: 'https://wiki/kafka-lag'}]\n")
    assert "GroupIsSlow  bound by url to Consumer lag" in opx("alerts", "import", rules).stdout
    found = opx("do", "GroupIsSlow", "--label", "namespace=prod")
    assert found.exit_code == 0, found.output
    assert "kubectl get pods -n prod" in found.stdout


def test_the_scope_follows_from_the_token(opx: DeployedOpx) -> None:
    opx.system.tokens = {"abc": {"opx_client_id": "acme", "scope": "opx/write"}}
    result = opx("ingest", opx.write("a.md", RUNBOOK), OPX_API_TOKEN="abc")
    assert result.exit_code == 0
    assert opx.system.services.store.head("clients/acme/documents/docs/a.md")
    assert json.loads(opx("status", "--json", OPX_API_TOKEN="abc").stdout)["scope"] == "client:acme"


def test_a_token_that_may_only_read_can_not_write(opx: DeployedOpx) -> None:
    opx.system.tokens = {"abc": {"opx_client_id": "acme"}}
    assert opx("list", OPX_API_TOKEN="abc").exit_code == 0
    result = opx("ingest", opx.write("a.md", RUNBOOK), OPX_API_TOKEN="abc")
    assert result.exit_code == 2
    assert "needs a token with the scope opx/admin or opx/curate or opx/write" in result.stderr


def test_an_invalid_token_is_one_line(opx: DeployedOpx) -> None:
    opx.system.tokens = {}
    result = opx("list", OPX_API_TOKEN="abc")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert "doesn't accept the token of OPX_API_TOKEN" in result.stderr


def test_a_wrong_secret_is_one_line(opx: DeployedOpx, monkeypatch: pytest.MonkeyPatch) -> None:
    aws_credentials(monkeypatch, secret="another")
    result = opx("list")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "refused GET /documents (403, Forbidden)" in result.stderr


def test_an_unknown_profile_is_one_line(opx: DeployedOpx) -> None:
    result = opx("--profile", "nobody", "list")
    assert (result.exit_code, result.stderr) == (
        2,
        "opx: there is no AWS profile 'nobody' on this machine; there are: none\n",
    )


def test_an_interrupted_wait_prints_how_to_continue(opx: DeployedOpx, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    path = opx.write("a.md", RUNBOOK)
    with monkeypatch.context() as patch:
        patch.setattr(RemoteLoader, "_states", interrupt)
        result = opx("ingest", path)
    assert result.exit_code == 130
    assert result.stderr.endswith("opx: interrupted: what was finished is kept; run the same command again to go on\n")
    assert opx("ingest", path).stdout.startswith("1 ingested")


def test_an_upload_that_broke_off_is_completed_by_the_next(opx: DeployedOpx) -> None:
    for number in range(5):
        opx.write(f"{number}.md", RUNBOOK)
    opx.system.inject(Response(403, "<Code>AccessDenied</Code>"), path="/bucket/documents/docs/3.md")
    assert opx("ingest", opx.folder / "docs").exit_code == 2
    opx("ingest", opx.folder / "docs")
    assert len(sources(opx)) == 5


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("rebuild",), "then `opx ingest` of the same files sends again what that index lacks"),
        (("demo",), "the demo runs in a folder of this machine"),
        (("eval", "."), "eval measures on this machine"),
    ],
)
def test_commands_for_folders_are_refused_with_the_reason(
    opx: DeployedOpx, command: tuple[str, ...], text: str
) -> None:
    result = opx(*command)
    assert result.exit_code == 2
    assert text in result.stderr
    assert opx.system.requests == []


@pytest.mark.parametrize(("option", "value"), [("--profile", "work"), ("--api", "https://x"), ("--environment", "dev")])
def test_a_folder_and_a_deployed_system_contradict_each_other(tmp_path: Path, option: str, value: str) -> None:
    result = Opx(tmp_path)(option, value, "list")
    assert result.exit_code == 2
    assert f"--home is a folder of this machine and {option} a deployed system" in result.stderr


def test_variables_that_contradict_each_other_are_refused_by_name(opx: DeployedOpx) -> None:
    result = opx("list", OPX_HOME="/srv/knowledge")
    assert result.exit_code == 2
    assert "OPX_HOME and OPX_API_URL contradict each other" in result.stderr


def test_an_option_counts_more_than_a_variable(opx: DeployedOpx, tmp_path: Path) -> None:
    assert "no knowledge in" in opx("--home", tmp_path / "none", "list").stderr
    assert opx("--api", opx.system.endpoint, "list", OPX_HOME="/srv/knowledge").exit_code == 0


@pytest.mark.parametrize("option", ["--client", "--project"])
def test_the_identity_can_not_be_chosen(opx: DeployedOpx, option: str) -> None:
    result = opx(option, "acme", "list")
    assert result.exit_code == 2
    assert f"{option} is for a folder of this machine: a deployed system knows who you are" in result.stderr
    assert opx.system.requests == []


def test_the_identity_can_not_be_chosen_by_a_variable_either(opx: DeployedOpx) -> None:
    assert "OPX_CLIENT_ID is for a folder of this machine" in opx("list", OPX_CLIENT_ID="acme").stderr


@pytest.mark.parametrize(
    ("settings", "remote"),
    [
        (Settings(), False),
        (Settings(aws_region="eu-central-1", api_token="x"), False),
        (Settings(aws_profile="work"), True),
        (Settings(environment="prod"), True),
        (Settings(api_url="https://x"), True),
    ],
)
def test_a_deployed_system_is_meant_only_if_it_is_named(settings: Settings, remote: bool) -> None:
    assert is_remote(settings) is remote


def test_a_token_is_not_shown() -> None:
    assert "t0k3n" not in repr(Settings(api_token="t0k3n"))


LISTED = """
import sys
from opx.edges.cli.main import Launch, run
from opx.system import bootstrap, connect
assert run(sys.argv[1:], Launch(bootstrap, connect)) == 0
"""


def test_a_folder_needs_nothing_of_aws_nor_of_http(tmp_path: Path) -> None:
    opx = Opx(tmp_path)
    opx("ingest", opx.write("a.md", RUNBOOK))
    code = LISTED
    loaded = modules_after(code, "--home", str(opx.home), "list")
    assert "opx.edges.calling" in loaded
    assert not {name for name in loaded if name.startswith(("boto", "urllib3", "opx.adapters.connections", "opx_aws"))}


ASK = """
import sys
from opx.edges.cli.main import Launch, run
from opx.system import bootstrap, connect
assert run(sys.argv[1:], Launch(bootstrap, connect)) == 2
"""


def test_a_deployed_system_needs_no_engine_on_this_machine() -> None:
    loaded = modules_after(ASK, "--api", "https://127.0.0.1:9", "search", "disk")
    assert "opx_aws.deployed_api" in loaded
    assert not {name for name in loaded if name.startswith(("tantivy", "onnxruntime", "tiktoken", "sqlite3", "rich"))}
