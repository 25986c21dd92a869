"""Predicts the peak usage of pods, of priority classes and of the node."""
