"""The CPUs and amounts that Reservations hold, and the pods that may have them."""
