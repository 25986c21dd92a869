"""The plugin RemovePodsViolatingInterPodAntiAffinity."""
