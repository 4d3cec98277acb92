"""Who the clients are, what there is of each, and how all of it is removed."""
