"""What is captured, as it is given from outside: JSON with the fields of the staging table, whoever sends it."""

from __future__ import annotations

from dataclasses import dataclass

from opx.domain.learning import MAX_ERROR, MAX_LINE, MAX_NAME, MAX_STEPS_TEXT, MAX_TEXT, Effect

TYPE_FIELD, PROJECT_FIELD = "entry_type", "project_id"


@dataclass(frozen=True, slots=True)
class GivenField:
    """A field of what is captured: a text, several texts (`several`), or true or false (`flag`). `maximum` is what the
    checks of `opx.learning.fields` allow, which whoever describes a request needn't load."""

    name: str
    about: str
    maximum: int = MAX_NAME
    several: bool = False
    flag: bool = False
    choices: tuple[str, ...] = ()


FIELDS = {
    field.name: field
    for field in (
        GivenField(PROJECT_FIELD, "The project that it was learned in; the caller's own, if the caller has one.", 64),
        GivenField("agent_type", "What kind of agent it was, such as backend_developer."),
        GivenField("task_type", "What kind of task, such as api_implementation."),
        GivenField("technology", "What it is about, such as postgresql."),
        GivenField("failure_description", "What went wrong, in plain words.", MAX_TEXT),
        GivenField("error_message", "The error, copied as it was.", MAX_ERROR),
        GivenField("solution_steps", "What was done about it, a step each.", MAX_STEPS_TEXT, several=True),
        GivenField("success_verified", "True if somebody, or a check, saw that it works.", flag=True),
        GivenField("gate_type", "Which review it was, such as security_review."),
        GivenField("human_feedback", "What the person said who rejected it.", MAX_TEXT),
        GivenField("revision_approach", "What was done about it.", MAX_TEXT),
        GivenField("approved_approach", "What was approved at the first attempt.", MAX_TEXT),
        GivenField("tried", "What was tried, and didn't help.", MAX_STEPS_TEXT),
        GivenField("effect", "What came of it.", choices=tuple(Effect)),
        GivenField("problem", "What it was tried against.", MAX_TEXT),
        GivenField("reference", "The document that it was taken from: its key or source.", MAX_LINE),
        GivenField("incident", "The incident's id."),
        GivenField(
            "occurrence",
            "Names this occurrence for good, such as a run's id: told again, it is the same one.",
            MAX_LINE,
        ),
    )
}
"""All that may be given, in the order in which it is described."""
