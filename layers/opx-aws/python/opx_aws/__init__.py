"""Ports on services of AWS, and an operator's access to a deployed system."""
