"""All groups of tools that there are."""

from __future__ import annotations

from opx.tools.knowledge_group import KNOWLEDGE_GROUP
from opx.tools.learning_group import LEARNING_GROUP

GROUPS = (KNOWLEDGE_GROUP, LEARNING_GROUP)
TOOLS = {tool.name: tool for group in GROUPS for tool in group.tools}
