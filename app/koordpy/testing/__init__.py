"""What plugin authors test with."""
