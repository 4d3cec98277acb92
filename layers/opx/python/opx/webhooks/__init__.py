"""Deliveries that other services send by themselves: verified, then put into the corpus like any other document."""
