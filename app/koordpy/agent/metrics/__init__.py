"""The metrics of a node: series and facts, kept in bounded memory."""
