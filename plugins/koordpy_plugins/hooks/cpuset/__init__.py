"""The runtime hook CPUSetAllocator."""
