"""The command that deploys: order of its steps, its one question, exit statuses. A double stands for `npx`."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra import deploy as command
from infra.preflight import Account, Problem
from tests.doubles.aws_account import ACCOUNT, AwsAccountDouble, StackDouble

STORAGE, KEY = "opx-knowledge-dev-storage", "opx-knowledge-dev-key"
TABLE = {
    "Type": "AWS::DynamoDB::Table",
    "DeletionPolicy": "RetainExceptOnCreate",
    "Properties": {"TableName": "dev-opx-knowledge-documents"},
    "DependsOn": ["Bucket"],
}
CMK = {
    "Type": "AWS::KMS::Key",
    "DeletionPolicy": "RetainExceptOnCreate",
    "Properties": {"Description": "OPX Knowledge, environment dev"},
}
ALIAS = {"Type": "AWS::KMS::Alias", "Properties": {"AliasName": "alias/dev-opx-knowledge"}}
TYPES = frozenset({"AWS::DynamoDB::Table", "AWS::KMS::Key", "AWS::KMS::Alias"})
CHANGED = "✨  Number of stacks with differences: 2\n"

NPX = """#!{python}
import json, os, pathlib, shutil, sys
here = pathlib.Path(__file__).parent
arguments = sys.argv[1:]
with (here / "calls").open("a") as log:
    log.write(json.dumps(arguments) + "\\n")
kind = arguments[2]
if "--output" in arguments:
    shutil.copytree(here / "made", arguments[arguments.index("--output") + 1], dirs_exist_ok=True)
if kind == "import":
    if "--force" not in arguments and (here / "made" / "deployed").exists():
        sys.exit("TtyNotAttached: Perform import?")  # as other resources of the stack are not in its template
    shutil.copytree(arguments[arguments.index("--app") + 1], here / "imported")
answers = json.loads((here / "answers").read_text())
print(answers.get(kind, ""), end="", file=sys.stderr)
sys.exit(answers.get(f"{{kind}} status", 0))
"""


@dataclass
class CdkDouble:
    """Notes how it was called, and answers as configured. `made`: templates that a synthesis writes."""

    folder: Path

    def answers(self, **given: object) -> None:
        text = {name.replace("_", " "): value for name, value in given.items()}
        (self.folder / "answers").write_text(json.dumps(text))

    def makes(self, templates: Mapping[str, Mapping[str, Any]]) -> Path:
        made = self.folder / "made"
        made.mkdir(exist_ok=True)
        for stack, resources in templates.items():
            template = {"Resources": resources, "Outputs": {"Arn": {"Value": "x"}}}
            (made / f"{stack}.template.json").write_text(json.dumps(template))
        return made

    @property
    def calls(self) -> list[list[str]]:
        log = self.folder / "calls"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    @property
    def commands(self) -> list[str]:
        return [call[2] for call in self.calls]


@pytest.fixture
def cdk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CdkDouble:
    npx = tmp_path / "npx"
    npx.write_text(NPX.format(python=sys.executable))
    npx.chmod(npx.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(command, "OUTPUT", tmp_path / "out")
    double = CdkDouble(tmp_path)
    double.answers(diff=CHANGED)
    double.makes({STORAGE: {"Documents": TABLE}})
    return double


@dataclass
class Examiner:
    """A double of the `opx` command. It fails if it gets settings of the surrounding environment."""

    folder: Path

    def ends_with(self, status: int) -> None:
        (self.folder / "status").write_text(str(status))

    @property
    def calls(self) -> list[list[str]]:
        log = self.folder / "examined"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture(autouse=True)
def examiner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examiner:
    found = Examiner(tmp_path)
    script = (
        "import json, os, pathlib, sys\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "assert not [name for name in os.environ if name.startswith('OPX_')]\n"
        "with (here / 'examined').open('a') as log:\n"
        "    log.write(json.dumps(sys.argv[1:]) + chr(10))\n"
        "sys.exit(int((here / 'status').read_text()))\n"
    )
    found.ends_with(0)
    monkeypatch.setattr(command, "OPX", (sys.executable, "-c", script))
    return found


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> AwsAccountDouble:
    """An account in which everything that is checked before synthesis is good."""
    double = AwsAccountDouble(types=TYPES)
    monkeypatch.setattr(command, "connect", lambda _: Account(ACCOUNT, double.region, double))
    monkeypatch.setattr("infra.preflight.problems", lambda *_: iter(()))
    return double


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *answers: str) -> list[str]:
    """Answers each question with the next answer, and returns the questions; without an answer the input has ended."""
    questions: list[str] = []
    left = list(answers)

    def ask(question: str) -> str:
        questions.append(question)
        if not left:
            raise EOFError
        return left.pop(0)

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    return questions


@pytest.mark.usefixtures("account")
def test_a_deployment_is_one_synthesis_one_diff_one_question_and_no_prompt_after_it(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = at_a_terminal(monkeypatch, "y")
    assert command.main(["-c", "environment=dev", "--context", "log_level=DEBUG"]) == 0
    assert questions == [f"Deploy these changes to account {ACCOUNT}, region eu-west-2? [y/N] "]
    synth, diff, deploy = cdk.calls
    pairs = chosen("bundle=true", "environment=dev", "log_level=DEBUG")
    assert synth[2:] == ["synth", "--quiet", "--output", str(cdk.folder / "out"), *pairs]
    assert diff[2:] == ["diff", "--app", str(cdk.folder / "out"), "--method", "template"]
    assert deploy[2:5] == ["deploy", "--all", "--app"]
    assert deploy[6:] == ["--require-approval", "never", "--concurrency", "4"]


def chosen(*pairs: str) -> list[str]:
    return [part for pair in pairs for part in ("-c", pair)]


@pytest.mark.usefixtures("account")
def test_without_a_terminal_nothing_begins_until_it_is_confirmed_beforehand(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert command.main([]) == 1
    assert "give YES=1" in capsys.readouterr().err
    assert cdk.calls == []
    assert command.main(["--yes"]) == 0
    assert cdk.commands == ["synth", "diff", "deploy"]


@pytest.mark.parametrize("answers", [("n",), ("",), ()], ids=["no", "enter", "end of input"])
@pytest.mark.usefixtures("account")
def test_every_answer_but_yes_changes_nothing(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch, answers: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch, *answers)
    assert command.main([]) == 1
    assert "nothing was changed" in capsys.readouterr().err
    assert "deploy" not in cdk.commands


@pytest.mark.usefixtures("account")
def test_without_differences_there_is_no_question(cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    cdk.answers(diff="✨  Number of stacks with differences: 0\n")
    assert at_a_terminal(monkeypatch) == []
    assert command.main([]) == 0
    assert cdk.commands == ["synth", "diff", "deploy"]  # CDK replaces a stack whose creation failed


@pytest.mark.parametrize(("failing", "status"), [("synth", 3), ("diff", 4), ("deploy", 5)])
@pytest.mark.usefixtures("account")
def test_the_status_of_a_failed_command_is_returned(cdk: CdkDouble, failing: str, status: int) -> None:
    cdk.answers(diff=CHANGED, **{f"{failing}_status": status})
    assert command.main(["--yes"]) == status
    assert cdk.commands[-1] == failing


@pytest.mark.usefixtures("account")
def test_a_problem_of_the_account_ends_the_deployment_before_synthesis(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infra.preflight.problems", lambda *_: iter([Problem("no bootstrap")]))
    assert command.main(["--yes"]) == 1
    assert cdk.calls == []


def test_a_problem_of_the_templates_ends_the_deployment_before_the_diff(
    cdk: CdkDouble, account: AwsAccountDouble
) -> None:
    account.types = frozenset()
    assert command.main(["--yes"]) == 1
    assert cdk.commands == ["synth"]


@pytest.mark.usefixtures("account")
def test_context_that_follows_from_the_account_is_used_unless_it_is_given(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"ingest_concurrency": "2", "query_concurrency": "4"}
    monkeypatch.setattr(command, "discovered_context", lambda *_: found)
    assert command.main(["--yes", "-c", "query_concurrency=9"]) == 0
    assert [part for part in cdk.calls[0] if "concurrency" in part] == ["query_concurrency=9", "ingest_concurrency=2"]


@pytest.mark.usefixtures("account")
def test_an_assembly_is_deployed_as_it_is(cdk: CdkDouble) -> None:
    made = cdk.makes({STORAGE: {"Documents": TABLE}})
    assert command.main(["--yes", "--app", str(made)]) == 0
    assert [call[2:4] for call in cdk.calls] == [["diff", "--app"], ["deploy", "--all"]]


@pytest.mark.usefixtures("account")
def test_an_assembly_of_another_environment_is_refused(cdk: CdkDouble, capsys: pytest.CaptureFixture[str]) -> None:
    made = cdk.makes({STORAGE: {"Documents": TABLE}})
    assert command.main(["--yes", "--app", str(made), "-c", "environment=prod"]) == 1
    assert "is no stack of environment prod" in capsys.readouterr().err
    assert cdk.calls == []


@pytest.mark.usefixtures("account", "cdk")
def test_what_was_deployed_is_examined_and_decides_about_the_status(
    examiner: Examiner, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPX_CLIENT_ID", "acme")
    examiner.ends_with(1)
    at_a_terminal(monkeypatch, "y")
    assert command.main([]) == 1
    assert examiner.calls == [["--environment", "dev", "--region", "eu-west-2", "doctor"]]
    assert "deployed, but not everything works" in capfd.readouterr().out


@pytest.mark.usefixtures("account", "cdk")
@pytest.mark.parametrize(("chosen", "options"), [("all", [["doctor"]]), ("none", [])])
def test_the_examination_of_a_deployment_without_a_question_can_be_chosen(
    examiner: Examiner, chosen: str, options: list[list[str]]
) -> None:
    assert command.main(["--yes", "--doctor", chosen]) == 0
    assert [call[4:] for call in examiner.calls] == options


@pytest.mark.usefixtures("account", "cdk")
def test_a_deployment_without_a_question_sets_no_alarm_off(examiner: Examiner) -> None:
    assert command.main(["--yes"]) == 0
    assert [call[4:] for call in examiner.calls] == [["doctor", "--without", "alarm"]]


@pytest.mark.usefixtures("account")
def test_nothing_is_examined_where_nothing_was_deployed(cdk: CdkDouble, examiner: Examiner) -> None:
    cdk.answers(deploy_status=1)
    assert command.main(["--yes"]) == 1
    assert examiner.calls == []


@pytest.mark.usefixtures("account")
def test_an_interrupt_ends_without_a_traceback(
    cdk: CdkDouble, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_a_terminal(monkeypatch)

    def interrupted(_: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    assert command.main([]) == 130
    assert "deploy again to continue" in capsys.readouterr().err
    assert "deploy" not in cdk.commands


DIFF = """
Stack opx-knowledge-dev-storage
Resources
[-] AWS::DynamoDB::Table GoneTable0F871CB8 orphan
[-] AWS::DynamoDB::Table TrialTable0F871CB8 destroy
[~] AWS::S3::Bucket Corpus/Bucket CorpusBucket76874A67 \x1b[3m\x1b[31mreplace\x1b[0m
 └─ [~] BucketName (requires replacement)
     └─ [+] Added: .Fn::Join
[~] AWS::S3::BucketPolicy Corpus/Bucket/Policy CorpusBucketPolicyD09C9FF1 replace
[~] AWS::DynamoDB::Table EntriesTable/Table EntriesTableC033B2BD may be replaced
[~] AWS::DynamoDB::Table KeysTable/Table KeysTableE819F206
[+] AWS::S3::Bucket New/Bucket NewBucket76874A67
"""
"""As CDK's command prints it."""


def test_a_diff_that_endangers_data_is_put_in_words() -> None:
    assert list(command.data_warnings(DIFF)) == [
        "the table GoneTable0F871CB8 leaves its stack: it stays in the account, costs, and keeps its name taken",
        "the table TrialTable0F871CB8 will be deleted with its data",
        "the bucket Corpus/Bucket CorpusBucket76874A67 will be replaced by an empty one",
        "the table EntriesTable/Table EntriesTableC033B2BD may be replaced by an empty one",
    ]


def adopted(cdk: CdkDouble, account: AwsAccountDouble, **changed: Any) -> int:
    cdk.makes({STORAGE: {"Documents": TABLE}, KEY: {"Key": CMK, "Alias": ALIAS}})
    account.tables = ["dev-opx-knowledge-documents"]
    account.keys = {"k-1": "OPX Knowledge, environment dev", "k-2": "Alarms"}
    for name, value in changed.items():
        setattr(account, name, value)
    return command.main(["--adopt", "--yes"])


def test_adopting_imports_the_key_by_its_id_and_the_rest_by_name(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    assert adopted(cdk, account) == 0
    assert cdk.commands == ["synth", "diff", "import", "deploy"]
    assert cdk.calls[2][3] == KEY
    assert json.loads(cdk.calls[2][-1]) == {"Key": {"KeyId": "k-1"}}
    imported = json.loads((cdk.folder / "imported" / f"{KEY}.template.json").read_text())
    assert imported == {"Resources": {"Key": CMK}, "Outputs": {}}
    assert cdk.calls[3][-1] == "--import-existing-resources"


def test_adopting_leaves_a_key_that_its_stack_has(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    stacks = {KEY: StackDouble({"Key": ("AWS::KMS::Key", "k-1")})}
    assert adopted(cdk, account, stacks=stacks) == 0
    assert cdk.commands == ["synth", "diff", "deploy"]


def test_adopting_into_a_stack_with_other_resources_does_not_prompt(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    (cdk.folder / "made" / "deployed").touch()
    assert adopted(cdk, account, stacks={KEY: StackDouble({"Alias": ("AWS::KMS::Alias", "alias/x")})}) == 0
    assert cdk.commands == ["synth", "diff", "import", "deploy"]


def test_adopting_does_not_guess_between_two_keys(
    cdk: CdkDouble, account: AwsAccountDouble, capsys: pytest.CaptureFixture[str]
) -> None:
    same = "OPX Knowledge, environment dev"
    assert adopted(cdk, account, keys={"k-1": same, "k-2": same}) == 1
    assert "several keys can be the one of opx-knowledge-dev-key: k-1, k-2" in capsys.readouterr().err
    assert "deploy" not in cdk.commands


def test_adopting_imports_a_bucket_that_exists_by_its_name_alone(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    name = {"Fn::Join": ["", ["dev-corpus-", {"Ref": "AWS::AccountId"}]]}
    bucket = {
        "Type": "AWS::S3::Bucket",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"BucketName": name, "LoggingConfiguration": {"DestinationBucketName": {"Ref": "Logs"}}},
    }
    logs = {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {}}
    cdk.makes({STORAGE: {"Corpus": bucket, "Logs": logs}})
    account.types |= {"AWS::S3::Bucket"}
    account.buckets = [f"dev-corpus-{ACCOUNT}"]
    assert command.main(["--adopt", "--yes"]) == 0
    assert json.loads(cdk.calls[2][-1]) == {"Corpus": {"BucketName": f"dev-corpus-{ACCOUNT}"}}
    imported = json.loads((cdk.folder / "imported" / f"{STORAGE}.template.json").read_text())
    assert imported["Resources"] == {"Corpus": {**bucket, "Properties": {"BucketName": name}}}


def test_adopting_finds_the_key_of_originals_by_its_name(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    name, retained = "dev-opx-originals/key", "RetainExceptOnCreate"
    secret = {"Type": "AWS::SecretsManager::Secret", "DeletionPolicy": retained, "Properties": {"Name": name}}
    cdk.makes({STORAGE: {"OriginalsKey": secret}})
    account.types |= {str(secret["Type"])}
    account.secrets = ["dev-opx-knowledge/token", "other", name]
    assert command.main(["--adopt", "--yes"]) == 0
    arn = f"arn:aws:secretsmanager:{account.region}:{ACCOUNT}:secret:{name}-aBcDeF"
    assert json.loads(cdk.calls[2][-1]) == {"OriginalsKey": {"Id": arn}}


def test_adopting_finds_a_collection_by_its_name(cdk: CdkDouble, account: AwsAccountDouble) -> None:
    stack = "opx-knowledge-dev-search"
    collection = {
        "Type": "AWS::OpenSearchServerless::Collection",
        "DeletionPolicy": "RetainExceptOnCreate",
        "Properties": {"Name": "dev-opx-knowledge"},
        "DependsOn": ["Policy"],
    }
    policy = {"Type": "AWS::OpenSearchServerless::AccessPolicy", "Properties": {"Name": "dev-opx-knowledge-read"}}
    cdk.makes({stack: {"Collection": collection, "Policy": policy}})
    account.types |= {str(collection["Type"]), str(policy["Type"])}
    account.collections = {"other": "other1", "an-other": "other2", "dev-opx-knowledge": "ours1"}
    assert adopted(cdk, account, keys={}) == 0
    assert cdk.calls[2][3:] == [
        stack,
        "--force",
        "--app",
        cdk.calls[2][6],
        "--resource-mapping-inline",
        json.dumps({"Collection": {"Id": "ours1"}}),
    ]
    imported = json.loads((cdk.folder / "imported" / f"{stack}.template.json").read_text())
    assert "DependsOn" not in imported["Resources"]["Collection"]
