// Seed nodes from chunk metadata
val seedNodes = results.flatMap { it.metadata["graphRefs"] }

// Traversal (2 hops)
seedNodes.forEach { seed →
  graphDBService.traverse(clientId, seed, TraversalSpec(maxDepth = 2))
}
