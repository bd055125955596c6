"""Pure rules: commands are decided on states, and events change states.

Only the standard library is imported here, so that each rule can be tested without a database or a broker.
"""
