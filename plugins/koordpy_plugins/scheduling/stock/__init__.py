"""kube-scheduler's own plugins, with its own answers."""
