"""Keep the pods of a quota tree on the nodes of the tree."""
