"""A budget of the environment's costs, which sends to the topic of alarms."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.names import APPLICATION, Names

SPENT_PERCENT, FORECAST_PERCENT = 80, 100


class MonthlyBudget(Construct):
    """US dollars a month for resources with the environment's tags, which have to be activated as cost allocation tags.

    Notifies at `SPENT_PERCENT` of the costs so far, and when more than the whole is forecast.
    """

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, dollars: int, topic: sns.ITopic) -> None:
        super().__init__(scope, construct_id)
        tags = {"application": APPLICATION, "environment": names.deployment.environment}
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"{names.prefix}opx-knowledge",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=dollars, unit="USD"),
                filter_expression=budgets.CfnBudget.ExpressionProperty(
                    and_=[
                        budgets.CfnBudget.ExpressionProperty(
                            tags=budgets.CfnBudget.TagValuesProperty(key=key, values=[value], match_options=["EQUALS"])
                        )
                        for key, value in tags.items()
                    ]
                ),
                metrics=["UnblendedCost"],
            ),
            notifications_with_subscribers=[
                _notification("ACTUAL", SPENT_PERCENT, topic),
                _notification("FORECASTED", FORECAST_PERCENT, topic),
            ],
        )


def _notification(kind: str, percent: int, topic: sns.ITopic) -> budgets.CfnBudget.NotificationWithSubscribersProperty:
    return budgets.CfnBudget.NotificationWithSubscribersProperty(
        notification=budgets.CfnBudget.NotificationProperty(
            comparison_operator="GREATER_THAN",
            notification_type=kind,
            threshold=percent,
            threshold_type="PERCENTAGE",
        ),
        subscribers=[budgets.CfnBudget.SubscriberProperty(address=topic.topic_arn, subscription_type="SNS")],
    )
