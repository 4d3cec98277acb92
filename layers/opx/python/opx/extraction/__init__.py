"""Reads files of binary formats in a process of its own, which may crash, hang or run out of memory without harm.

Nothing here has credentials or a network; what it finds it leaves in files, and `opx.ingestion.parsing` reads those.
Kept free of imports that take long, as the process starts for each file.
"""
