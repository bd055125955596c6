"""What every page stands in: who may enter, the session, templates, files, positions of then, forms' keys.

Of this layer's rooms it imports words.
"""
