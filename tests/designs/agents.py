"""The base class of the users' agents, which the designs leave to their code."""


class Agent:
    """Base class of the users' agents."""
