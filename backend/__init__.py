"""Control plane of Treeline: rules, event log, API, console, command line and local estate."""
