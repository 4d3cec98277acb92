"""What becomes of documents in time: their versions, their end, and the making anew of what is derived from them."""
