"""The plugin PodLifeTime."""
