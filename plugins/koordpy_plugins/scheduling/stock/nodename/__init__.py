"""NodeName: a pod with a node name fits only there."""
