"""Commands of runbooks, labelled by hand with what they do, before the table of effects was written."""
