"""Pure rules and scores of fitting, outside and inside reservations."""
