"""The operations and commands of this distribution."""

from opx.operations.registry import KNOWLEDGE, Feature, Module

FEATURE = Feature(
    (Module("opx_web.operations", ("research",), (KNOWLEDGE,)),),
    {
        "research": ("opx_web.cli", "Research a topic with several searches."),
        "web": ("opx_web.cli", "Query a search engine on the web."),
    },
)
