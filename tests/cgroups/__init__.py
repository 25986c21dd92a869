"""Real cgroups for tests, and folders that look like them where a machine has none that can be written."""
