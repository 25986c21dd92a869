"""The runtime hook CPUNormalization."""
