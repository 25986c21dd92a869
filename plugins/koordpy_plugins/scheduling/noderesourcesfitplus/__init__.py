"""NodeResourcesFitPlus: rank nodes by each resource in its own way."""
