"""Words of a question that a passage has, as replies name them."""

from __future__ import annotations

import pytest

from opx.retrieval.assembly import QuestionTerms


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("consumers restarting", "Restart the consumer.", ["restarting", "consumers"]),
        ("KafkaConsumerLagHigh", "The consumer lag of Kafka is high.", []),
        ("KafkaConsumerLagHigh lag", "KafkaConsumerLagHigh fires when the lag grows.", ["KafkaConsumerLagHigh", "lag"]),
        ("ORA-01652 tablespace", "ORA-01555: the undo tablespace is 01 full", ["tablespace"]),
    ],
)
def test_words_in_any_form_and_identifiers_as_they_are(question: str, text: str, expected: list[str]) -> None:
    assert QuestionTerms(question).words_in(text) == expected
