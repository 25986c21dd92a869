"""Reservation: reserved resources of nodes, and the pods that may use them."""
