"""The private network: each service that a function may call has an endpoint, and each endpoint lets only that through."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import Environment
from aws_cdk.assertions import Template
from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader

from infra import network
from infra.application import new_app
from infra.configuration import ContextError, Deployment
from infra.names import Names
from infra.network import NetworkStack, refuse_unreachable
from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDefinition, WebhookDefinition
from opx.ports.telemetry import MetricQuery
from opx.settings import Settings
from opx_telemetry.baselines.definitions import MetricDefinition
from tests.infra.templates import Assembly, has_our_code, lint_findings, listed
from tests.infra.test_functions import environment
from tests.infra.test_operational_queries import configure

SUBNETS = "subnet-0a1b2c3d4e5f60718, subnet-1a1b2c3d4e5f60718"
EXISTING = {"vpc": "true", "vpc_id": "vpc-0a1b2c3d4e5f60718", "vpc_subnets": SUBNETS}
GROUP, OTHERS_ENDPOINT = "sg-0a1b2c3d4e5f60718", "vpce-0a1b2c3d4e5f60718"
MOST_POLICY_CHARACTERS = 20_480
ROLE = "arn:<AWS::Partition>:iam::<AWS::AccountId>:role/dev-opx-{}-<AWS::Region>"

CALLED_BY_SERVICES = (
    "ec2:",  # Lambda connects the function
    "iam:PassRole",  # checked by the service that gets the role
    "kafka",
    "kinesis:",
    "kms:",  # S3, DynamoDB, SQS and Lambda use the key on the function's behalf
    "logs:CreateLogStream",
    "logs:PutLogEvents",
    "sqs:ChangeMessageVisibility",  # Lambda polls queues and streams
    "sqs:DeleteMessage",
    "sqs:GetQueueUrl",
    "sqs:ReceiveMessage",
    "xray:PutTelemetryRecords",  # Lambda's daemon sends traces
    "xray:PutTraceSegments",
)
"""Actions of functions' roles that are used from outside of the function, and so from outside of its network."""

CLIENTS = ("", "-runtime", "-agent", "-agent-runtime")
"""Suffixes of clients that share the prefix of their actions, as those of Bedrock."""


@cache
def host_of(action: str) -> str:
    """The first part of the host name that botocore connects to for an action, or `collection`."""
    prefix, _, operation = action.partition(":")
    if prefix == "aoss":
        return "collection"
    models = []
    for suffix in CLIENTS:
        try:
            models.append(Loader().load_service_model(prefix + suffix, "service-2"))
        except UnknownServiceError:
            continue
    named = [model for model in models if operation in model["operations"]]
    return str((named or models)[0]["metadata"]["endpointPrefix"])


def called(assembly: Assembly) -> dict[str, set[str]]:
    """The hosts that each function in the network may call, by the function's name."""
    found: dict[str, set[str]] = {}
    for stack in assembly.templates:
        roles = {
            properties["Role"].strip("<>").removesuffix(".Arn"): properties["FunctionName"]
            for properties in assembly.resources(stack, "Lambda::Function").values()
            if "VpcConfig" in properties
        }
        for policy in assembly.resources(stack, "IAM::Policy").values():
            for function in {roles[role.strip("<>")] for role in policy["Roles"] if role.strip("<>") in roles}:
                statements = policy["PolicyDocument"]["Statement"]
                actions = {action for statement in statements for action in listed(statement["Action"])}
                hosts = {host_of(action) for action in actions if not action.startswith(CALLED_BY_SERVICES)}
                found.setdefault(function, set()).update(hosts)
    return found


def endpoints(assembly: Assembly) -> dict[str, dict[str, Any]]:
    """Endpoints that the network makes, by host; that of the collection, of either kind, is `collection`."""
    made = {
        str(properties["ServiceName"]).rsplit(".", 1)[-1]: properties
        for properties in assembly.resources("network", "EC2::VPCEndpoint").values()
    }
    for properties in assembly.resources("network", "OpenSearchServerless::VpcEndpoint").values():
        made["aoss-data"] = properties
    return {"collection" if host == "aoss-data" else host: properties for host, properties in made.items()}


def unreachable(assembly: Assembly) -> set[str]:
    """Functions with the hosts that they may call and can't reach."""
    made = endpoints(assembly)
    return {f"{name}: {host}" for name, hosts in called(assembly).items() for host in hosts - made.keys()}


@pytest.fixture(scope="module")
def everything(make: Callable[..., Assembly]) -> Assembly:
    """All that adds a service: models, a managed knowledge base, telemetry, webhooks; on a classic collection."""
    cpu = MetricDefinition("cpu", MetricQuery("AWS/EC2", "CPUUtilization", "InstanceId"))
    hook = WebhookDefinition("a", Tier.INTERNAL, "operations/alerts", "github", ("webhook-a",))
    with pytest.MonkeyPatch.context() as patch:
        configure(patch)
        patch.setattr("infra.operations.declared_metrics", lambda: (cpu,))
        patch.setattr("infra.webhooks.load_webhooks", lambda knowledge: {"a": hook})
        return make(
            vpc="true",
            webhooks="true",
            gateway_auth="jwt",
            jwt_issuer="https://issuer.example",
            jwt_audience="opx",
            knowledge_base="bedrock",
            search_generation="classic",
            reranker="bedrock",
            rerank_model="amazon.rerank-v1:0",
            vision_model="eu.amazon.nova-lite-v1:0",
        )


@pytest.fixture(scope="module")
def existing(make: Callable[..., Assembly]) -> Assembly:
    """A VPC that has the endpoints of two services and a way out; the fewest services."""
    return make(
        **EXISTING,
        vpc_route_tables="rtb-0a1b2c3d4e5f60718, rtb-0a1b2c3d4e5f60718",
        vpc_endpoints="s3, sqs",
        vpc_internet="true",
        ocr="off",
        api_auth="none",
        agent="none",
    )


@pytest.fixture(scope="module")
def shared(make: Callable[..., Assembly]) -> Assembly:
    """A VPC that has everything."""
    return make(
        **EXISTING, vpc_endpoints="all", vpc_collection_endpoint=OTHERS_ENDPOINT, vpc_security_group=GROUP, ocr="off"
    )


class TestEndpoints:
    def test_each_service_that_a_function_may_call_has_an_endpoint(self, private: Assembly) -> None:
        assert unreachable(private) == set()
        assert endpoints(private).keys() == {
            *("bedrock-runtime", "collection", "dynamodb", "s3", "scheduler", "secretsmanager", "sqs", "textract")
        }

    def test_each_further_choice_has_its_endpoints(self, everything: Assembly) -> None:
        assert unreachable(everything) == set()
        assert endpoints(everything).keys() == {
            *(
                "bedrock-agent",
                "bedrock-agent-runtime",
                "bedrock-runtime",
                "collection",
                "dynamodb",
                "logs",
                "monitoring",
            ),
            *("s3", "scheduler", "secretsmanager", "sqs", "textract", "xray"),
        }

    def test_services_that_no_function_may_call_have_none(self, existing: Assembly) -> None:
        assert endpoints(existing).keys() == {"bedrock-runtime", "collection", "dynamodb", "secretsmanager"}
        assert {host for hosts in called(existing).values() for host in hosts} - endpoints(existing).keys() == {
            "s3",
            "sqs",
        }

    def test_a_classic_collection_has_one_of_its_own_kind(self, everything: Assembly) -> None:
        (endpoint,) = everything.resources("network", "OpenSearchServerless::VpcEndpoint").values()
        assert len(endpoint["SubnetIds"]) == 2

    def test_the_collection_answers_through_its_endpoint_alone(self, private: Assembly, shared: Assembly) -> None:
        for assembly, expected in ((private, "NetworkVpcCollection"), (shared, OTHERS_ENDPOINT)):
            policies = assembly.resources("search", "OpenSearchServerless::SecurityPolicy").values()
            (policy,) = (json.loads(p["Policy"]) for p in policies if p["Type"] == "network")
            assert policy[0]["AllowFromPublic"] is False
            (endpoint,) = policy[0]["SourceVPCEs"]
            assert expected in endpoint


def policy_of(assembly: Assembly, host: str) -> tuple[set[str], set[str], set[str]]:
    """Functions, actions and resources of an endpoint's policy, which lets nobody else in."""
    (statement,) = endpoints(assembly)[host]["PolicyDocument"]["Statement"]
    assert (statement["Effect"], statement["Principal"]) == ("Allow", "*")
    assert list(statement["Condition"]) == ["ArnEquals"]
    (roles,) = statement["Condition"]["ArnEquals"].values()
    assert list(statement["Condition"]["ArnEquals"]) == ["aws:PrincipalArn"]
    start, end = ROLE.split("{}")
    functions = {role.removeprefix(start).removesuffix(end) for role in listed(roles)}
    return functions, set(listed(statement["Action"])), set(listed(statement["Resource"]))


class TestPolicies:
    @pytest.mark.parametrize(
        ("host", "functions", "actions", "resources"),
        [
            ("textract", "ingest-documents", "textract:DetectDocumentText", {"*"}),
            (
                "scheduler",
                "manage-knowledge",
                "scheduler:CreateSchedule scheduler:DeleteSchedule scheduler:UpdateSchedule",
                {"arn:<AWS::Partition>:scheduler:<AWS::Region>:<AWS::AccountId>:schedule/dev-opx-knowledge/source-*"},
            ),
            (
                "secretsmanager",
                "manage-knowledge pull-sources seal-knowledge",
                "secretsmanager:GetSecretValue",
                {
                    f"arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:dev-opx-{name}"
                    for name in ("knowledge/*", "seal/signing-key-??????")
                },
            ),
            (
                "bedrock-runtime",
                "ingest-documents process-checkpoint rebuild-index retrieve-knowledge",
                "bedrock:InvokeModel",
                {"arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"},
            ),
            (
                "sqs",
                (
                    "ingest-documents learn-from-events manage-knowledge process-checkpoint prune-knowledge pull-sources "
                    "rebuild-index record-announcements report-coverage retrieve-knowledge roll-up-baselines "
                    "seal-knowledge"
                ),
                "sqs:GetQueueAttributes sqs:SendMessage",
                {
                    f"arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-{queue}"
                    for queue in (
                        *("*", "checkpoints", "ingest", "pulls", "rebuilds"),
                        *("announcements-failed", "coverage-failed", "gaps-failed", "learning-failed"),
                        *("prune-failed", "relink-failed", "roll-up-failed", "seal-failed"),
                    )
                },
            ),
        ],
    )
    def test_each_lets_these_functions_do_this_and_nothing_else(
        self, private: Assembly, host: str, functions: str, actions: str, resources: set[str]
    ) -> None:
        assert policy_of(private, host) == (set(functions.split()), set(actions.split()), resources)

    @pytest.mark.parametrize("host", ["dynamodb", "s3"])
    def test_routes_lead_to_tables_and_objects_that_functions_have_rights_on(
        self, private: Assembly, host: str
    ) -> None:
        functions, actions, resources = policy_of(private, host)
        assert functions == {name.removeprefix("dev-opx-") for name, hosts in called(private).items() if host in hosts}
        granted = [
            statement
            for stack in private.templates
            for policy in private.resources(stack, "IAM::Policy").values()
            for statement in policy["PolicyDocument"]["Statement"]
            if {action for action in listed(statement["Action"]) if action.startswith(f"{host}:")}
        ]
        assert actions <= {action for statement in granted for action in listed(statement["Action"])}
        assert resources == {arn for statement in granted for arn in listed(statement["Resource"])}
        assert not any(arn in ("*", f"arn:<AWS::Partition>:{host}:::*") for arn in resources)

    def test_a_knowledge_base_made_later_is_one_of_the_account(self, everything: Assembly) -> None:
        _, actions, resources = policy_of(everything, "bedrock-agent")
        assert actions == {"bedrock:ListIngestionJobs", "bedrock:StartIngestionJob"}
        assert resources == {"arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:*"}

    def test_the_longest_is_shorter_than_ec2_allows(self, everything: Assembly) -> None:
        real = {"<AWS::Partition>": "aws-us-gov", "<AWS::Region>": "ap-southeast-2", "<AWS::AccountId>": "1" * 12}
        lengths = []
        for endpoint in endpoints(everything).values():
            text = json.dumps(endpoint.get("PolicyDocument", ""))
            for name, value in {**real, "dev-opx": "tencharact-opx"}.items():
                text = text.replace(name, value)
            lengths.append(len(text))
        assert 2_000 < max(lengths) < MOST_POLICY_CHARACTERS


class TestExistingNetwork:
    def test_functions_run_in_its_subnets(self, existing: Assembly, shared: Assembly) -> None:
        for assembly, group in ((existing, "NetworkFunctions"), (shared, GROUP)):
            functions = [
                r["Properties"] for _, _, r in assembly.all_resources() if r["Type"] == "AWS::Lambda::Function"
            ]
            ours = [each["VpcConfig"] for each in functions if has_our_code(each)]
            assert ours
            for config in ours:
                assert config["SubnetIds"] == SUBNETS.split(", ")
                assert group in json.dumps(config["SecurityGroupIds"])

    def test_routes_are_added_to_its_tables_once(self, existing: Assembly) -> None:
        assert endpoints(existing)["dynamodb"]["RouteTableIds"] == ["rtb-0a1b2c3d4e5f60718"]

    def test_nothing_is_made_in_one_that_has_everything(self, shared: Assembly) -> None:
        assert "network" not in shared.templates
        assert not [kind for _, _, resource in shared.all_resources() if "EC2" in (kind := resource["Type"])]

    def test_cdk_nag_and_cfn_lint_find_nothing(
        self, existing: Assembly, everything: Assembly, shared: Assembly
    ) -> None:
        assert (existing.findings, everything.findings, shared.findings) == ([], [], [])
        for assembly in (existing, everything):
            assert lint_findings(assembly, "network") == []


@pytest.mark.parametrize(
    ("zones", "attribute"),
    [("eu-central-1b,eu-central-1c", "AvailabilityZone"), ("euc1-az1,euc1-az2,euc1-az3", "AvailabilityZoneId")],
)
def test_subnets_are_in_the_chosen_zones_without_a_look_up(zones: str, attribute: str) -> None:
    app = new_app()
    names = Names(Deployment(vpc=True, vpc_zones=zones))
    stack = NetworkStack(app, "network", names=names, env=Environment(account="1" * 12, region="eu-central-1"))
    subnets = Template.from_stack(stack).find_resources("AWS::EC2::Subnet").values()
    assert [subnet["Properties"][attribute] for subnet in subnets] == zones.split(",")
    assert "missing" not in json.loads((Path(app.synth().directory) / "manifest.json").read_text())


class TestInternet:
    @pytest.fixture(autouse=True)
    def _configured(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = {
            kind: SourceDefinition(kind, kind, "runbooks", Tier.INTERNAL, enabled=kind != "nvd", options=options)
            for kind, options in (("rfc", {}), ("s3_prefix", {"bucket": "notes"}), ("nvd", {}))
        }
        hooks = {
            kind: WebhookDefinition(kind, Tier.INTERNAL, "operations/alerts", kind) for kind in ("github", "cloudwatch")
        }
        monkeypatch.setattr(network, "declared_sources", lambda knowledge: sources)
        monkeypatch.setattr(network, "load_webhooks", lambda knowledge: hooks)

    def test_features_that_need_it_are_refused_in_a_network_without(self) -> None:
        with pytest.raises(ContextError) as refused:
            refuse_unreachable(Deployment(vpc=True, webhooks=True))
        assert str(refused.value).startswith(
            "context vpc=true: source rfc (rfc) fetches from the internet; webhook cloudwatch (cloudwatch) fetches the "
            "certificates of Amazon SNS. The network has no way to the internet: "
        )

    def test_live_search_is_one_of_them(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(network, "read_section", lambda name: name)
        with pytest.raises(ContextError, match="section internet searches the web"):
            refuse_unreachable(Deployment(vpc=True))

    def test_a_vpc_with_a_way_there_takes_them(self) -> None:
        refuse_unreachable(Deployment.from_context({**EXISTING, "vpc_endpoints": "all", "vpc_internet": "true"}))
        refuse_unreachable(Deployment(webhooks=True))


@pytest.mark.parametrize(("chosen", "expected"), [("private", "off"), ("existing", "on"), ("default", "on")])
def test_functions_that_pull_know_whether_they_have_a_way_out(
    chosen: str, expected: str, request: pytest.FixtureRequest
) -> None:
    assert Settings.from_environ(environment(request.getfixturevalue(chosen), "sources")).internet == expected


def test_every_endpoint_is_in_the_guide(private: Assembly, everything: Assembly) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text().partition("## Private network")[2]
    section = guide.partition("\n## ")[0]
    hosts = {*endpoints(private), *endpoints(everything)} - {"collection"}
    assert {host for host in (*hosts, "aoss-data") if f"`{host}`" not in section} == set()
