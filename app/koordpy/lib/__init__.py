"""Small tools with no word of Kubernetes in them: only what no library offers."""
