"""Runs bulk jobs as executions of a state machine of AWS Step Functions."""

from __future__ import annotations
