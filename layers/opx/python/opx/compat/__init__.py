"""Names and shapes of the designs that users come from, thin over the library."""
