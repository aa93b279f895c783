"""Crowds with a known truth: who labels what, how skilled each worker is, and what they say.

One coin a worker: with K classes a worker of skill s is right with probability p = (1 + (K − 1) s)/K, and otherwise
says any of the other classes with equal probability. `assign_tasks` says who labels what.

>>> rng = np.random.default_rng(7)
>>> crowd = simulate_crowd(n_tasks=1000, n_workers=20, labels_per_task=3, skills="fixed:0.6", rng=rng)
>>> crowd.label.shape, crowd.truth.shape
((3000,), (1000,))
>>> bool(abs(np.mean(crowd.label == crowd.truth[crowd.task]) - 0.8) < 0.03)
True
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crowdcore.assignment import assign_tasks
from crowdcore.errors import InvalidOptionError
from crowdcore.labels import Ints, TaskLabels, group_labels

SKILLS = ("uniform:LOW,HIGH", "grid:LOW,HIGH", "beta:A,B", "hammer-spammer:SHARE", "fixed:SKILL")
HAMMER_SKILL = 0.9
_ROUNDING = 1e-9

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Crowd:
    """A simulated crowd.

    Attributes:
        task, worker, label: (labels,) codes, grouped by task; a worker labels a task at most once.
        truth: (tasks,) class codes.
        skills: (workers,) the skills the labels were drawn with.
        n_classes: how many class codes there are.
    """

    task: Ints
    worker: Ints
    label: Ints
    truth: Ints
    skills: Floats
    n_classes: int

    @property
    def n_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.truth)

    @property
    def n_workers(self) -> int:
        """How many workers there are."""
        return len(self.skills)

    def grouped(self) -> TaskLabels:
        """The labels as the rest of crowdcore takes them."""
        return group_labels(
            self.task, self.worker, self.label,
            n_tasks=self.n_tasks, n_workers=self.n_workers, n_classes=self.n_classes,
        ).labels  # fmt: skip


def simulate_crowd(
    *,
    n_tasks: int,
    n_workers: int,
    labels_per_task: int | ArrayLike | None = None,
    n_classes: int = 2,
    skills: str | ArrayLike = "beta:5,1",
    class_prior: ArrayLike | None = None,
    graph: str | ArrayLike = "random",
    activity: float = 0.0,
    rng: np.random.Generator,
) -> Crowd:
    """Draws a crowd.

    Args:
        n_tasks: how many tasks.
        n_workers: how many workers.
        labels_per_task: a number, or (tasks,) one for each. When not given: as many as `graph` asks for, else 5.
        n_classes: how many classes, at least 2.
        skills: what `draw_skills` takes.
        class_prior: (classes,) probability of each class as truth; equal when not given.
        graph: "random", "clique", "ring", "star", "bipartite", "communities" or a list of edges; see `assign_tasks`.
        activity: for "random": worker i is drawn in proportion to (i + 1) ** -activity; 0: all alike, 1: Zipf's law.
        rng: where chance comes from.
    """
    if n_classes < 2:
        raise InvalidOptionError(f"n_classes is {n_classes}; it takes a number of at least 2")
    task, worker = assign_tasks(
        graph, n_tasks=n_tasks, n_workers=n_workers, labels_per_task=labels_per_task, activity=activity, rng=rng
    )
    drawn_skills = draw_skills(skills, n_workers, rng, n_classes=n_classes)
    truth = _draw_truth(n_tasks, n_classes, class_prior, rng)
    accuracy = (1 + (n_classes - 1) * drawn_skills) / n_classes
    label = truth[task]
    wrong = np.flatnonzero(rng.random(len(task)) >= accuracy[worker])
    label[wrong] = (label[wrong] + 1 + rng.integers(n_classes - 1, size=len(wrong))) % n_classes
    return Crowd(task, worker, label, truth, drawn_skills, n_classes)


def draw_skills(skills: str | ArrayLike, n: int, rng: np.random.Generator, *, n_classes: int = 2) -> Floats:
    """(n,) skills.

    Args:
        skills: (n,) the skills themselves, or a text: "uniform:LOW,HIGH"; "grid:LOW,HIGH", evenly spaced and shuffled
            (the paper's -0.3,0.8); "beta:A,B", accuracy p drawn from Beta(A, B) and skill (Kp − 1)/(K − 1), for two
            classes 2p − 1; "hammer-spammer:SHARE", that share of workers has skill 0, the others 0.9;
            "fixed:SKILL".
        n: how many workers.
        rng: where chance comes from.
        n_classes: K; skills end at −1/(K − 1), which means never right.

    >>> draw_skills("fixed:0.6", 3, np.random.default_rng(0))
    array([0.6, 0.6, 0.6])
    """
    if isinstance(skills, str):
        drawn = _skills_from_text(skills, n, rng, n_classes)
    else:
        drawn = np.array(skills, np.float64)
        if drawn.shape != (n,):
            raise InvalidOptionError(f"skills has shape {drawn.shape}; it takes one for each of the {n} workers")
    lowest = -1 / (n_classes - 1)
    if not np.all((drawn >= lowest - _ROUNDING) & (drawn <= 1)):
        raise InvalidOptionError(
            f"skills goes outside {lowest:g} (never right) to 1 (always right), all that {n_classes} classes allow"
        )
    return drawn


def _skills_from_text(text: str, n: int, rng: np.random.Generator, n_classes: int) -> Floats:
    name, _, rest = text.partition(":")
    try:
        values = tuple(float(part) for part in rest.split(","))
    except ValueError:
        values = ()
    match name, values:
        case "uniform", (low, high) if -1 <= low <= high <= 1:
            return rng.uniform(low, high, n)
        case "grid", (low, high) if -1 <= low <= high <= 1:
            return rng.permutation(np.linspace(low, high, n))
        case "beta", (a, b) if 0 < a < np.inf and 0 < b < np.inf:
            return (n_classes * rng.beta(a, b, n) - 1) / (n_classes - 1)
        case "hammer-spammer", (share,) if 0 <= share <= 1:
            return rng.permutation(np.where(np.arange(n) < round(share * n), 0.0, HAMMER_SKILL))
        case "fixed", (skill,) if -1 <= skill <= 1:
            return np.full(n, skill)
    raise InvalidOptionError(
        f"skills is {text!r}; it takes {' or '.join(SKILLS)}: skills from -1 to 1, LOW below HIGH, A and B above 0, "
        "SHARE from 0 to 1"
    )


def _draw_truth(n_tasks: int, n_classes: int, class_prior: ArrayLike | None, rng: np.random.Generator) -> Ints:
    if class_prior is None:
        return rng.integers(n_classes, size=n_tasks)
    prior = np.asarray(class_prior, np.float64)
    if prior.shape != (n_classes,) or not np.all(prior >= 0) or abs(prior.sum() - 1) > 1e-6:
        raise InvalidOptionError(f"class_prior is {class_prior}; it takes {n_classes} probabilities that add up to 1")
    return rng.choice(n_classes, size=n_tasks, p=prior / prior.sum())
