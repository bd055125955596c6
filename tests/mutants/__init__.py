"""Mutants of the product are patches that each break one promise of the docs, with the tests that fail then.

`make mutants` applies one after the other to a copy of the checkout and runs the tests that it names. A mutant
that survives shows a promise that no test holds, so shortening or moving tests cannot lose one unnoticed. See
docs/contributing/tests.md.
"""
