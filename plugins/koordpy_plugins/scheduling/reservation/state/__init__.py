"""What follows the cluster: reservations and the pods that use them, indexes, and columns."""
