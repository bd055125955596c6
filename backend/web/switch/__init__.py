"""Console pages of switches: plan, progress, report, abort and force.

Of this layer's rooms it imports forms, frame and words.
"""
