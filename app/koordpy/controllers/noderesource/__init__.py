"""The framework of noderesource plugins: what of a node is offered to pods of lower priority, and scaled."""
