"""What can go wrong with an engine.

EngineError                  an engine that does not start, or does not do what it is asked to
└── EngineMissingError       an engine that is not on this machine; the message says what to do about it
"""


class EngineError(Exception):
    """Base of every error of an engine; its message is a sentence for the user."""


class EngineMissingError(EngineError):
    """The engine, or a program that it needs, is not on this machine."""
