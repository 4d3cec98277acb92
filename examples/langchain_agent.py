"""Answers a question with a LangChain agent that has the knowledge base's tools.

    OPX_HOME=.opx OPENAI_API_KEY=... python -m examples.langchain_agent "disk full on a Linux host"

Needs `langchain` and `langchain-openai`.
"""

from __future__ import annotations

import sys

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

from examples.knowledge import open_tools
from opx.edges.factories import CallableTool

INSTRUCTIONS = "You help on call. Search before you answer, and name the pages that you used."


def langchain_tool(tool: CallableTool) -> StructuredTool:
    """The tool as LangChain calls it: its arguments are checked by their JSON schema, and errors are text."""
    return StructuredTool(
        name=tool.name, description=tool.description, args_schema=tool.input_schema, func=tool.__call__
    )


def main(question: str) -> None:
    with open_tools() as tools:
        agent = create_agent(
            ChatOpenAI(model="gpt-4.1-mini"), list(map(langchain_tool, tools)), system_prompt=INSTRUCTIONS
        )
        reply = agent.invoke({"messages": [("user", question)]})
        print(reply["messages"][-1].content)


if __name__ == "__main__":
    main(" ".join(sys.argv[1:]))
