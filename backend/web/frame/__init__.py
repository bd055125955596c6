"""Frame of all pages: access, session, templates, static files, earlier positions, form keys.

Of this layer's rooms it imports words.
"""
