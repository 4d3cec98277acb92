"""An example of a plugin: each module is one kind of it, and imports `opx.sdk` alone."""

from opx.sdk import KNOWLEDGE, Feature, Module

FEATURE = Feature((Module("opx_example.on_call", addresses=("shifts",), groups=(KNOWLEDGE,)),))
"""The module is imported when its command, its address or its tool is used."""
