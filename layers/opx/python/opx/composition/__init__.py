"""How the parts of a system are put together, a file a capability; `opx.services` is all of them."""
