"""What a first project learned, asked for by a second one in other words: cases, and how well they are answered."""
