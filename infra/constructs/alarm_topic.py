"""The SNS topic of alarms."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.constructs.keeping import removal_policy
from infra.names import Names

_ALARMS, _BUDGETS = "cloudwatch.amazonaws.com", "budgets.amazonaws.com"


class AlarmTopic(Construct):
    """An encrypted topic that alarms of this account publish to, and its budget if there is one, over TLS only, and an
    e-mail subscription if the deployment names an address: its owner has to confirm it.

    It has a key of its own, unless the deployment provides one: CloudWatch may not use the key that AWS manages for
    topics, and its alarms would be lost silently.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        name = f"{names.prefix}opx-knowledge-alarms"
        self._senders = [_ALARMS, *([_BUDGETS] if names.deployment.budget_usd else [])]
        key = None if names.deployment.kms_key else self._key(names, name)
        self.topic = sns.Topic(self, "Topic", topic_name=name, master_key=key, enforce_ssl=True)
        self.topic.add_to_resource_policy(_from_this_account(self._senders, ["sns:Publish"], self.topic.topic_arn))
        if names.deployment.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(names.deployment.alarm_email))

    def _key(self, names: Names, name: str) -> kms.Key:
        key = kms.Key(
            self,
            "Key",
            alias=f"alias/{name}",
            description=f"Alarms of OPX Knowledge, environment {names.deployment.environment}",
            enable_key_rotation=True,
            removal_policy=removal_policy(ephemeral=names.deployment.ephemeral),
        )
        key.add_to_resource_policy(_from_this_account(self._senders, ["kms:Decrypt", "kms:GenerateDataKey*"], "*"))
        return key


def _from_this_account(senders: list[str], actions: list[str], resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(sender) for sender in senders],
        actions=actions,
        resources=[resource],
        conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
    )
