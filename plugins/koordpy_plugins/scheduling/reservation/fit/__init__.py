"""What fits: pure rules and scores of a pod beside and inside reservations."""
