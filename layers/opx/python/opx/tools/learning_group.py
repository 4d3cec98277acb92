"""The tools that tell what work taught, and, for orchestrators, those that ask for it.

Whose it is and which project it was learned in follows from who calls, and so does the kind of agent: no tool takes them.
"""

from __future__ import annotations

from opx.domain.learning import DEFAULT_RESULTS, MAX_ERROR, MAX_NAME, MAX_RESULTS, MAX_STEPS_TEXT, MAX_TEXT, Effect
from opx.domain.outcomes import OutcomeResult
from opx.tools.declarations import Parameter, Tool, ToolGroup

WORKED, FAILED = "worked", "failed"
RESULTS = (WORKED, FAILED, *(effect.value for effect in Effect))


def _text(name: str, about: str, maximum: int = MAX_TEXT) -> Parameter:
    return Parameter(name=name, type="string", about=about, maximum=maximum)


def _may_be_left_out(name: str, about: str, maximum: int = MAX_NAME) -> Parameter:
    return Parameter(name=name, type="string", about=about, default="", maximum=maximum)


_TECHNOLOGY = _may_be_left_out("technology", "What it is about, such as postgresql or kubernetes.")
_TASK_TYPE = _may_be_left_out("task_type", "What kind of task it was, such as deployment.")
_OF_AGENTS = _may_be_left_out("agent_type", "Only what agents of this type learned; of all if not given.")
_OF_TASKS = _may_be_left_out("task_type", "Only of tasks of this type; of all if not given.")
_OF_TECHNOLOGY = _may_be_left_out("technology", "Only about this technology; about all if not given.")
_INCIDENT = _may_be_left_out("incident", "The incident's id.")

CAPTURE_FAILURE_SOLUTION = Tool(
    name="capture_failure_solution",
    description=(
        "Keep what failed and what was done about it, so that the next project finds it. Use it once the failure is "
        "understood and something was done. It is told to others only after verify_solution said that it worked."
    ),
    parameters=(
        _text("failure_description", "What went wrong, in plain words."),
        _text("solution_steps", "What was done about it, a step on each line.", MAX_STEPS_TEXT),
        _may_be_left_out("error_message", "The error, copied as it was.", MAX_ERROR),
        _TASK_TYPE,
        _TECHNOLOGY,
    ),
    opt_in=True,
)

VERIFY_SOLUTION = Tool(
    name="verify_solution",
    description=(
        "Say what came of a solution that was captured: whether it worked, failed, had no effect or made things worse. "
        "Say that it worked only if you saw it, or a check did."
    ),
    parameters=(
        _text("entry_id", "The id that capture_failure_solution gave.", MAX_NAME),
        Parameter(name="result", type="string", about="What came of it.", choices=RESULTS),
        _INCIDENT,
    ),
    opt_in=True,
)

CAPTURE_GATE_REJECTION = Tool(
    name="capture_gate_rejection",
    description="Keep what a person rejected at a review, why, and what was changed for it.",
    parameters=(
        _text("gate_type", "Which review it was, such as security_review.", MAX_NAME),
        _text("human_feedback", "What the person said."),
        _may_be_left_out("revision_approach", "What was changed for it.", MAX_TEXT),
    ),
    opt_in=True,
)

CAPTURE_GATE_APPROVAL = Tool(
    name="capture_gate_approval",
    description="Keep what a person approved at a review at the first attempt.",
    parameters=(
        _text("gate_type", "Which review it was, such as security_review.", MAX_NAME),
        _text("approved_approach", "What was approved."),
    ),
    opt_in=True,
)

CAPTURE_WARNING = Tool(
    name="capture_warning",
    description=(
        "Keep what was tried without effect, or made things worse. It is shown to others before the step that it warns "
        "of, in whichever document has that step."
    ),
    parameters=(
        _text("tried", "The step that was tried, worded as the document has it if it is from one."),
        Parameter(name="effect", type="string", about="What came of it.", choices=tuple(Effect)),
        _may_be_left_out("problem", "What it was tried against.", MAX_TEXT),
        _may_be_left_out("reference", "The source of the document that it is from.", 500),
        _INCIDENT,
    ),
    opt_in=True,
)

REPORT_OUTCOME = Tool(
    name="report_outcome",
    description=(
        "Say what came of following a document that a search found: it resolved the problem, had no effect, or made "
        "things worse. What helped is found more easily afterwards."
    ),
    parameters=(
        _text("receipt_id", "The receipt of the answer that had the document, as the search gave it.", MAX_NAME),
        _text("document_id", "The document's id, as the search gave it.", MAX_NAME),
        Parameter(name="result", type="string", about="What came of it.", choices=tuple(OutcomeResult)),
        _may_be_left_out("step", "The step that was decisive, as the document has it.", 1_000),
        _INCIDENT,
    ),
    opt_in=True,
)

QUERY_FOR_TASK = Tool(
    name="query_for_task",
    description=(
        "Find what earlier work taught about a task: problems that came up and what solved them, with how often it "
        "worked. For orchestrators, before they hand the task out."
    ),
    parameters=(
        _text("task_description", "What is to be done, in plain words."),
        _OF_AGENTS,
        _OF_TASKS,
        _OF_TECHNOLOGY,
        Parameter(
            name="max_results",
            type="integer",
            about="How many patterns to return at most.",
            default=DEFAULT_RESULTS,
            maximum=MAX_RESULTS,
        ),
    ),
    opt_in=True,
)

QUERY_FOR_FAILURE = Tool(
    name="query_for_failure",
    description=(
        "Find what solved a failure like this one before, the best three. For orchestrators, when an agent reports that "
        "something failed."
    ),
    parameters=(
        _text("failure_description", "What went wrong, in plain words."),
        _may_be_left_out("error_message", "The error, copied as it was.", MAX_TEXT),
        _OF_AGENTS,
        _OF_TASKS,
    ),
    opt_in=True,
)

BUILD_CONTEXT_FOR_TASK = Tool(
    name="build_context_for_task",
    description=(
        "Get what earlier work taught about a task as a text that goes into the prompt of the agent which does it. For "
        "orchestrators."
    ),
    parameters=(_text("task", "The task, in plain words."), _OF_AGENTS, _OF_TASKS, _OF_TECHNOLOGY),
    opt_in=True,
)

WRITING_TOOLS = (
    CAPTURE_FAILURE_SOLUTION,
    VERIFY_SOLUTION,
    CAPTURE_GATE_REJECTION,
    CAPTURE_GATE_APPROVAL,
    CAPTURE_WARNING,
    REPORT_OUTCOME,
)
"""Each keeps something; what is told again is kept once."""

LEARNING_GROUP = ToolGroup(
    name="learn-from-work",
    title="OPX Knowledge learning",
    description="What work taught: told by agents, and asked for by orchestrators.",
    tools=(*WRITING_TOOLS, QUERY_FOR_TASK, QUERY_FOR_FAILURE, BUILD_CONTEXT_FOR_TASK),
)
