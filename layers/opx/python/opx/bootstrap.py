"""The earlier place of `opx.system.bootstrap`."""

from opx.system import bootstrap

__all__ = ["bootstrap"]
