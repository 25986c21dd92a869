"""Parts of a scheduling cycle outside the framework: the queue of pods, and the fence between processes."""
