"""Amplify the allocatable resources that kubelets report."""
