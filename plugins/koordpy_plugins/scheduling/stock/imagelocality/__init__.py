"""ImageLocality: nodes that hold a pod's images start it sooner."""
