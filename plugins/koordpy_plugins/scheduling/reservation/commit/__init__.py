"""Taking reservations for pods and nodes for Reservations, giving them back, and writing it down."""
