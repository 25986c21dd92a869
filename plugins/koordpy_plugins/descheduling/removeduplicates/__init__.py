"""The plugin RemoveDuplicates."""
