"""Which devices of one node a pod gets: pure functions over the state of the node and a pod's requests."""
