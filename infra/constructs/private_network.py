"""The network of functions: subnets, made here or existing, and endpoints for the services that the functions call.

Endpoints follow from the functions' rights: a service that no function may call has none, and one that a function may call
can't be forgotten. The same rights are the endpoints' policies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import aws_cdk as cdk
import jsii
from aws_cdk import Aws, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchserverless as aoss
from constructs import Construct, IConstruct

from infra.configuration import ALL_ENDPOINTS, is_zone_id, listed
from infra.constructs.acknowledgements import acknowledge
from infra.constructs.keeping import removal_policy
from infra.constructs.use_case_function import LOG_RETENTION, UseCaseFunction
from infra.names import Names

ZONES = 2

GATEWAYS: Mapping[str, ec2.GatewayVpcEndpointAwsService] = {
    "dynamodb": ec2.GatewayVpcEndpointAwsService.DYNAMODB,
    "s3": ec2.GatewayVpcEndpointAwsService.S3,
}
"""Services with endpoints in route tables, which are free."""

COLLECTION = "aoss-data"
CLASSIC_COLLECTION = "aoss"
"""The data planes of collections. Names of next-generation ones end in `on.aws`, which other endpoints don't resolve;
endpoints of classic ones are made by the service itself."""

_ENDPOINTS: Mapping[str, str] = {
    "aoss": "",  # the collection's, which is made beforehand
    "bedrock:InvokeModel": "bedrock-runtime",
    "bedrock:InvokeModelWithResponseStream": "bedrock-runtime",
    "bedrock:ListIngestionJobs": "bedrock-agent",
    "bedrock:Rerank": "bedrock-agent-runtime",
    "bedrock:Retrieve": "bedrock-agent-runtime",
    "bedrock:StartIngestionJob": "bedrock-agent",
    "cloudwatch": "monitoring",
    "iam": "",  # roles are passed to services, which check the right
}
"""Names of endpoints by action or by prefix of actions, if they differ from the prefix; "" for those without a call."""

_IDS: Mapping[str, str] = {
    "bedrock-agent": "KnowledgeBaseJobs",
    "bedrock-agent-runtime": "KnowledgeBase",
    "bedrock-runtime": "Models",
    "dynamodb": "Tables",
    "monitoring": "Metrics",
    "s3": "Objects",
    "sqs": "Queues",
    "xray": "Traces",
}
"""Construct ids of endpoints in deployed networks. With another id, CloudFormation would make a second endpoint before it
deletes the first, and AWS refuses two with the same private name."""

_ISOLATED = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
_ELSEWHERE = re.compile(r'"Fn::GetAtt"|"Ref": "(?!AWS::)')
"""References to resources in resolved values; pseudo parameters are none."""

_CONNECT = ("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces")
_CONNECT_MORE = ("ec2:AssignPrivateIpAddresses", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses")
"""Rights of a function's role with which Lambda, not the function, connects it: the managed policy
AWSLambdaVPCAccessExecutionRole without its rights on logs."""


class PrivateNetwork(Construct):
    """Subnets, a security group for functions, and endpoints.

    Without an existing network, subnets in two zones are made that have no way out, and functions in them may only speak
    TLS. `collection_endpoints` are the ids of the endpoints through which search collections are reached, by generation.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.vpc = self._existing() if names.deployment.vpc_id else self._made()
        self.functions = self._functions_group()
        self.endpoints: list[str] = []
        """Names of the services whose endpoints are made here."""
        deployment = names.deployment
        generations = dict.fromkeys(filter(None, (deployment.search_generation, deployment.next_search_generation)))
        self.collection_endpoints = {
            generation: deployment.vpc_collection_endpoint or self._collection_endpoint(generation)
            for generation in generations
        }

    @property
    def subnet_ids(self) -> list[str]:
        return [subnet.subnet_id for subnet in self.vpc.isolated_subnets]

    def connect(self, functions: Sequence[UseCaseFunction]) -> None:
        """Makes an endpoint for each service that these functions may call, unless the existing network has it."""
        known = listed(self._names.deployment.vpc_endpoints)
        for name in sorted(services_of(functions).difference(known)) if known != [ALL_ENDPOINTS] else ():
            found = self._gateway(name) if name in GATEWAYS else self._interface(name)
            found.add_to_policy(self._policy(name, functions))
            self.endpoints.append(name)

    def _policy(self, name: str, functions: Sequence[UseCaseFunction]) -> iam.PolicyStatement:
        """Lets these functions' roles, and nobody else, do through the endpoint what their rights on the service allow.

        Gateways accept roles only in a condition.
        """
        calling = {function: _rights_on(name, function) for function in functions}
        rights = [right for found in calling.values() for right in found]
        roles = sorted(function.role_arn for function, found in calling.items() if found)
        return iam.PolicyStatement(
            principals=[iam.StarPrincipal()],
            actions=sorted({action for actions, _ in rights for action in actions}),
            resources=self._named(name, (arn for _, arns in rights for arn in arns)),
            conditions={"ArnEquals": {"aws:PrincipalArn": roles}},
        )

    def _named(self, name: str, arns: Iterable[str]) -> list[str]:
        """These resources, except those that only a stack knows which depends on this one: they become all queues of the
        environment, or all resources of the account in that service."""
        found = set()
        for arn in arns:
            if not _ELSEWHERE.search(json.dumps(Stack.of(self).resolve(arn))):
                found.add(arn)
            elif name == "sqs":
                found.add(self._names.queue_arn("*"))
            else:
                service = name.partition("-")[0]
                found.add(f"arn:{Aws.PARTITION}:{service}:{Aws.REGION}:{Aws.ACCOUNT_ID}:*")
        return sorted(found)

    def _interface(self, name: str) -> ec2.InterfaceVpcEndpoint:
        return self.vpc.add_interface_endpoint(
            _IDS.get(name, name.title()),
            service=ec2.InterfaceVpcEndpointAwsService(name),
            subnets=_ISOLATED,
            security_groups=[self._endpoints_group],
            open=False,
        )

    def _gateway(self, name: str) -> ec2.GatewayVpcEndpoint:
        return self.vpc.add_gateway_endpoint(_IDS[name], service=GATEWAYS[name], subnets=[_ISOLATED])

    def _collection_endpoint(self, generation: str) -> str:
        """Next-generation collections are reached through an endpoint of EC2, classic ones through one of their own. Neither
        has a policy: access policies of the collection list the roles."""
        nextgen = generation == "nextgen"
        self.endpoints.append(COLLECTION if nextgen else CLASSIC_COLLECTION)
        if nextgen:
            endpoint = self.vpc.add_interface_endpoint(
                "Collection",
                service=ec2.InterfaceVpcEndpointAwsService(COLLECTION),
                subnets=_ISOLATED,
                security_groups=[self._endpoints_group],
                open=False,
            )
            return endpoint.vpc_endpoint_id
        return aoss.CfnVpcEndpoint(
            self,
            "ClassicCollection",
            name=self._names.system,
            vpc_id=self.vpc.vpc_id,
            subnet_ids=self.subnet_ids,
            security_group_ids=[self._endpoints_group.security_group_id],
        ).ref

    def _functions_group(self) -> ec2.ISecurityGroup:
        if existing := self._names.deployment.vpc_security_group:
            return ec2.SecurityGroup.from_security_group_id(self, "Functions", existing, mutable=False)
        group = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, description="OPX Knowledge functions", allow_all_outbound=False
        )
        group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "endpoints of services, over TLS")
        return group

    @cached_property
    def _endpoints_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "Endpoints", vpc=self.vpc, description="OPX Knowledge endpoints", allow_all_outbound=False
        )
        group.add_ingress_rule(self.functions, ec2.Port.tcp(443), "functions, over TLS")
        return group

    def _existing(self) -> ec2.IVpc:
        """The network of the deployment's choices. Its zones are nowhere used; subnets have to differ in them."""
        deployment = self._names.deployment
        return ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=deployment.vpc_id,
            availability_zones=[f"zone-{subnet}" for subnet in listed(deployment.vpc_subnets)],
            isolated_subnet_ids=listed(deployment.vpc_subnets),
            isolated_subnet_route_table_ids=listed(deployment.vpc_route_tables) or None,
        )

    def _made(self) -> ec2.IVpc:
        zones = listed(self._names.deployment.vpc_zones)
        vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=self._names.system,
            max_azs=None if zones else ZONES,
            availability_zones=zones or None,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="functions", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
            restrict_default_security_group=False,  # it would take a function with wide rights to do so
        )
        for subnet, zone in zip(vpc.isolated_subnets, zones, strict=bool(zones)):
            written = subnet.node.default_child
            assert isinstance(written, ec2.CfnSubnet)
            written.availability_zone = None if is_zone_id(zone) else zone
            written.availability_zone_id = zone if is_zone_id(zone) else None
        self._log_flows(vpc)
        return vpc

    def _log_flows(self, vpc: ec2.Vpc) -> None:
        group = logs.LogGroup(
            self,
            "Flows",
            retention=LOG_RETENTION,
            removal_policy=removal_policy(ephemeral=self._names.deployment.ephemeral),
        )
        destination = ec2.FlowLogDestination.to_cloud_watch_logs(group)
        vpc.add_flow_log("FlowLog", destination=destination, traffic_type=ec2.FlowLogTrafficType.REJECT)


def services_of(functions: Iterable[UseCaseFunction]) -> set[str]:
    """Names of the endpoints through which these functions reach the services that their code may call, without that of
    the collection."""
    actions = {action for function in functions for right in function.rights for action in right.actions}
    return set(filter(None, map(endpoint_of, actions)))


def endpoint_of(action: str) -> str:
    """The endpoint of an action's service; "" if it is called from outside of functions, or is the collection's."""
    prefix = action.partition(":")[0]
    return _ENDPOINTS.get(action, _ENDPOINTS.get(prefix, prefix))


def _rights_on(name: str, function: UseCaseFunction) -> list[tuple[list[str], list[str]]]:
    """Actions of a function on an endpoint's service, each with resources."""
    found = []
    for right in function.rights:
        actions = [action for action in right.actions if endpoint_of(action) == name]
        if actions:
            found.append((actions, right.resources))
    return found


@jsii.implements(cdk.IAspect)
class RunInside:
    """Puts every function with a use case into the network, and lets Lambda connect it."""

    def __init__(self, network: PrivateNetwork) -> None:
        self._network = network

    def visit(self, node: IConstruct) -> None:
        if not isinstance(node, UseCaseFunction):
            return
        function = node.function.node.default_child
        assert isinstance(function, lambda_.CfnFunction)
        function.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
            subnet_ids=self._network.subnet_ids,
            security_group_ids=[self._network.functions.security_group_id],
        )
        node.role.add_to_policy(iam.PolicyStatement(actions=[*_CONNECT, *_CONNECT_MORE], resources=["*"]))
        acknowledge(node.role, "IAM5[Resource::*]", "network interfaces have no names before Lambda makes them")
