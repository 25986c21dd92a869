"""What one scheduling attempt knows of reservations: which match, which nodes, and nodes as it sees them."""
