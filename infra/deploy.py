"""Deploys one environment: checks, one synthesis, one diff, one question, no prompt after it, and an examination at the end.

`python -m infra.deploy [--yes] [--adopt] [--app FOLDER] [-c key=value]...`, which `make deploy` and `make adopt` call.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError

from infra import preflight
from infra.assembly_checks import IMPORTED, KEPT, Assembly, Resource, assembly_problems, search_resources, secret_arns
from infra.command_line import CDK, context_of
from infra.configuration import ContextError, Deployment
from infra.constructs.layer_contents import ROOT
from infra.names import Names
from infra.preflight import Account, Problem, UnreachableError, connect, discovered_context, report

OUTPUT = ROOT / "cdk.out"
INTERRUPTED = 130

_DATA = {
    "AWS::DynamoDB::Table": "table",
    "AWS::KMS::Key": "key",
    "AWS::Logs::LogGroup": "log group",
    "AWS::OpenSearchServerless::Collection": "search collection",
    "AWS::S3::Bucket": "bucket",
    "AWS::SecretsManager::Secret": "secret",
}
"""Types of resources that keep data, in words."""

_EFFECTS = {
    "destroy": "will be deleted with its data",
    "orphan": "leaves its stack: it stays in the account, costs, and keeps its name taken",
    "replace": "will be replaced by an empty one",
    "may be replaced": "may be replaced by an empty one",
}
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CHANGE = re.compile(rf"\[[-~]\] (AWS::\S+) (.+) ({'|'.join(_EFFECTS)})$", re.MULTILINE)
_DIFFERENCES = re.compile(r"Number of stacks with differences: (\d+)")

OPX = (sys.executable, "-c", "from opx.system import command; command()")
"""The `opx` command of this environment."""

EXAMINATIONS = {"all": (), "quiet": ("--without", "alarm"), "none": None}
"""Options of `opx doctor` after a deployment; `quiet` sets no alarm off, so that it notifies nobody."""


class StoppedError(Exception):
    """The deployment ends here. The message says why, and `status` is the exit status."""

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Options:
    """`app`: an assembly that exists already, in place of a synthesis. `adopt`: retained resources are taken back.
    `doctor`: one of `EXAMINATIONS`; by default `all` at a terminal, and `quiet` for a deployment without a question."""

    context: tuple[str, ...]
    yes: bool
    adopt: bool
    app: Path | None
    doctor: str = "all"

    @classmethod
    def parsed(cls, arguments: Sequence[str]) -> Options:
        parser = argparse.ArgumentParser(prog="python -m infra.deploy", description=__doc__)
        parser.add_argument("-c", "--context", action="append", default=[], metavar="KEY=VALUE")
        parser.add_argument("--yes", action="store_true", help="deploy without a question, for pipelines")
        parser.add_argument("--adopt", action="store_true", help="take back what an earlier deployment retained")
        parser.add_argument("--app", type=Path, metavar="FOLDER", help="deploy this assembly, made by `make synth`")
        examined = "how the deployed system is examined (default: all; with --yes quiet, which sets no alarm off)"
        parser.add_argument("--doctor", choices=EXAMINATIONS, help=examined)
        found = parser.parse_args(arguments)
        doctor = found.doctor or ("quiet" if found.yes else "all")
        return cls(tuple(found.context), found.yes, found.adopt, found.app, doctor)


def deploy(options: Options) -> int:
    """Deploys; returns the exit status. Raises `StoppedError` for whatever keeps it from being done."""
    if not options.yes and not sys.stdin.isatty():
        raise StoppedError("there is no terminal to confirm the changes at: give YES=1 (or --yes) to deploy unattended")
    context = context_of([part for pair in options.context for part in ("-c", pair)])
    deployment = Deployment.from_context(context)
    account = connect(deployment)
    _stop_for(preflight.problems(deployment, account.clients))
    assembly = _assembly(options, context, deployment, account)
    _stop_for(assembly_problems(assembly))
    if options.adopt:
        for item in assembly.left_over:
            _line(f"to be taken back: {item.type} {'/'.join(item.name)}")
    if _differences(assembly.folder):
        _confirm(options, account)
    if options.adopt:
        _import(deployment, assembly)
    adopting = ["--import-existing-resources"] if options.adopt else []
    unattended = ["--require-approval", "never", "--concurrency", "4"]
    _cdk("deploy", "--all", "--app", str(assembly.folder), *unattended, *adopting)
    return _examine(options, deployment, account)


def _examine(options: Options, deployment: Deployment, account: Account) -> int:
    """Uses what was deployed (`opx doctor`); returns its exit status."""
    chosen = EXAMINATIONS[options.doctor]
    if chosen is None:
        return 0
    where = ("--environment", deployment.environment, "--region", account.region)
    others = {name: value for name, value in os.environ.items() if not name.startswith("OPX_")}
    status = subprocess.run([*OPX, *where, "doctor", *chosen], check=False, env=others).returncode  # noqa: S603
    if status:
        _line("deployed, but not everything works: do what is listed above, then `opx doctor` again")
    return status


def _stop_for(problems: Iterable[Problem]) -> None:
    if report(problems):
        raise StoppedError("nothing was changed")


def _assembly(options: Options, context: Mapping[str, Any], deployment: Deployment, account: Account) -> Assembly:
    """The given assembly, or the one that the context describes."""
    found = {key: value for key, value in discovered_context(deployment, account.clients).items() if key not in context}
    assembly = Assembly(options.app or _synthesise(options, found), account, options.adopt)
    foreign = [stack for stack in assembly.stacks if not stack.startswith(Names(deployment).stack(""))]
    if foreign:
        raise StoppedError(
            f"{foreign[0]} is no stack of environment {deployment.environment}: give the assembly's context"
        )
    return assembly


def _synthesise(options: Options, found: Mapping[str, str]) -> Path:
    pairs = ["bundle=true", *options.context, *(f"{key}={value}" for key, value in found.items())]
    for key, value in found.items():
        _line(f"-c {key}={value}")
    _cdk("synth", "--quiet", "--output", str(OUTPUT), *(part for pair in pairs for part in ("-c", pair)))
    return OUTPUT


def _differences(folder: Path) -> bool:
    """Prints the changes of all stacks, with a warning for each resource that keeps data and would lose it. Compares
    templates, which leaves no change set behind if the answer is no."""
    shown = _cdk("diff", "--app", str(folder), "--method", "template", captured=True)
    for warning in data_warnings(shown):
        _line(f"warning: {warning}")
    count = _DIFFERENCES.search(shown)
    return count is None or count[1] != "0"


def data_warnings(diff: str) -> Iterator[str]:
    """A warning for each resource with data that a diff would delete, replace or leave behind."""
    for kind, resource, effect in _CHANGE.findall(_COLOUR.sub("", diff)):
        if kind in _DATA:
            yield f"the {_DATA[kind]} {resource} {_EFFECTS[effect]}"


def _confirm(options: Options, account: Account) -> None:
    if options.yes:
        return
    verb = "Deploy these changes and take resources back, in" if options.adopt else "Deploy these changes to"
    try:
        answer = input(f"{verb} account {account.number}, region {account.region}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise StoppedError("nothing was changed")


def _import(deployment: Deployment, assembly: Assembly) -> None:
    """Imports what a deployment itself doesn't find, as it looks for names that are written in a template only."""
    missing = [item for item in assembly.resources if item.kept and (item.stack, item.logical_id) not in assembly.held]
    mappings: dict[str, dict[str, dict[str, str]]] = {}
    for item in missing:
        if identifier := _identifier(deployment, assembly, item):
            mappings.setdefault(item.stack, {})[item.logical_id] = identifier
    for stack, mapping in mappings.items():
        with tempfile.TemporaryDirectory() as folder:
            _reduce(assembly.folder, Path(folder), stack, set(mapping))
            # Forced, as it would ask about resources of an existing stack, which it leaves as they are.
            _cdk("import", stack, "--force", "--app", folder, "--resource-mapping-inline", json.dumps(mapping))


def _identifier(deployment: Deployment, assembly: Assembly, item: Resource) -> dict[str, str]:
    """The identifier of the retained resource that a template means; empty if there is none."""
    if item.type not in IMPORTED:
        return {}
    if item.type == "AWS::KMS::Key":
        found = _keys(deployment, assembly.account, str(item.properties.get("Description", "")))
    elif item.type == "AWS::S3::Bucket":
        found = [*item.name] if item in assembly.left_over else []
    else:
        clients = assembly.account.clients
        is_secret = item.type == "AWS::SecretsManager::Secret"
        names = secret_arns(clients) if is_secret else search_resources(clients, item.type)
        found = [names[item.name[0]]] if item.name and item.name[0] in names else []
    if len(found) > 1:
        raise StoppedError(
            f"several keys can be the one of {item.stack}: {', '.join(found)}. Schedule those for deletion that encrypt "
            "nothing any more, or name the right one with -c kms_key=ARN"
        )
    return {IMPORTED[item.type]: found[0]} if found else {}


def _keys(deployment: Deployment, account: Account, description: str) -> list[str]:
    """Ids of the enabled keys of an environment with a description."""
    filters = [
        {"Key": "application", "Values": ["opx-knowledge"]},
        {"Key": "environment", "Values": [deployment.environment]},
    ]
    pages = account.clients("resourcegroupstaggingapi").get_paginator("get_resources")
    tagged = pages.paginate(TagFilters=filters, ResourceTypeFilters=["kms:key"])
    arns = [entry["ResourceARN"] for page in tagged for entry in page["ResourceTagMappingList"]]
    keys = [account.clients("kms").describe_key(KeyId=arn)["KeyMetadata"] for arn in arns]
    return [key["KeyId"] for key in keys if key["Description"] == description and key["KeyState"] == "Enabled"]


def _reduce(assembly: Path, folder: Path, stack: str, logical_ids: set[str]) -> None:
    """Copies an assembly with only those resources in a stack's template, and of a bucket only its name: the import of one
    resource may not wait for another that doesn't exist yet. The deployment that follows has the rest."""
    for path in assembly.glob("*.json"):
        shutil.copy(path, folder)
    path = folder / f"{stack}.template.json"
    template: dict[str, Any] = json.loads(path.read_text())
    kept = {name: template["Resources"][name] for name in logical_ids}
    for resource in kept.values():
        assert resource["DeletionPolicy"] in KEPT
        resource.pop("DependsOn", None)
        if name := resource["Properties"].get("BucketName"):
            resource["Properties"] = {"BucketName": name}
    path.write_text(json.dumps({**template, "Resources": kept, "Outputs": {}}))


def _cdk(*arguments: str, captured: bool = False) -> str:
    """Runs CDK's command, and returns its output if that is captured, printing it at the same time."""
    npx = shutil.which("npx")
    if not npx:
        raise StoppedError("npx is missing: install Node.js 22 or newer")
    environment = os.environ | {"CDK_DISABLE_VERSION_CHECK": "1"}
    if captured and sys.stdout.isatty():
        environment["FORCE_COLOR"] = "1"
    sys.stdout.flush()
    output, errors = (subprocess.PIPE, subprocess.STDOUT) if captured else (None, None)
    command = [npx, "--yes", CDK, *arguments]
    with subprocess.Popen(  # noqa: S603
        command, cwd=ROOT, env=environment, text=True, stdout=output, stderr=errors
    ) as process:
        try:
            lines = [_printed(line) for line in process.stdout or ()]
            status = process.wait()
        except KeyboardInterrupt:
            process.wait()  # which got the interrupt too
            raise
    if status:
        raise StoppedError(f"cdk {arguments[0]} failed", status)
    return "".join(lines)


def _printed(line: str) -> str:
    sys.stdout.write(line)
    sys.stdout.flush()
    return line


def _line(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def main(arguments: Sequence[str]) -> int:
    try:
        return deploy(Options.parsed(arguments))
    except StoppedError as exc:
        problem, status = str(exc), exc.status
    except (ContextError, UnreachableError, BotoCoreError) as exc:
        problem, status = str(exc), 1
    except KeyboardInterrupt:
        problem = "interrupted: CloudFormation finishes or undoes what it has begun; deploy again to continue"
        status = INTERRUPTED
    print(f"error: {problem}", file=sys.stderr)  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
