"""OPX Knowledge: institutional memory for operations agents."""

__version__ = "0.1.0"
