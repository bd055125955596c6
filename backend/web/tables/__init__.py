"""Tables that grow: sorting, filtering, paging and choosing columns, all kept in the page's address.

It imports only `words`; the component `tables.html` draws what it computes.
"""
