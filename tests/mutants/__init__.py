"""Mutants of the product: patches that each break one promise of the docs, and the tests that notice.

`make mutants` applies one after the other to a copy of the checkout and runs the tests that it names; one that
survives is a promise that nobody keeps. So whoever shortens the tests, or moves them, sees what gets lost. See
docs/contributing/tests.md.
"""
