documentId = hash(title, category, content)
