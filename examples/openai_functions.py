"""Answers a question with OpenAI's function calling, or any service with the same API (`OPENAI_BASE_URL`).

    OPX_HOME=.opx OPENAI_API_KEY=... python -m examples.openai_functions "disk full on a Linux host"

Needs `openai`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from openai import OpenAI

from examples.knowledge import open_tools
from opx.edges.factories import CallableTool

MODEL = os.environ.get("MODEL", "gpt-4.1-mini")
INSTRUCTIONS = "You help on call. Search before you answer, and name the pages that you used."
MOST_ROUNDS = 5


def function_schema(tool: CallableTool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


def called(call: Any, tools: dict[str, CallableTool]) -> dict[str, str]:
    """The result of a call; bad arguments and unknown names become messages for the model."""
    tool = tools.get(call.function.name)
    try:
        text = tool(**json.loads(call.function.arguments)) if tool else f"Error: unknown tool {call.function.name}"
    except (ValueError, TypeError):
        text = "Error: the arguments are no JSON object"
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def answer(question: str, tools: dict[str, CallableTool]) -> str:
    client = OpenAI()
    functions: Any = [function_schema(tool) for tool in tools.values()]
    messages: list[Any] = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": question}]
    for _ in range(MOST_ROUNDS):
        reply = client.chat.completions.create(model=MODEL, messages=messages, tools=functions)
        message = reply.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages += [message, *(called(call, tools) for call in message.tool_calls)]
    return "No answer: the model only calls functions."


def main(question: str) -> None:
    with open_tools() as tools:
        print(answer(question, {tool.name: tool for tool in tools}))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
