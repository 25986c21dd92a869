"""What is known of the devices of nodes: totals, usage, places, partitions."""
