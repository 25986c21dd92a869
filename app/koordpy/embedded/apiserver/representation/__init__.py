"""The wire formats of objects: request bodies, and the forms of responses."""
