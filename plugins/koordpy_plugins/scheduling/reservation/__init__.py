"""Reservation: resources that are set aside on nodes, and the pods that may use them."""
