"""What goes over the wire in place of objects: bodies as they come in, and the forms in which they go out."""
