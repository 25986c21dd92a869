"""ImageLocality: nodes with a pod's images start it sooner."""
