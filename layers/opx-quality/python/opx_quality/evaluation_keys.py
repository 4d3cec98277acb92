"""Partitions of the table of gaps that evaluations and canaries have; no scope has such a key.

Runs are in one partition by time, the questions of each run with their replies in one of its own, as are the results of each
canary; the knowledge base's own questions are in another one.
"""

from __future__ import annotations

RUNS, QUESTIONS = "#evaluations", "#evaluation questions"
_REPLIES, _CANARY = "#evaluation ", "#canary "


def replies_partition(run_id: str) -> str:
    """Replies of a run, by the number of the question."""
    return f"{_REPLIES}{run_id}"


def reply_entry(number: int) -> str:
    """Sort key of a question of a run; numbers count from 1."""
    return f"{number:06}"


def canary_partition(question_id: str) -> str:
    """Results of a canary, by time."""
    return f"{_CANARY}{question_id}"


def holds_replies(partition: str) -> bool:
    return partition.startswith(_REPLIES) and partition != QUESTIONS


def holds_canary(partition: str) -> bool:
    return partition.startswith(_CANARY)
