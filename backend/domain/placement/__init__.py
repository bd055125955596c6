"""Where replicas are to be, runs that move them, and what is done when brokers come or go.

Of this layer's rooms it imports base.
"""
