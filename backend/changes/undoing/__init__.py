"""How what one event changed is taken back: by a command, which is decided, previewed and logged as any other."""
