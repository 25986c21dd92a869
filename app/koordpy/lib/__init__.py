"""Small tools independent of Kubernetes: only what no library offers."""
