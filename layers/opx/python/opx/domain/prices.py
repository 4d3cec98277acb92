"""Holds prices of AWS, for estimates of a deployment, of a bulk job and of a month's use."""

from __future__ import annotations

from collections.abc import Mapping

PRICES_DATE = "2026-11"
PRICES: Mapping[str, float] = {
    "OpenSearch Serverless, OCU-hour": 0.24,
    "OpenSearch Serverless, GB-month": 0.024,
    "S3, GB-month": 0.023,
    "S3, 1,000 writes": 0.005,
    "S3, 1,000 reads": 0.0004,
    "S3 events on EventBridge, million": 1.00,
    "DynamoDB, million writes of 1 KB": 0.625,
    "DynamoDB, million reads of 4 KB": 0.125,
    "DynamoDB, GB-month": 0.25,
    "DynamoDB recovery, GB-month": 0.20,
    "AWS Backup of DynamoDB, GB-month": 0.10,
    "AWS Backup of S3, GB-month": 0.05,
    "Lambda arm64, GB-second": 0.0000133334,
    "Lambda, million calls": 0.20,
    "SnapStart cache, GB-second": 0.0000015046,
    "SnapStart restore, GB": 0.0001397998,
    "SQS, million requests": 0.40,
    "HTTP API, million requests": 1.00,
    "AgentCore Gateway, 1,000 calls": 0.005,
    "Titan Text Embeddings V2, million tokens": 0.02,
    "Cohere Embed v4, million tokens": 0.12,
    "Titan Text Embeddings V2 in batches, million tokens": 0.01,
    "Cohere Embed v4 in batches, million tokens": 0.06,
    "Step Functions, 1,000 transitions": 0.025,
    "Step Functions, million express requests": 1.00,
    "Step Functions express, GB-second": 0.00001667,
    "S3 inventory, million objects": 0.0025,
    "Secret, month": 0.40,
    "CloudWatch alarm": 0.10,
    "CloudWatch dashboard": 3.00,
    "CloudWatch metric": 0.30,
    "CloudWatch Logs, GB": 0.50,
    "KMS key": 1.00,
    "Interface endpoint, zone-hour": 0.01,
}
"""US dollars in us-east-1, without free tiers, taxes and support."""
