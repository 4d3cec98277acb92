from typing import List

from opx.compat.phase_7 import Document

def search_postmortems(query: str, max_results: int = 5) -> List[Document]:
    """Search postmortem knowledge base"""
    # Similar to search_runbooks with category='postmortem'
