"""Telemetry of other systems: nightly roll-up of baselines, and operational queries of agents."""

from __future__ import annotations

from aws_cdk import Environment, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs import operational_queries, rights
from infra.constructs.acknowledgements import acknowledge_wildcard
from infra.constructs.code import LayerSource
from infra.constructs.operational_queries import OperationalQueries
from infra.constructs.schedules import invocations
from infra.constructs.use_case_function import FunctionSpec, UseCaseFunction, configured_identity, table_settings
from infra.names import Names
from opx.connectors.states import scheduler_cron
from opx.domain.baselines import BASELINES_CATEGORY
from opx.ports.tables import BASELINES
from opx.runtime.knowledge_file import load_knowledge
from opx_telemetry.baselines.definitions import DAYS, declared_metrics
from opx_telemetry.prometheus import PROMETHEUS
from opx_telemetry.rules import read_telemetry

ROLL_UP_BASELINES = FunctionSpec(
    use_case="roll_up_baselines",
    dependencies="api",
    description="Adds the last days' metrics of CloudWatch to the baselines",
    memory=512,
    timeout=900,
)

READ_METRICS = ("cloudwatch:GetMetricData", "cloudwatch:ListMetrics")
ROLL_UP_FAILED = "roll-up-failed"
_AT_NIGHT = "0 2 * * *"


class OperationsStack(Stack):
    """The function that rolls up metrics into baselines, on the category's schedule, and the one that queries logs, metrics
    and traces, if some agent may.

    If knowledge.yaml declares no metrics, the schedule exists, but is disabled.
    """

    def __init__(self, scope: Construct, stack_id: str, *, names: Names, source: LayerSource, env: Environment) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: baselines and operational queries")
        self.roll_up = self._roll_up(names, source)
        self._schedule(names)
        wanted = operational_queries.are_wanted()
        self.queries = OperationalQueries(self, "OperationalQueries", names=names, source=source) if wanted else None

    @property
    def queries_arn(self) -> str:
        """The function that agents invoke; "" if none may."""
        return self.queries.target_arn if self.queries else ""

    def _roll_up(self, names: Names, source: LayerSource) -> UseCaseFunction:
        rules = read_telemetry()
        function = UseCaseFunction(
            self,
            ROLL_UP_BASELINES,
            names=names,
            source=source,
            settings={
                **table_settings(names),
                **configured_identity(names),
                **operational_queries.server_settings(names, rules),
            },
            rights=[
                rights.on_tables(names, (BASELINES,), rights.ADD_VALUES),
                *_metric_rights(),
                *operational_queries.server_rights(names, rules),
                rights.send_to(names, ROLL_UP_FAILED),
            ],
        )
        reason = "metrics are no resource: reading and listing them take none"
        acknowledge_wildcard(function.role, "*", reason)
        return function

    def _schedule(self, names: Names) -> None:
        arn, failed = self.roll_up.target_arn, ("Failed", ROLL_UP_FAILED)
        schedules = invocations(self, "Schedules", names=names, function_arn=arn, failed=failed, function=self.roll_up)
        schedules.add(
            "roll-up-baselines",
            scheduler_cron(load_knowledge().category(BASELINES_CATEGORY).schedule or _AT_NIGHT),
            description="Add the last days' metrics to the baselines",
            payload={"days": DAYS},
            enabled=bool(declared_metrics()),
        )


def _metric_rights() -> list[iam.PolicyStatement]:
    """Rights to read metrics, if knowledge.yaml declares some of CloudWatch: without, a private network needs no endpoint for
    them."""
    declared = any(one.query.namespace != PROMETHEUS for one in declared_metrics())
    return [rights.allow(READ_METRICS, "*")] if declared else []
