"""NodeResourcesFitPlus: score each resource with its own strategy."""
