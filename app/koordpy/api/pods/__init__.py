"""Pods as kube-apiserver takes them: their defaults, and the rules that a pod must follow."""
