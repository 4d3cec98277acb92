"""Source code: sections by class and function, and the structure of the code for the graph."""
