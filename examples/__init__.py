"""Small programs that give the knowledge base to agents, frameworks and tools: `docs/examples.md` lists them."""
