"""Filter, for pods and for Reservations: the rules of `fit`, on arrays and on one node with reasons."""
