from typing import List

from opx.compat.phase_7 import Document, format_results

def search_runbooks(query: str, max_results: int = 5) -> List[Document]:
    """Search runbook knowledge base"""
    results = bedrock_kb.retrieve(
        knowledgeBaseId=KB_ID,
        retrievalQuery={'text': query},
        retrievalConfiguration={
            'vectorSearchConfiguration': {
                'numberOfResults': max_results,
                'filter': {'equals': {'key': 'category', 'value': 'runbook'}}
            }
        }
    )
    return format_results(results)
