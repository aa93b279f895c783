"""The real engines, without containers: fetched by package name, started on loopback, stopped without a trace.

Not part of the installed package: tests and demos use it from the repository. `python -m engines --help`.
"""
