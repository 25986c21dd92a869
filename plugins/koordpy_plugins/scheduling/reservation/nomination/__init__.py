"""Choosing the reservation that a pod uses, or the pods that a Reservation takes over."""
