"""What the options with a choice take: one place for the functions that read them and for the command line.

It imports nothing, so that a command's help need not wait for numpy.
"""

WEIGHTS = ("identity", "binary", "squared", "saturating")
SOLVERS = ("newton", "paper")
STARTS = ("auto", "half", "spectral", "tree", "random")
RULES = ("one-coin", "one-vs-rest")
REPEATS = ("last", "first", "error")
METHODS = (
    "pgd", "majority", "dawid-skene", "one-coin", "opt-dawid-skene", "kos", "ghosh", "ddkr", "triangle",
    "pgd-confusion",
)  # fmt: skip
