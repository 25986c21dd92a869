"""What keeps the status of placed Reservations true: their owners, amounts and ends."""
