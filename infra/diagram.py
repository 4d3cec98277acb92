"""Generates the architecture diagram from the templates: `python -m infra.diagram docs/architecture.md`.

The diagram is Mermaid text between two marks of the file: resources and the flow between them, read from event sources,
rules, schedules, routes, redrive policies and the rights of roles. None of it is written by hand, so that it is accurate.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.template_text import listed, plain

BEGIN, END = "<!-- stacks: begin -->", "<!-- stacks: end -->"

_SHAPES = {
    "S3::Bucket": ("S3", "[(", ")]"),
    "DynamoDB::Table": ("DynamoDB", "[(", ")]"),
    "SQS::Queue": ("SQS", "[[", "]]"),
    "Lambda::Function": ("Lambda", "[", "]"),
    "Events::EventBus": ("EventBridge", "[[", "]]"),
    "Scheduler::Schedule": ("Scheduler", "([", "])"),
    "ApiGatewayV2::Api": ("HTTP API", "{{", "}}"),
    "BedrockAgentCore::Gateway": ("AgentCore Gateway", "{{", "}}"),
    "Bedrock::Agent": ("Bedrock agent", "{{", "}}"),
    "Bedrock::KnowledgeBase": ("Bedrock knowledge base", "[(", ")]"),
    "OpenSearchServerless::Collection": ("OpenSearch Serverless", "[(", ")]"),
    "StepFunctions::StateMachine": ("Step Functions", "[[", "]]"),
    "CloudWatch::Alarm": ("CloudWatch alarms", "([", "])"),
    "SNS::Topic": ("SNS", "[[", "]]"),
}
"""Drawn resources by type: the service's usual name, and the shape."""

_GROUPED = {"DynamoDB::Table": "tables", "Scheduler::Schedule": "schedules", "CloudWatch::Alarm": "alarms"}
"""Types drawn as one node per stack, with their number."""

_NAMES = ("BucketName", "TableName", "QueueName", "FunctionName", "TopicName", "AgentName", "StateMachineName", "Name")
_USERS = (
    "Lambda::Function",
    "BedrockAgentCore::Gateway",
    "Bedrock::Agent",
    "Bedrock::KnowledgeBase",
    "StepFunctions::StateMachine",
)
"""Types with a role, whose rights are drawn."""

DRAWN = {"bulk": "true"}
"""Choices of the environment that is drawn: the default, and bulk jobs."""

_MODELS = "models"
_WRITES = re.compile(r"(Put|Delete|Write|Send|Update|Abort|Start|Purge|Change)")


@dataclass(frozen=True)
class Node:
    """A resource, or all of a kind in a stack. `names` are the physical names by which others refer to it."""

    id: str
    kind: str
    label: str
    names: tuple[str, ...] = ()

    def drawn(self) -> str:
        service, opening, closing = _SHAPES[self.kind]
        return f'{self.id}{opening}"{self.label}<br/><small>{service}</small>"{closing}'


@dataclass
class Picture:
    """Nodes by stack, and edges between them with their label and whether they are the path of failures."""

    stacks: dict[str, list[Node]] = field(default_factory=dict)
    edges: dict[tuple[str, str], tuple[str, bool]] = field(default_factory=dict)

    def join(self, source: str, target: str, what: str = "", *, failing: bool = False) -> None:
        if source and target and source != target:
            known, _ = self.edges.get((source, target), ("", False))
            self.edges[source, target] = (what if not known or "write" in what else known, failing)

    def mermaid(self) -> str:
        lines = ["flowchart LR"]
        for stack, nodes in self.stacks.items():
            lines += [f"  subgraph {stack}", *(f"    {node.drawn()}" for node in nodes), "  end"]
        if any(target == _MODELS for _, target in self.edges):
            lines.append(f'  {_MODELS}(["embedding model<br/><small>Bedrock</small>"])')
        for (source, target), (what, failing) in sorted(self.edges.items()):
            arrow = "-.->" if failing else "-->"
            lines.append(f"  {source} {arrow}{f'|{what}|' if what else ''} {target}")
        return "\n".join(lines)


class _Reader:
    """Reads the templates of one environment; `prefix` is the environment's prefix of names."""

    def __init__(self, templates: Mapping[str, Mapping[str, Any]], prefix: str) -> None:
        self._templates = templates
        self._prefix = prefix
        self.picture = Picture()
        self._by_logical_id: dict[tuple[str, str], str] = {}

    def read(self) -> Picture:
        for stack in self._templates:
            self.picture.stacks[stack] = list(self._nodes(stack))
        self.picture.stacks = {stack: nodes for stack, nodes in self.picture.stacks.items() if nodes}
        for stack, name, kind, properties in self._resources():
            self._join(stack, name, kind, properties)
        return self.picture

    def _resources(self, only: str = "") -> Iterator[tuple[str, str, str, dict[str, Any]]]:
        for stack, template in self._templates.items():
            if only in ("", stack):
                for name, resource in template["Resources"].items():
                    yield stack, name, resource["Type"].removeprefix("AWS::"), resource.get("Properties", {})

    def _nodes(self, stack: str) -> Iterator[Node]:
        grouped: dict[str, list[str]] = {}
        for _, logical_id, kind, properties in self._resources(stack):
            physical = self._physical(properties)
            if kind not in _SHAPES or (not physical and kind in ("S3::Bucket", "Lambda::Function")):
                continue  # helpers of CDK, and the bucket of access logs
            if kind in _GROUPED:
                grouped.setdefault(kind, []).append(physical)
                self._by_logical_id[stack, logical_id] = f"{stack}_{_GROUPED[kind]}"
                continue
            label = physical.removeprefix(self._prefix).split("-<")[0] or _SHAPES[kind][0]
            node = Node(f"{stack}_{_without_hash(logical_id)}", kind, label, (physical,) if physical else ())
            self._by_logical_id[stack, logical_id] = node.id
            yield node
        for kind, names in grouped.items():
            plural = _GROUPED[kind]
            label = f"{len(names)} {plural}" if len(names) > 1 else plural.removesuffix("s")
            yield Node(f"{stack}_{plural}", kind, label, tuple(filter(None, names)))

    @staticmethod
    def _physical(properties: Mapping[str, Any]) -> str:
        return next((str(properties[key]) for key in _NAMES if key in properties), "")

    def _node_of(self, stack: str, reference: str) -> str:
        """The node that a reference or an ARN points to: by logical id in the stack, else by the longest name in it."""
        logical = re.match(r"<(\w+)(?:\.\w+)?>$", reference)
        if logical and (stack, logical[1]) in self._by_logical_id:
            return self._by_logical_id[stack, logical[1]]
        if logical and logical[1] in self._templates[stack].get("Parameters", {}):
            return self._published(self._templates[stack]["Parameters"][logical[1]]["Default"])
        every = [(name, node.id) for nodes in self.picture.stacks.values() for node in nodes for name in node.names]
        inside = [
            (len(name), node) for name, node in every if re.search(rf"[:/]{re.escape(name)}(?:[:/]|$)", reference)
        ]
        return max(inside)[1] if inside else ""

    def _published(self, parameter: str) -> str:
        """The node whose attribute is published in SSM under this name, in any stack."""
        for stack, _, kind, properties in self._resources():
            if kind == "SSM::Parameter" and properties["Name"] == parameter:
                return self._node_of(stack, properties["Value"])
        return ""

    def _join(self, stack: str, name: str, kind: str, properties: Mapping[str, Any]) -> None:
        here = self._by_logical_id.get((stack, name), "")
        join = self.picture.join
        if kind == "Events::Rule":
            bucket = properties["EventPattern"].get("detail", {}).get("bucket", {}).get("name", [""])[0]
            bus = self._node_of(stack, str(properties.get("EventBusName", "")))
            source = self._node_of(stack, f"s3:/{bucket}") if bucket else bus
            for target in properties["Targets"]:
                join(source, self._node_of(stack, target["Arn"]), "changes" if bucket else "events")
                join(source, self._node_of(stack, target.get("DeadLetterConfig", {}).get("Arn", "")), failing=True)
        elif kind == "Lambda::EventSourceMapping":
            function = self._node_of(stack, str(properties["FunctionName"]))
            join(self._node_of(stack, properties["EventSourceArn"]), function, "messages")
        elif kind == "SQS::Queue" and "RedrivePolicy" in properties:
            dead = properties["RedrivePolicy"]["deadLetterTargetArn"]
            join(here, self._node_of(stack, dead), failing=True)
        elif kind == "Scheduler::Schedule":
            join(here, self._node_of(stack, properties["Target"]["Arn"]), "at fixed times")
        elif kind == "ApiGatewayV2::Integration":
            api = self._node_of(stack, str(properties["ApiId"]))
            join(api, self._node_of(stack, str(properties["IntegrationUri"])), "requests")
        elif kind == "CloudWatch::Alarm":
            for action in properties.get("AlarmActions", []):
                join(here, self._node_of(stack, str(action)))
        elif kind == "IAM::Policy":
            self._join_rights(stack, properties)

    def _join_rights(self, stack: str, policy: Mapping[str, Any]) -> None:
        """Adds edges from the owner of a role to the resources that the role may use."""
        roles = {f"<{reference.strip('<>')}.Arn>" for reference in policy["Roles"]}
        owners = [
            self._by_logical_id[stack, name]
            for _, name, kind, properties in self._resources(stack)
            if kind in _USERS
            and (stack, name) in self._by_logical_id
            and any(properties.get(key) in roles for key in ("Role", "RoleArn", "AgentResourceRoleArn"))
        ]
        for owner in owners:
            for statement in policy["PolicyDocument"]["Statement"]:
                for resource in listed(statement["Resource"]):
                    self._join_right(stack, owner, listed(statement["Action"]), str(resource))

    def _join_right(self, stack: str, owner: str, actions: list[str], resource: str) -> None:
        if any(action.startswith("bedrock:InvokeModel") for action in actions):
            self.picture.join(owner, _MODELS, "embeds")
            return
        if any(action in ("sqs:ReceiveMessage", "sqs:DeleteMessage") for action in actions):
            return  # drawn as the queue's messages
        self.picture.join(owner, self._node_of(stack, resource), _what(actions))


def _what(actions: list[str]) -> str:
    """Label of a right's edge. Access policies, which aren't read here, define the rights in a collection."""
    if any(action in ("lambda:InvokeFunction", "aoss:APIAccessAll") for action in actions):
        return ""
    return "writes" if any(_WRITES.search(action) for action in actions) else "reads"


def _without_hash(logical_id: str) -> str:
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def draw(templates: Mapping[str, Mapping[str, Any]], prefix: str = "dev-") -> str:
    """The Mermaid text of templates (by kind of stack) whose intrinsic functions are written out as text."""
    return f"```mermaid\n{_Reader(templates, prefix).read().mermaid()}\n```"


def replaced(document: str, made: str, *, begin: str = BEGIN, end: str = END) -> str:
    """The document with this text between the marks. Raises `ValueError` if it has none."""
    if begin not in document or end not in document:
        raise ValueError(f"the document has no marks {begin} and {end}")
    before, _, rest = document.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{made}\n{end}{after}"


def synthesised() -> dict[str, dict[str, Any]]:
    """The templates of the drawn environment by kind of stack, written out as text."""
    from infra.application import build, new_app

    with tempfile.TemporaryDirectory() as folder:
        app = new_app({"aws:cdk:bundling-stacks": [], **DRAWN}, folder)
        build(app)
        app.synth()
        files = sorted(Path(folder).glob("*.template.json"))
        return {file.name.split(".")[0].split("-", 3)[-1]: plain(json.loads(file.read_text())) for file in files}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.write_text(replaced(target.read_text(), draw(synthesised())))
