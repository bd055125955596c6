"""How work is cut into units and taken up, how leaves enter routes, what is read again, lost, or late.

Of this layer's rooms it imports base, records and tree.
"""
