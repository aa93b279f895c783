"""The subcommands of `crowdbeam`, one a module.

Each has `build_parser()`, what it takes, and `run(args, beam_args)`, what it does and the exit code. Importing one is
cheap, so that its help is quick: what is heavy is imported when it runs.
"""
