"""A lean start: libraries that Beam and Arrow would import for things that a run does not use stay out.

A library that is merely installed would cost a third of a second and 50 MB in every run.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, find_spec, module_from_spec
from types import ModuleType
from typing import NoReturn

_OBJECTS_BEFORE_COLLECTING = 200_000
_UNUSED = ("f2py", "testing", "polynomial", "ctypeslib")  # of numpy; not ma, which Arrow looks at in threads
_MALLOC = ((-8, 1), (-1, 2_000_000_000), (-3, 32 << 20))  # one arena; trimmed late; a map of its own from 32 MB on


class _LeftOut(Loader, MetaPathFinder):
    """Finds some modules before anybody else does, and says that they are not there when they are imported.

    Others who only ask whether such a module is installed are told the truth.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The module's place, if it is one of ours."""
        return ModuleSpec(name, self) if name in self._names else None

    def exec_module(self, module: ModuleType) -> NoReturn:
        """Refuses."""
        raise ModuleNotFoundError(f"{module.__name__} is not used by this command", name=module.__name__)


def leave_out(names: Sequence[str]) -> None:
    """Makes these modules as good as not installed, for whoever imports them after this."""
    sys.meta_path.insert(0, _LeftOut(names))


def _keep_memory() -> None:
    """Has the C library keep memory that was freed, in one pool for all threads, and give it out again.

    The system clears every page that it gives: going back and forth took a tenth of a batch's processor time, and a
    pool a thread took a third of its memory.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library
        return
    for option, value in _MALLOC:
        mallopt(option, value)


def _numpy_when_used() -> None:
    """Has parts of numpy run when somebody uses them: scipy names all of them, which takes a tenth of a second.

    Python 3.11 may hand such a part out half run to a second thread: only those that no run uses can be among them.
    """
    import numpy as np

    for part in _UNUSED:
        name = f"numpy.{part}"
        spec = find_spec(name) if name not in sys.modules else None
        if spec is None or spec.loader is None:
            continue
        spec.loader = loader = LazyLoader(spec.loader)
        sys.modules[name] = module = module_from_spec(spec)
        loader.exec_module(module)
        setattr(np, part, module)


def start_lean(streams: bool, embedded: bool) -> None:
    """Saves half a second of every start, and a fifth of the memory.

    Beam does without pymongo and pandas, which crowdbeam does not use, a batch without Pub/Sub, and the runner in this
    process (`embedded`) without BigQuery, which others look for in a pipeline; the steps use threads of their own, so
    those of BLAS would only wait for work; the many objects that imports make are not searched for garbage; and Arrow
    gives memory back where its own pool would keep it.
    """
    unused = ["pymongo", "pandas"]
    if not streams:
        unused += ["google.cloud.pubsub"] + ["apache_beam.io.gcp.bigquery"] * embedded
    leave_out(unused)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTING)
    if not streams:  # they live long, and should give back what they do not need
        _keep_memory()
    _numpy_when_used()
