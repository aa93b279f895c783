"""Work in threads, a little ahead of who waits for it."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_AHEAD = 2


def mapped(function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
    """The results of `function` in the order of `items`, at most a few of which are taken ahead.

    >>> list(mapped(str, range(3)))
    ['0', '1', '2']
    """
    threads = min(8, os.cpu_count() or 1)
    waiting: deque[Future[_Out]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads * _AHEAD:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
