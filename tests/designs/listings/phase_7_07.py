from opx.compat.phase_7 import Document

def get_document_details(document_id: str) -> Document:
    """Retrieve full document by ID"""
    # Query DynamoDB for metadata
    # Retrieve from S3 if needed
