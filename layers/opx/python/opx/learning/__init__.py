"""What work taught: captured while it goes on, taken in at checkpoints, and told to those who plan the next."""
