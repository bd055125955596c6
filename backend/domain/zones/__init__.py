"""A client's zone, which proxy stands for which main, what is paid for, and the epochs of the router channel.

Of this layer's rooms it imports base.
"""
