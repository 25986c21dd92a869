"""What the SLO controllers share: slo-controller-config as each has read it, objects of nodes, metrics."""
