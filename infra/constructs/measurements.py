"""Metrics for dashboards and alarms: our own from the library's declarations, those of AWS as documented."""

from __future__ import annotations

from aws_cdk import Aws, Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from opx.runtime.metrics import ENVIRONMENT, NAMESPACE, Metric, dimension_sets

FIVE_MINUTES = Duration.minutes(5)


class UndeclaredMetricError(ValueError):
    """The metric is never reported with these dimensions."""


class Measurements:
    """The metrics of one environment."""

    def __init__(self, environment: str) -> None:
        self._environment = environment

    def of(
        self,
        metric: Metric,
        statistic: str,
        *,
        period: Duration = FIVE_MINUTES,
        label: str = "",
        **labels: str,
    ) -> cloudwatch.Metric:
        """One of our metrics. Raises `UndeclaredMetricError` for labels that it isn't broken down by."""
        if not any(set(names) == {ENVIRONMENT, *labels} for names in dimension_sets(metric)):
            raise UndeclaredMetricError(f"{metric} is not reported by {', '.join(labels) or 'the environment alone'}")
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric.value,
            dimensions_map={ENVIRONMENT: self._environment, **labels},
            statistic=statistic,
            period=period,
            label=label or None,
        )


def of_function(name: str, function: str, statistic: str, *, label: str = "") -> cloudwatch.Metric:
    """A metric of AWS/Lambda over all versions of the function."""
    return _of_aws("AWS/Lambda", name, {"FunctionName": function}, statistic, label)


def of_queue(name: str, queue: str, statistic: str, *, label: str = "") -> cloudwatch.Metric:
    return _of_aws("AWS/SQS", name, {"QueueName": queue}, statistic, label)


def of_model(name: str, model: str, statistic: str, *, label: str = "") -> cloudwatch.Metric:
    """A metric of AWS/Bedrock on the calls of a model, or of an inference profile, by the whole account."""
    return _of_aws("AWS/Bedrock", name, {"ModelId": model}, statistic, label)


def of_collections(name: str, *, label: str = "") -> cloudwatch.Metric:
    """A metric of AWS/AOSS on the capacity of all collections of the account: there is none per collection. AWS documents
    the sum of a minute as its statistic, so that longer periods would show multiples."""
    dimensions = {"ClientId": Aws.ACCOUNT_ID}
    return _of_aws("AWS/AOSS", name, dimensions, "Sum", label).with_(period=Duration.minutes(1))


def of_vault(name: str, vault: str) -> cloudwatch.Metric:
    """A metric of AWS/Backup on the jobs of a vault."""
    return _of_aws("AWS/Backup", name, {"BackupVaultName": vault}, "Sum", "")


def _of_aws(namespace: str, name: str, dimensions: dict[str, str], statistic: str, label: str) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=FIVE_MINUTES,
        label=label or None,
    )
