"""Research: several searches for one topic, planned, run in parallel, merged and traced."""
