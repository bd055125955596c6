"""What every rule uses: events, errors, calls that messages advise, figures in words, ranges of numbers.

It imports no other room of this layer.
"""
