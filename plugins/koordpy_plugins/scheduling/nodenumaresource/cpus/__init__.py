"""Which CPUs of a node a pod gets: pure functions over a topology and sets of CPUs."""
