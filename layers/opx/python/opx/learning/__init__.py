"""Learning from work: entries are captured, turned into patterns at checkpoints, and retrieved for later tasks."""
