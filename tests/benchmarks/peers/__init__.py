"""Small programs that others would write instead, measured over the same chunks, vectors and questions."""
