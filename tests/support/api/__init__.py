"""The REST API called in this process, the command line, and what workers would record."""
