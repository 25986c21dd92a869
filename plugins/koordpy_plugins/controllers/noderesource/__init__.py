"""Resources that nodes offer beyond what kubelets report."""
