"""Where the members of a gang go in the network: the fewest and lowest switches that have room for all.

`requirement` is what a gang wants, `members` the order of its pods, `slots` how many of them each node holds,
`offers` these numbers up the tree of the network, `solver` the plan; `placement` and `selector_score` are the
extension points.
"""
