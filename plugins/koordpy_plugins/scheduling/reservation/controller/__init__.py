"""The controller of the status of placed Reservations: their owners, amounts and expiration."""
