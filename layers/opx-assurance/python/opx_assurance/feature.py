"""The operations, commands and daily work of this distribution."""

from __future__ import annotations

from opx.operations.registry import Feature, Module

_COMMANDS = "opx_assurance.commands"

FEATURE = Feature(
    (Module("opx_assurance.operations", ("reconciliation",)),),
    commands={
        "reconcile": (_COMMANDS, "Compare all stores, and repair differences."),
        "repair": (_COMMANDS, "Rebuild damaged stores from intact data."),
        "seal": (_COMMANDS, "Seal the stored data, and show later changes."),
        "export": (_COMMANDS, "Export everything that can't be rebuilt into one archive."),
        "import": (_COMMANDS, "Import an archive written by export."),
    },
    feeds=("opx_assurance.capability",),
)
