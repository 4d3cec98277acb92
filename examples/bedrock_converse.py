"""Answers a question with Bedrock's Converse API: tool specs, and a loop that calls what the model asks for.

OPX_HOME=.opx AWS_REGION=eu-central-1 python -m examples.bedrock_converse "disk full on a Linux host"
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import boto3

from examples.knowledge import open_tools
from opx.edges.factories import CallableTool

MODEL = os.environ.get("MODEL", "eu.amazon.nova-lite-v1:0")
INSTRUCTIONS: Any = [{"text": "You help on call. Search before you answer, and name the pages that you used."}]
MOST_ROUNDS = 5


def tool_spec(tool: CallableTool) -> dict[str, Any]:
    spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.input_schema}}
    return {"toolSpec": spec}


def called(use: Mapping[str, Any], tools: dict[str, CallableTool]) -> dict[str, Any]:
    """The result of a tool that the model asks for; an unknown name becomes a message for the model."""
    tool = tools.get(use["name"])
    text = tool(**use["input"]) if tool else f"Error: unknown tool {use['name']}"
    return {"toolResult": {"toolUseId": use["toolUseId"], "content": [{"text": text}]}}


def answer(question: str, tools: dict[str, CallableTool]) -> str:
    client = boto3.client("bedrock-runtime")
    config: Any = {"tools": list(map(tool_spec, tools.values()))}
    messages: list[Any] = [{"role": "user", "content": [{"text": question}]}]
    for _ in range(MOST_ROUNDS):
        reply = client.converse(modelId=MODEL, system=INSTRUCTIONS, messages=messages, toolConfig=config)
        message = reply["output"]["message"]
        if reply["stopReason"] != "tool_use":
            return "".join(block.get("text", "") for block in message["content"])
        results = [called(block["toolUse"], tools) for block in message["content"] if "toolUse" in block]
        messages += [message, {"role": "user", "content": results}]
    return "No answer: the model only calls tools."


def main(question: str) -> None:
    with open_tools() as tools:
        print(answer(question, {tool.name: tool for tool in tools}))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
