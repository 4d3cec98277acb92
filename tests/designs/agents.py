"""What the designs leave to their users' code: the base class of agents."""


class Agent:
    """Base class of the users' agents."""
