"""Console page of the overview: the verdict, problems, clusters, the last day, and the first run.

Of this layer's rooms it imports frame, history and words.
"""
