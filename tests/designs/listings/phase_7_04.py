from opx.compat.phase_7 import detokenize, stable_hash as hash, tokenize

def chunk_document(document: str, chunk_size: int = 500, overlap: int = 50):
    """Deterministic chunking with fixed size and overlap"""
    tokens = tokenize(document)
    chunks = []
    
    for i in range(0, len(tokens), chunk_size - overlap):
        chunk_tokens = tokens[i:i + chunk_size]
        chunk_text = detokenize(chunk_tokens)
        chunk_id = hash(document_id, i, chunk_text)
        
        chunks.append({
            'chunkId': chunk_id,
            'chunkIndex': i // (chunk_size - overlap),
            'content': chunk_text,
            'tokenCount': len(chunk_tokens)
        })
    
    return chunks
