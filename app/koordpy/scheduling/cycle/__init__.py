"""Parts of a scheduling cycle outside the framework: placements, the queue, the fence between processes."""
