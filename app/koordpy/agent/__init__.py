"""The node agent: what a node is doing, and what is done about it on the node itself."""
