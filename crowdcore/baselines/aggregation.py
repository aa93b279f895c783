"""What a method makes of labels: answers with probabilities, and what it found out about the workers.

>>> found = Aggregation.of(np.array([[0.2, 0.8], [0.5, 0.5]]), skills=np.array([0.6, 0.0]))
>>> found.answer, found.accuracies
(array([1, 0]), array([0.8, 0.5]))
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from crowdcore.labels import Ints
from crowdcore.scores import accuracy_of
from crowdcore.weights import Floats


@dataclass(frozen=True, eq=False)
class Aggregation:
    """The outcome of a method on one crowd.

    Attributes:
        answer: (tasks,) class codes; of equally probable classes the one with the smallest code.
        probabilities: (tasks, classes) of each class; each row adds up to 1, that of a task without labels is the
            prior.
        skills: (workers,) s in [−1, 1]: (K p − 1)/(K − 1) with p the probability of being right.
        prior: (classes,) how frequent the method takes each class to be.
        confusion: (workers, classes, classes) probability of the label (last) given the truth; None where the method
            has no such matrices.
        loss_history: what the method minimises, after each round; empty where it minimises nothing.
        converged: whether it ended by itself, not because its rounds were used up.
    """

    answer: Ints
    probabilities: Floats
    skills: Floats
    prior: Floats
    confusion: Floats | None = None
    loss_history: tuple[float, ...] = ()
    converged: bool = True

    @classmethod
    def of(cls, probabilities: Floats, skills: Floats, prior: Floats | None = None, **more: Any) -> "Aggregation":
        """From probabilities; without `prior` all classes are equally frequent."""
        n_classes = probabilities.shape[1]
        even = np.full(n_classes, 1 / max(n_classes, 1))
        answer: NDArray[np.int64] = np.argmax(probabilities, axis=1) if n_classes else np.zeros(0, np.int64)
        return cls(answer, probabilities, skills, even if prior is None else prior, **more)

    @property
    def accuracies(self) -> Floats:
        """(workers,) p, the probability of being right."""
        return accuracy_of(self.skills, max(2, self.probabilities.shape[1]))
