"""A network without internet access: functions in it reach only the services they use, through endpoints."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
import jsii
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchserverless as aoss
from constructs import Construct, IConstruct

from infra.constructs.acknowledgements import acknowledge
from infra.constructs.keeping import removal_policy
from infra.constructs.operational_queries import are_wanted
from infra.constructs.use_case_function import LOG_RETENTION, UseCaseFunction
from infra.names import Names
from opx.telemetry.baselines.definitions import declared_metrics

ZONES = 2
SERVICES: Mapping[str, ec2.InterfaceVpcEndpointAwsService] = {
    "Queues": ec2.InterfaceVpcEndpointAwsService.SQS,
    "Models": ec2.InterfaceVpcEndpointAwsService.BEDROCK_RUNTIME,
}
"""Services that functions call besides S3 and DynamoDB, whose endpoints are free, and the collection, which has its own."""

COLLECTIONS = ec2.InterfaceVpcEndpointAwsService("aoss-data")
"""The data plane of next-generation collections: their names end in `on.aws`, which other endpoints don't resolve."""

MANAGED_KNOWLEDGE: Mapping[str, ec2.InterfaceVpcEndpointAwsService] = {
    "KnowledgeBase": ec2.InterfaceVpcEndpointAwsService.BEDROCK_AGENT_RUNTIME,
    "KnowledgeBaseJobs": ec2.InterfaceVpcEndpointAwsService.BEDROCK_AGENT,
}
RERANKING: Mapping[str, ec2.InterfaceVpcEndpointAwsService] = {
    "KnowledgeBase": ec2.InterfaceVpcEndpointAwsService.BEDROCK_AGENT_RUNTIME,
}
"""The same endpoint: texts are ranked by the service that also answers for knowledge bases."""

TELEMETRY: Mapping[str, ec2.InterfaceVpcEndpointAwsService] = {
    "Metrics": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_MONITORING,
    "Logs": ec2.InterfaceVpcEndpointAwsService.CLOUDWATCH_LOGS,
    "Traces": ec2.InterfaceVpcEndpointAwsService.XRAY,
}
"""Services of telemetry for agents; metrics are also rolled up into baselines."""

_CONNECT = ("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces")
_CONNECT_MORE = ("ec2:AssignPrivateIpAddresses", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses")
"""Rights of a function's role with which Lambda, not the function, connects it: the managed policy
AWSLambdaVPCAccessExecutionRole without its rights on logs."""


class PrivateNetwork(Construct):
    """Subnets in two zones with endpoints, and a security group for functions, which may only speak TLS.

    `collection_endpoint` is the id of the endpoint through which the search collection is reached.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            vpc_name=names.collection,
            max_azs=ZONES,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(name="functions", subnet_type=ec2.SubnetType.PRIVATE_ISOLATED, cidr_mask=24)
            ],
            gateway_endpoints={
                "Objects": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3),
                "Tables": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.DYNAMODB),
            },
            restrict_default_security_group=False,  # it would take a function with wide rights to do so
        )
        self._log_flows(names)
        self.functions = ec2.SecurityGroup(
            self, "Functions", vpc=self.vpc, description="OPX Knowledge functions", allow_all_outbound=False
        )
        self.functions.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "endpoints of services, over TLS")
        endpoints = self._endpoints_group()
        managed = MANAGED_KNOWLEDGE if names.deployment.knowledge_base == "bedrock" else {}
        ranking = RERANKING if names.deployment.reranker == "bedrock" else {}
        for name, service in {**SERVICES, **managed, **ranking, **telemetry_endpoints()}.items():
            self.vpc.add_interface_endpoint(name, service=service, security_groups=[endpoints], open=False)
        self.collection_endpoint = self._collection_endpoint(names, endpoints)

    @property
    def subnet_ids(self) -> list[str]:
        return [subnet.subnet_id for subnet in self.vpc.isolated_subnets]

    def _collection_endpoint(self, names: Names, group: ec2.ISecurityGroup) -> str:
        """Next-generation collections are reached through an endpoint of EC2, classic ones through one of their own."""
        if names.deployment.search_generation == "nextgen":
            endpoint = self.vpc.add_interface_endpoint(
                "Collection", service=COLLECTIONS, security_groups=[group], open=False
            )
            return endpoint.vpc_endpoint_id
        return aoss.CfnVpcEndpoint(
            self,
            "ClassicCollection",
            name=names.collection,
            vpc_id=self.vpc.vpc_id,
            subnet_ids=self.subnet_ids,
            security_group_ids=[group.security_group_id],
        ).ref

    def _endpoints_group(self) -> ec2.SecurityGroup:
        group = ec2.SecurityGroup(
            self, "Endpoints", vpc=self.vpc, description="OPX Knowledge endpoints", allow_all_outbound=False
        )
        group.add_ingress_rule(self.functions, ec2.Port.tcp(443), "functions, over TLS")
        return group

    def _log_flows(self, names: Names) -> None:
        group = logs.LogGroup(
            self,
            "Flows",
            retention=LOG_RETENTION,
            removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
        )
        destination = ec2.FlowLogDestination.to_cloud_watch_logs(group)
        self.vpc.add_flow_log("FlowLog", destination=destination, traffic_type=ec2.FlowLogTrafficType.REJECT)


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


def telemetry_endpoints() -> Mapping[str, ec2.InterfaceVpcEndpointAwsService]:
    """Only endpoints that knowledge.yaml has a use for: they are billed by the hour."""
    if are_wanted():
        return TELEMETRY
    return {"Metrics": TELEMETRY["Metrics"]} if declared_metrics() else {}
