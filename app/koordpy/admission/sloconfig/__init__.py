"""The checks of the slo-controller-config ConfigMap, which the ConfigMap and the Node webhook share."""
