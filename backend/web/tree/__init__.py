"""The Tree page, its live updates, and its editor.

Of this layer's rooms it imports forms, frame and words.
"""
