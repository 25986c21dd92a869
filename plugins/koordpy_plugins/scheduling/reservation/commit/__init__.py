"""Reserve, Unreserve and PreBind of reservations for pods, and of nodes for Reservations."""
