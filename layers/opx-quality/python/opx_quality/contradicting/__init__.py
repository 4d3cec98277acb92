"""Detection of statements that contradict each other, in two documents about the same thing."""
