"""What the ConfigMap webhook and the Node webhook refuse of the ConfigMap slo-controller-config."""
