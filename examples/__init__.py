"""Things to look at; not installed."""
