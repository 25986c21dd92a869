"""The tree that a cluster's network is: which nodes share a switch, and which switches share another."""
