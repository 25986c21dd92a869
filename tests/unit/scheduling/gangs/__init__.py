"""Jobs: planning and holding."""
