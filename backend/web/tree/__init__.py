"""The Tree page, live, and its editor.

Of this layer's rooms it imports forms, frame and words.
"""
