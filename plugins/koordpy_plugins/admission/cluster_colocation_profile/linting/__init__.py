"""Checks of ClusterColocationProfiles before they affect pods."""
