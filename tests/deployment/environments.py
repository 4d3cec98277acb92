"""The environment that is deployed."""

from __future__ import annotations

from infra.console import FILES
from tests.deployment.emulator import ACCOUNT, REGION
from tests.deployment.engines import Engine
from tests.deployment.installation import Installation

ENVIRONMENT = "emu"
CONSOLE_BUILT = (FILES / "index.html").is_file()
"""`make console` was run, which takes Node; without it the console isn't deployed here."""


def choices(installation: Installation, engine: Engine) -> dict[str, str]:
    """The context: the emulator has no OpenSearch Serverless, and functions run on this machine's processor."""
    return {
        "environment": ENVIRONMENT,
        "architecture": installation.architecture,
        "python": installation.python,
        "search_endpoint": engine.endpoint,
        "search_arn": f"arn:aws:aoss:{REGION}:{ACCOUNT}:collection/opx",
        "bundle": "true",
        "console": str(CONSOLE_BUILT).lower(),
    }
