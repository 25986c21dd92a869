"""Apply ClusterColocationProfiles to the pods that they select."""
