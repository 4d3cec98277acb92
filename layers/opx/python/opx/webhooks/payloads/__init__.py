"""What a delivery of each service says, as documents. A module a service."""
