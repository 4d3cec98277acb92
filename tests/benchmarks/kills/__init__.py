"""Kill -9 at random moments of what learns, forgets and rebuilds."""
