"""The devices that reservations hold: which of them an attempt may use, and how."""
