"""The quotas of the cluster: their tree, and the pods that belong to them."""
