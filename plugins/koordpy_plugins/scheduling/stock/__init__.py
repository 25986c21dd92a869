"""kube-scheduler's own plugins, with the same results."""
