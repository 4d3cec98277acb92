"""The composition root: `bootstrap` makes a system of the adapters that settings choose, `command` starts `opx` on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opx.settings import Settings

if TYPE_CHECKING:
    from typing import Unpack

    from opx.adapters.chosen import Given
    from opx.operations.system import System
    from opx.ports import Clock


def bootstrap(settings: Settings, *, clock: Clock = time.time, **given: Unpack[Given]) -> System:
    """The system of the settings; ports that are `given` replace those of the settings. Nothing is opened yet. Raises
    `TypeError` for a port that doesn't exist."""
    from opx.adapters.chosen import Given, Ports
    from opx.operations.system import System
    from opx.runtime.installation import Installation

    unknown = given.keys() - Given.__annotations__.keys()
    if unknown:
        raise TypeError(f"bootstrap() has no port {', '.join(sorted(unknown))}")
    installation = Installation(settings, clock)
    return System(installation, Ports(installation, given))


def command() -> None:
    """The `opx` command, as a console script."""
    from opx.edges.cli.main import main

    main(bootstrap)
