"""NodeMetrics, and how nodes measure."""
