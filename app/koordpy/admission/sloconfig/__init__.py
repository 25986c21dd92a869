"""Validation of the ConfigMap slo-controller-config by the ConfigMap webhook and the Node webhook."""
