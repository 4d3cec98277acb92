"""Answers a question with a Strands agent on Amazon Bedrock, which searches the knowledge base itself.

OPX_HOME=.opx AWS_REGION=eu-central-1 python -m examples.strands_agent "disk full on a Linux host"
"""

from __future__ import annotations

import sys
from typing import Any

from strands import Agent
from strands.models import BedrockModel
from strands.tools.tools import PythonAgentTool

from examples.knowledge import open_tools
from opx.edges.factories import CallableTool

MODEL = "eu.amazon.nova-lite-v1:0"
INSTRUCTIONS = "You help on call. Search before you answer, and name the pages that you used."


def strands_tool(tool: CallableTool) -> PythonAgentTool:
    """The tool as Strands calls it. It never raises: an error is text that the model reads."""

    def call(use: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"toolUseId": use["toolUseId"], "status": "success", "content": [{"text": tool(**use["input"])}]}

    spec = {"name": tool.name, "description": tool.description, "inputSchema": {"json": tool.input_schema}}
    return PythonAgentTool(tool.name, spec, call)


def main(question: str) -> None:
    with open_tools() as tools:
        model = BedrockModel(model_id=MODEL, streaming=False)
        agent = Agent(model, tools=[*map(strands_tool, tools)], system_prompt=INSTRUCTIONS, callback_handler=None)
        print(agent(question))


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
