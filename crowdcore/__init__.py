"""The maths of crowd labels: agreement counts, worker skills and task answers, with numpy and scipy alone."""

__version__ = "0.1.0"
