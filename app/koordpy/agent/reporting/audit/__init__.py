"""The audit log: a line of JSON for everything that is done to the node, in files of bounded size."""
