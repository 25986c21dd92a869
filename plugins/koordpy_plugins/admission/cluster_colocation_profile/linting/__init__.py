"""Find what is wrong with ClusterColocationProfiles before pods meet them."""
