"""What a scheduling cycle needs beside the framework: the queue of pods, and the fence between processes."""
