"""The policies that come with koordpy, found by entry points as any other plugin is."""
