"""Opt-D&S: Dawid-Skene from a spectral start, which finds the confusion matrices from moments of three worker groups.

Workers are split into three groups. Z_g(t) is how often each class is among the labels of group g on task t. Given the
class k of the task its mean is proportional to the k-th row of a matrix C_g, the confusion of the group, as long as who
labels a task has nothing to do with its class. With W the class frequencies and E_gh the mean of Z_g ⊗ Z_h over tasks,
which is proportional to C_gᵀ W C_h, for each group c and the others a and b

    R_a = E_cb E_ab⁻¹,    R_b = E_ca E_ba⁻¹                       turn Z_a and Z_b into copies of Z_c
    M_2 = E_cb E_ab⁻¹ E_ac = Σ_k w_k μ_k ⊗ μ_k                    with μ_k the k-th row of C_c
    M_3 = mean of R_a Z_a ⊗ R_b Z_b ⊗ Z_c = Σ_k w_k μ_k ⊗ μ_k ⊗ μ_k

Q with Qᵀ M_2 Q = I makes the vectors √w_k Qᵀ μ_k orthonormal, and the tensor M_3(Q, Q, Q) = Σ_k w_k^(−1/2) v_k ⊗ v_k ⊗
v_k gives them one by one by the tensor power method. Which μ is which class: the assignment with the greatest sum of
μ_k[k]. A worker i outside group g has a mean of z_i ⊗ Z_g proportional to C_iᵀ W C_g, which gives C_i; the two answers,
from the two groups that i is not in, are added. Cells below 1e-6 are raised to it and rows divided by their sum. One
expectation step gives the probabilities that Dawid-Skene starts from. Class frequencies are held equal throughout, as
the authors do, and no cell of a confusion matrix counts less than a tenth of a label.

**Which class is which, once more.** The authors name the classes of each group by its own matrix. A group whose labels
are mostly wrong is then turned around, and may take all answers with it: with 11 workers of skills −.3 to .8 on 300
tasks, 2 % of all crowds. So the classes are named again after the last round, by the whole crowd: the names with which
most labels are right, that is the assignment with the greatest sum of n[k, k], n the counts of all workers together.
Nothing else changes with the names, the likelihood neither. Of 20 public datasets two get other names with the first
five seeds: reuters (.855 to .581 and .752 to .610) and fact_eval (.1319 to .1198).

Y. Zhang, X. Chen, D. Zhou, M. I. Jordan: Spectral methods meet EM: a provably optimal algorithm for crowdsourcing. NIPS
2014; Journal of Machine Learning Research 17 (2016). Their errors are .0712 on RTE1, .0584 on Temp, .1689 on Dogs and
.1586 on Web. Here the middle of 21 random groupings, and the range, is .0712 (.0700 to .0912), .0606 (.0563 to .0628),
.1574 (.1561 to .1623) and .1674 (.1545 to .1877).

The groups are drawn with `rng`: a random order of the workers with labels, dealt out in turn. **When the spectral start
fails**, the start is the share of the labels, as in plain Dawid-Skene. It fails when fewer than K tasks have labels of
all three groups, when an E_ab cannot be inverted, when M_2 has an eigenvalue below 1e-6 of its greatest (a class that a
group never says does that), or when the tensor has a value that is not above 0.

Nothing as large as workers × tasks is made: the moments have K² and K³ numbers, and the largest table is that of the
confusion matrices.

>>> from crowdcore.simulate import simulate_crowd
>>> rng = np.random.default_rng(3)
>>> crowd = simulate_crowd(n_tasks=500, n_workers=12, labels_per_task=6, n_classes=3, skills="fixed:0.8", rng=rng)
>>> found = opt_dawid_skene(crowd.grouped(), rng=rng)
>>> bool(np.mean(found.answer != crowd.truth) < 0.02)
True
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from crowdcore.baselines.aggregation import Aggregation
from crowdcore.baselines.dawid_skene import dawid_skene, e_step, m_step_counts, vote_shares
from crowdcore.labels import Ints, TaskLabels
from crowdcore.weights import Floats

_FLOOR = 1e-6
_SMOOTHING = 0.1
_RANK = 1e-6
_RESTARTS = 10
_POWER_STEPS = 100


def opt_dawid_skene(
    labels: TaskLabels,
    *,
    rng: np.random.Generator | None = None,
    n_rounds: int = 10,
    tol: float = 1e-5,
) -> Aggregation:
    """Dawid-Skene from the spectral start.

    Args:
        labels: what was said.
        rng: for the groups and the power method; a fixed one when not given.
        n_rounds: at most so many rounds of both steps; the authors take 10.
        tol: the rounds end when the loss falls by less than this.
    """
    rng = np.random.default_rng(0) if rng is None else rng
    even = np.full(labels.n_classes, 1 / max(labels.n_classes, 1))
    confusion = spectral_confusion(labels, draw_groups(labels, rng), rng)
    start = vote_shares(labels) if confusion is None else e_step(labels, confusion, even)
    options: dict[str, Any] = {"n_rounds": n_rounds, "tol": tol, "smoothing": _SMOOTHING, "prior": even}
    found = dawid_skene(labels, start=start, **options)
    named = class_of_label(m_step_counts(labels, found.probabilities).sum(axis=0))
    if np.array_equal(named, np.arange(labels.n_classes)):
        return found
    return dawid_skene(labels, start=start[:, named], **options)  # the same rounds under other names


def class_of_label(counts: Floats) -> Ints:
    """(classes,) which row is to be called by each label, so that most labels are right.

    Args:
        counts: (classes, classes) how often the label (last) was said on a task of the class.

    >>> class_of_label(np.array([[1.0, 9.0, 0.0], [8.0, 2.0, 2.0], [1.0, 0.0, 1.0]]))
    array([1, 0, 2])
    """
    from scipy.optimize import linear_sum_assignment  # here, since it takes 17 MB, which no other method needs

    row, label = linear_sum_assignment(counts, maximize=True)
    return np.asarray(row[np.argsort(label)])


def draw_groups(labels: TaskLabels, rng: np.random.Generator) -> Ints:
    """(workers,) group of each worker, 0 to 2, as equal in size as can be; −1 for a worker without labels."""
    present = np.flatnonzero(np.bincount(labels.worker, minlength=labels.n_workers))
    group = np.full(labels.n_workers, -1, np.int64)
    group[rng.permutation(present)] = np.arange(len(present)) % 3
    return group


def spectral_confusion(labels: TaskLabels, group: Ints, rng: np.random.Generator) -> Floats | None:
    """(workers, classes, classes) probability of the label (last) given the class, above 0; None where it fails.

    Args:
        labels: what was said.
        group: (workers,) 0, 1 or 2.
        rng: for the starts of the power method.
    """
    n_classes = labels.n_classes
    if n_classes < 2:
        return None
    votes = [_group_votes(labels, group == g) for g in range(3)]
    moments = _moments(votes)
    if moments is None:
        return None
    found = [_group_confusion(moments, c, rng) for c in range(3)]
    if any(part is None for part in found):
        return None
    return _worker_confusion(labels, group, votes, [part for part in found if part is not None])


@dataclass(frozen=True, eq=False)
class _Moments:
    """Means over tasks: `second[g][h]` (classes, classes) of Z_g ⊗ Z_h, `third` of Z_0 ⊗ Z_1 ⊗ Z_2."""

    second: list[list[Floats]]
    third: Floats


def _group_votes(labels: TaskLabels, member: Any) -> Any:
    """Sparse (tasks, classes): how often each class is among the labels of a group."""
    chosen = member[labels.worker]
    cell = (labels.task[chosen], labels.label[chosen])
    shape = (labels.n_tasks, labels.n_classes)
    return sparse.csr_array(sparse.coo_array((np.ones(np.sum(chosen)), cell), shape=shape))


def _moments(votes: list[Any]) -> _Moments | None:
    n_tasks, n_classes = votes[0].shape
    if np.sum(np.all([np.diff(part.indptr) > 0 for part in votes], axis=0)) < n_classes:
        return None
    second = [[(one.T @ two).toarray() / n_tasks for two in votes] for one in votes]
    last = sparse.csc_array(votes[2])
    third = np.empty((n_classes, n_classes, n_classes))
    for k in range(n_classes):
        rows = last.indices[last.indptr[k] : last.indptr[k + 1]]
        weight = last.data[last.indptr[k] : last.indptr[k + 1]]
        third[:, :, k] = (votes[0][rows].multiply(weight[:, None]).T @ votes[1][rows]).toarray()
    return _Moments(second, third / n_tasks)


def _group_confusion(moments: _Moments, c: int, rng: np.random.Generator) -> tuple[Floats, Floats] | None:
    """(classes, classes) C_c, the label last, and (classes,) the class frequencies; None where it fails."""
    a, b = (c + 1) % 3, (c + 2) % 3
    second = moments.second
    if np.linalg.cond(second[a][b]) > 1 / np.finfo(np.float64).eps:
        return None
    turn_a, turn_b = (second[c][y] @ np.linalg.inv(second[x][y]) for x, y in ((a, b), (b, a)))
    square = turn_a @ second[a][c]
    values, vectors = np.linalg.eigh((square + square.T) / 2)
    if not values[0] > _RANK * values[-1]:
        return None
    whiten = vectors / np.sqrt(values)
    cube = np.moveaxis(moments.third, (a, b, c), (0, 1, 2))
    cube = np.einsum("xyz,xi->iyz", cube, turn_a.T @ whiten, optimize=True)
    cube = np.einsum("iyz,yj->ijz", cube, turn_b.T @ whiten, optimize=True)
    cube = np.einsum("ijz,zk->ijk", cube, whiten, optimize=True)
    lengths, directions = _decompose(cube, rng)
    if not np.all(lengths > 0):
        return None
    rows = (lengths[:, None] * directions) @ (vectors * np.sqrt(values)).T
    order = class_of_label(rows)
    raised = np.maximum(rows[order], _FLOOR)
    frequency = lengths[order] ** -2
    return raised / raised.sum(axis=1, keepdims=True), frequency / frequency.sum()


def _decompose(cube: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Values (K,) and unit vectors (K, K), one a row, of an orthogonal symmetric tensor, by power steps and deflation.

    Of `_RESTARTS` random starts the one with the greatest value counts.
    """
    size = len(cube)
    left = sum(np.transpose(cube, axes) for axes in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)))
    left = np.asarray(left) / 6
    values, vectors = np.zeros(size), np.zeros((size, size))
    for h in range(size):
        tries = rng.normal(size=(_RESTARTS, size))
        tries /= np.linalg.norm(tries, axis=1, keepdims=True)
        for _ in range(_POWER_STEPS):
            moved = _apply(left, tries)
            moved /= np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-300)
            still = np.max(np.abs(moved - tries)) < 1e-12
            tries = moved
            if still:
                break
        sizes = np.sum(_apply(left, tries) * tries, axis=1)
        best = int(np.argmax(sizes))
        values[h], vectors[h] = sizes[best], tries[best]
        left = left - values[h] * np.einsum("i,j,k->ijk", vectors[h], vectors[h], vectors[h])
    return values, vectors


def _apply(cube: Floats, tries: Floats) -> Floats:
    """(tries, K) the tensor applied twice to each vector."""
    once = (cube.reshape(-1, cube.shape[2]) @ tries.T).reshape(*cube.shape[:2], -1)
    return np.asarray(np.einsum("ijr,rj->ri", once, tries))


def _worker_confusion(labels: TaskLabels, group: Ints, votes: list[Any], found: list[tuple[Floats, Floats]]) -> Floats:
    """(workers, classes, classes) from the moments of each worker with the two groups that it is not in."""
    total = np.zeros((labels.n_workers, labels.n_classes, labels.n_classes))
    for g, (vote, (confusion, frequency)) in enumerate(zip(votes, found, strict=True)):
        joint = m_step_counts(labels, vote.toarray())  # (worker, class said by the group, label)
        outside = (group != g)[:, None, None]
        total += outside * (np.linalg.pinv(confusion.T * frequency) @ joint)
    total = np.maximum(total, _FLOOR)
    return np.asarray(total / total.sum(axis=-1, keepdims=True))
