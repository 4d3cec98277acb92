"""Answers an event of a classic Bedrock agent's action group, with the handler of the deployed function and a local home.

    OPX_HOME=.opx python -m examples.bedrock_action_group "disk full on a Linux host"

`docs/api/retrieve-knowledge.functions.json` has the functions for `CreateAgentActionGroup`. The deployed function gets
the same events; the application sets the client and the project in the session attributes `opxClientId` and `opxProjectId`.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

from examples.knowledge import open_system
from lambdas.retrieve_knowledge.handler import make_handler


def event(function: str, session: dict[str, str], **arguments: str) -> dict[str, Any]:
    """An event as Bedrock sends it: every argument is a string."""
    return {
        "messageVersion": "1.0",
        "agent": {"name": "operations", "id": "AGENT12345", "alias": "PROD", "version": "1"},
        "sessionId": "session-1",
        "inputText": arguments["query"],
        "actionGroup": "retrieve-knowledge",
        "function": function,
        "parameters": [{"name": name, "type": "string", "value": value} for name, value in arguments.items()],
        "sessionAttributes": session,
        "promptSessionAttributes": {},
    }


def main(question: str) -> None:
    context = SimpleNamespace(
        function_name="opx-retrieve-knowledge",
        memory_limit_in_mb=1024,
        invoked_function_arn="arn:aws:lambda:eu-central-1:123456789012:function:opx-retrieve-knowledge",
        aws_request_id="1b2c3d4e",
        get_remaining_time_in_millis=lambda: 30_000,
    )
    with open_system() as system:
        handler = make_handler(lambda: system)
        response = handler(event("search_runbooks", {}, query=question), context)
    print(json.dumps(response, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
