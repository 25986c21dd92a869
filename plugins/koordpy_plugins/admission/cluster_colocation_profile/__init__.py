"""Turn pods into what the ClusterColocationProfiles that select them say."""
