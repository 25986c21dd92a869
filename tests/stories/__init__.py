"""Stories of a whole cluster, told on the embedded control plane and, unchanged, on the real one."""
