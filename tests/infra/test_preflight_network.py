"""Checks of a private network before a deployment: zones of endpoints, and what an existing VPC has already. Answers are
validated against AWS's own descriptions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from infra import preflight
from infra.application import endpoints_of
from infra.configuration import Deployment
from infra.preflight import network

REGION, ZONES = "eu-central-1", ("eu-central-1a", "eu-central-1b", "eu-central-1c")
VPC, SUBNETS, TABLE = "vpc-0a1b2c3d", ("subnet-0a1b2c3d", "subnet-1a1b2c3d"), "rtb-0a1b2c3d"
MADE = [
    *("aoss-data", "bedrock-runtime", "dynamodb", "s3"),
    *("scheduler", "secretsmanager", "sqs", "textract"),
]
EXISTING = {"vpc": "true", "vpc_id": VPC, "vpc_subnets": ",".join(SUBNETS), "vpc_route_tables": f"{TABLE},{TABLE}"}


def endpoint(name: str, **changed: Any) -> dict[str, Any]:
    """An endpoint that another deployment made."""
    described = {
        "VpcEndpointId": "vpce-1",
        "VpcEndpointType": "Interface",
        **_named(name),
        "State": "available",
        "PrivateDnsEnabled": True,
    }
    return {**described, **changed}


@dataclass(frozen=True)
class Region:
    """EC2 with a VPC, its subnets' zones and its endpoints; a service may be `lacking` in a zone, or `absent` everywhere."""

    lacking: Mapping[str, str] = field(default_factory=dict)
    absent: str = ""
    others: tuple[dict[str, Any], ...] = ()
    places: tuple[tuple[str, str], ...] = ((VPC, ZONES[0]), (VPC, ZONES[1]))
    resolves: bool = True

    def client(self, existing: bool) -> Any:
        """A client that expects exactly the calls for a network made here, or for an existing one."""
        client = boto3.client("ec2", region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x")
        stubber = Stubber(client)
        if existing:
            for operation, answer in self._existing():
                stubber.add_response(operation, answer)
        names = {*MADE, "sqs-fips"} - {"dynamodb", "s3", self.absent}
        services = [
            {**_named(name), "AvailabilityZones": [zone for zone in ZONES if self.lacking.get(zone) != name]}
            for name in names
        ]
        stubber.add_response("describe_vpc_endpoint_services", {"ServiceDetails": services})
        zones = [{"ZoneName": zone, "ZoneId": f"euc1-az{number}"} for number, zone in enumerate(ZONES, 2)]
        stubber.add_response("describe_availability_zones", {"AvailabilityZones": zones})
        stubber.activate()
        return client

    def _existing(self) -> Iterator[tuple[str, dict[str, Any]]]:
        subnets = [
            {"SubnetId": subnet, "VpcId": vpc, "AvailabilityZone": zone}
            for subnet, (vpc, zone) in zip(SUBNETS, self.places, strict=True)
        ]
        yield "describe_subnets", {"Subnets": subnets}
        yield "describe_vpc_attribute", {"EnableDnsSupport": {"Value": True}}
        yield "describe_vpc_attribute", {"EnableDnsHostnames": {"Value": self.resolves}}
        yield "describe_vpc_endpoints", {"VpcEndpoints": list(self.others)}


def _named(name: str) -> dict[str, str]:
    return {"ServiceName": f"com.amazonaws.{REGION}.{name}"}


@pytest.fixture(autouse=True)
def _made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "endpoints_of", lambda deployment: list(MADE))  # found once, below: it takes seconds


def reported(region: Region, **context: object) -> list[tuple[str, bool]]:
    deployment = Deployment.from_context({"vpc": "true", **context})
    clients: dict[str, Any] = {"ec2": region.client(existing="vpc_id" in context)}
    return [(problem.text, problem.fatal) for problem in network(deployment, clients.__getitem__)]


def test_these_endpoints_are_those_of_the_stacks() -> None:
    assert sorted(endpoints_of(Deployment(vpc=True))) == MADE


def test_without_a_network_nothing_is_checked() -> None:
    clients: dict[str, Any] = {}
    assert list(network(Deployment(), clients.__getitem__)) == []


def test_zones_with_all_endpoints_are_no_problem() -> None:
    assert reported(Region(), vpc_zones="eu-central-1a,eu-central-1c") == []
    assert reported(Region(lacking={ZONES[2]: "textract"})) == []


@pytest.mark.parametrize(
    ("context", "fatal"),
    [({}, False), ({"vpc_zones": "eu-central-1b,eu-central-1c"}, True), ({"vpc_zones": "euc1-az4,euc1-az3"}, True)],
)
def test_a_zone_without_an_endpoint_is_reported_with_those_that_have_all(
    context: dict[str, object], fatal: bool
) -> None:
    ((text, is_fatal),) = reported(Region(lacking={ZONES[1]: "textract"}), **context)
    assert text == (
        "zone eu-central-1b has no endpoints for textract: choose -c vpc_zones=eu-central-1a,eu-central-1c (zones with all "
        "endpoints: eu-central-1a, eu-central-1c)"
    )
    assert is_fatal is fatal


def test_a_region_without_an_endpoint_is_reported() -> None:
    reasons = [text for text, fatal in reported(Region(absent="scheduler")) if fatal]
    assert reasons == ["this region has no endpoints for scheduler: a private network can't reach it here"]


def test_an_empty_vpc_is_no_problem() -> None:
    assert reported(Region(), **EXISTING) == []


def test_endpoints_of_an_earlier_deployment_are_ours() -> None:
    tags = [{"Key": "application", "Value": "opx-knowledge"}, {"Key": "environment", "Value": "dev"}]
    assert reported(Region(others=(endpoint("sqs", Tags=tags),)), **EXISTING) == []
    assert len(reported(Region(others=(endpoint("sqs", Tags=tags),)), **EXISTING, environment="prod")) == 1


@pytest.mark.parametrize(
    ("region", "context", "reason", "fatal"),
    [
        (
            {"others": (endpoint("sqs"),)},
            {},
            r"endpoint for sqs already \(vpce-1\).* add -c vpc_endpoints=...,sqs",
            True,
        ),
        ({"others": (endpoint("aoss-data"),)}, {}, "add -c vpc_collection_endpoint=vpce-1", True),
        (
            {"others": (endpoint("s3", VpcEndpointType="Gateway", PrivateDnsEnabled=False, RouteTableIds=[TABLE]),)},
            {},
            "endpoint for s3 already",
            True,
        ),
        (
            {"places": ((VPC, ZONES[0]), ("vpc-9", ZONES[1]))},
            {},
            "subnet-1a1b2c3d is in vpc-9, not in vpc-0a1b2c3d",
            True,
        ),
        ({"places": ((VPC, ZONES[0]), (VPC, ZONES[0]))}, {}, "two of vpc_subnets are in the same zone", True),
        ({"resolves": False}, {}, "vpc-0a1b2c3d has enableDnsHostnames off", True),
        (
            {"lacking": {ZONES[0]: "sqs"}},
            {},
            "zone eu-central-1a has no endpoints for sqs: choose other vpc_subnets",
            True,
        ),
        ({}, {"vpc_endpoints": "kms"}, "has no endpoint for kms, which vpc_endpoints names", False),
    ],
)
def test_a_vpc_that_can_not_take_the_endpoints_is_reported(
    region: dict[str, Any], context: dict[str, object], reason: str, fatal: bool
) -> None:
    ((text, is_fatal),) = reported(Region(**region), **EXISTING, **context)
    assert re.search(reason, text)
    assert is_fatal is fatal


@pytest.mark.parametrize(
    "other",
    [
        endpoint("sqs", PrivateDnsEnabled=False),
        endpoint("sqs", State="deleted"),
        endpoint("kms"),
        endpoint("s3", VpcEndpointType="Gateway", PrivateDnsEnabled=False, RouteTableIds=["rtb-9"]),
    ],
)
def test_endpoints_that_are_not_in_the_way_are_left_alone(other: dict[str, Any]) -> None:
    assert reported(Region(others=(other,)), **EXISTING) == []
