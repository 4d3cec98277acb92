"""Research: several searches for one topic, planned, done at once, put together and traced."""
