

def format_citation(result: dict) -> str:
    """Format knowledge base result as citation"""
    return f"""
    Source: {result['metadata']['title']}
    Category: {result['metadata']['category']}
    Relevance: {result['score']:.2f}
    
    {result['content']}
    
    [Document ID: {result['documentId']}]
    """
