"""The extension points, once for pods and once for reserve pods."""
