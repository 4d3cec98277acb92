"""Templates as tests ask about them: resources by type, references written out, everything plain data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra.template_text import listed as listed
from infra.template_text import plain as plain

STACKS = (
    "storage",
    "search",
    "ingestion",
    "retrieval",
    "sources",
    "learning",
    "operations",
    "lifecycle",
    "agent",
    "api",
    "observability",
)
Resource = dict[str, Any]

_OWN_IDS = re.compile(r'("OPX_(?:NEXT_)?SEARCH_OWN_IDS"): "<[^"]*>"')
REDUNDANT_DEPENDENCY = "W3005"
"""CDK writes DependsOn for a function's role beside the reference to it."""


@dataclass(frozen=True)
class Assembly:
    """The output of one synthesis: `templates` by the kind of stack, as written and with intrinsics as text."""

    folder: Path
    written: Mapping[str, dict[str, Any]]
    templates: Mapping[str, dict[str, Any]]
    findings: list[str]

    def resources(self, stack: str, kind: str) -> dict[str, Resource]:
        """Properties by logical id of all resources of a type, such as `S3::Bucket` or `Custom::SearchIndex`."""
        found, wanted = self.templates[stack]["Resources"], kind if kind.startswith("Custom::") else f"AWS::{kind}"
        return {name: r.get("Properties", {}) for name, r in found.items() if r["Type"] == wanted}

    def only(self, stack: str, kind: str) -> Resource:
        (resource,) = self.resources(stack, kind).values()
        return resource

    def all_resources(self) -> Iterator[tuple[str, str, Resource]]:
        """Stack, logical id and the whole resource."""
        for stack, template in self.templates.items():
            for name, resource in template["Resources"].items():
                yield stack, name, resource

    def path(self, stack: str) -> Path:
        (found,) = self.folder.glob(f"*-{stack}.template.json")
        return found


def synthesise(context: Mapping[str, object], outdir: Path, console_files: Path | None = None) -> Assembly:
    """Synthesise in this process. Bundling is left out, and findings of cdk-nag are collected instead of raised."""
    from infra.application import build, new_app

    app = new_app({"aws:cdk:bundling-stacks": [], **context}, str(outdir))
    build(app, **({"console_files": console_files} if console_files else {}))
    return synthesised(app, outdir)


def synthesised(app: cdk.App, outdir: Path) -> Assembly:
    """The assembly that an app synthesises into `outdir`."""
    findings: list[str] = []
    try:
        app.synth()
    except RuntimeError as exc:
        if "ValidationFailed" not in str(exc):
            raise
    report = json.loads((outdir / "validation-report.json").read_text())
    for plugin in report["pluginReports"]:
        findings += [_finding(violation) for violation in plugin["violations"] if violation["severity"] == "error"]
    files = sorted(outdir.glob("*.template.json"))
    written = {_kind(file): json.loads(file.read_text()) for file in files}
    return Assembly(outdir, written, {name: _deployed(plain(template)) for name, template in written.items()}, findings)


def _deployed(template: Any) -> dict[str, Any]:
    """The template with what the function that creates the index finds out on most collections."""
    found: dict[str, Any] = json.loads(_OWN_IDS.sub(r'\1: "on"', json.dumps(template)))
    return found


def _kind(template: Path) -> str:
    """`opx-knowledge-dev-storage.template.json` is of kind `storage`."""
    return template.name.removesuffix(".template.json").split("-", 3)[-1]


def has_our_code(function: Resource) -> bool:
    """True for functions of `lambdas/`, and not for those with which CDK provides custom resources."""
    name = str(function.get("FunctionName", ""))
    return "opx-" in name and not name.endswith("-provider")


def lint_findings(assembly: Assembly, stack: str) -> list[str]:
    """Findings of cfn-lint on a template. Equal templates of several environments are checked once."""
    return list(_linted(json.dumps(assembly.written[stack])))


@cache
def _linted(template: str) -> tuple[str, ...]:
    from cfnlint.decode import decode_str  # type: ignore[import-untyped]

    decoded, errors = decode_str(template)
    return tuple(str(match) for match in errors or _linter().validate_template(decoded))


@cache
def _linter() -> Any:
    """One for all templates: cfn-lint takes longer to load its rules than to apply them."""
    # Here, as every process of the test run imports this module, and one lints.
    from cfnlint.config import ConfigMixIn  # type: ignore[import-untyped]
    from cfnlint.runner import Runner  # type: ignore[import-untyped]

    return Runner(ConfigMixIn(regions=["eu-central-1"], ignore_checks=[REDUNDANT_DEPENDENCY]))


def _finding(violation: Mapping[str, Any]) -> str:
    where = ", ".join(construct["constructPath"] for construct in violation["violatingConstructs"])
    return f"{violation['ruleName']} at {where}"
