"""What perstep is measured against: the listings in NumPy as a paper's reader would write them, and bare compiled kernels.

The NumPy ones are vectorised over quantiles and otherwise literal. The bare kernels are one red-pill run written out in one
function for numba, nothing recorded and nothing general: how fast a step can be on this machine.
"""

from __future__ import annotations

import numba
import numpy as np

EPSILON, ALPHA, ETA = 0.1, 2e-3, 2.0
MEANS = np.array([[-0.7, -0.7], [-1.0, -0.2]])
SD = 0.05


def numpy_red_pill(rule: str, num_quantiles: int, num_steps: int, seed: int = 0) -> np.ndarray:
    """Alg. 11, 4 or 8 on red-pill blue-pill."""
    rng = np.random.default_rng(seed)
    m = num_quantiles
    n = m if rule == "d3" else 1
    tau = (2 * np.arange(1, m + 1) - 1) / (2 * m)
    theta, average = np.zeros(m), 0.0
    q = np.zeros((2, 2, n))
    s = rng.integers(2)
    for _ in range(num_steps):
        values = q[s].mean(axis=-1)
        a = rng.integers(2) if rng.random() < EPSILON else rng.choice(np.flatnonzero(values == values.max()))
        r = min(0.0, rng.normal(MEANS[s, rng.integers(2)], SD))
        s_next = a
        best = q[s_next].mean(axis=-1).argmax()
        if rule == "differential":
            delta = r - average + q[s_next, best, 0] - q[s, a, 0]
            average += ETA * ALPHA * delta
            q[s, a, 0] += ALPHA * delta
        else:
            theta += ETA * ALPHA * (tau - (r < theta))
            average = theta.mean()
            if rule == "d2":
                q[s, a, 0] += ALPHA * (r - average + q[s_next, best, 0] - q[s, a, 0])
            else:
                psi = r - average + q[s_next, best][None, :] - q[s, a][:, None]  # (n, n)
                q[s, a] += ALPHA * (tau[:, None] - (psi < 0)).mean(axis=1)
        s = s_next
    return q


@numba.njit(nogil=True)
def _bits(g):
    mixed = g[0] + g[3]
    word = ((mixed << np.uint64(23)) | (mixed >> np.uint64(41))) + g[0]
    shifted = g[1] << np.uint64(17)
    g[2] ^= g[0]
    g[3] ^= g[1]
    g[1] ^= g[2]
    g[0] ^= g[3]
    g[2] ^= shifted
    g[3] = (g[3] << np.uint64(45)) | (g[3] >> np.uint64(19))
    return word


@numba.njit(nogil=True)
def _uniform(g):
    return (_bits(g) >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@numba.njit(nogil=True)
def _normal(g):
    while True:  # Marsaglia's polar method, one of its two numbers
        x, y = 2.0 * _uniform(g) - 1.0, 2.0 * _uniform(g) - 1.0
        r = x * x + y * y
        if 0.0 < r < 1.0:
            return x * np.sqrt(-2.0 * np.log(r) / r)


@numba.njit(nogil=True)
def bare_differential(g, num_steps):
    q, average, s = np.zeros((2, 2)), 0.0, 0
    for _ in range(num_steps):
        a = 1 if q[s, 1] > q[s, 0] else 0
        if _uniform(g) < EPSILON:
            a = int(_uniform(g) * 2)
        r = min(0.0, MEANS[s, int(_uniform(g) * 2)] + SD * _normal(g))
        delta = r - average + max(q[a, 0], q[a, 1]) - q[s, a]
        average += ETA * ALPHA * delta
        q[s, a] += ALPHA * delta
        s = a
    return average


@numba.njit(nogil=True)
def bare_d2(g, theta, tau, num_steps):
    m = theta.shape[0]
    q, average, s = np.zeros((2, 2)), 0.0, 0
    for _ in range(num_steps):
        a = 1 if q[s, 1] > q[s, 0] else 0
        if _uniform(g) < EPSILON:
            a = int(_uniform(g) * 2)
        r = min(0.0, MEANS[s, int(_uniform(g) * 2)] + SD * _normal(g))
        for i in range(m):
            theta[i] += ETA * ALPHA * (tau[i] - (1.0 if r < theta[i] else 0.0))
        total = 0.0
        for i in range(m):
            total += theta[i]
        average = total / m
        q[s, a] += ALPHA * (r - average + max(q[a, 0], q[a, 1]) - q[s, a])
        s = a
    return average


@numba.njit(nogil=True)
def bare_d3(g, theta, tau, omega, pull, num_steps):
    m = theta.shape[0]
    average, s = 0.0, 0
    for _ in range(num_steps):
        a = 1 if omega[s, 1].sum() > omega[s, 0].sum() else 0
        if _uniform(g) < EPSILON:
            a = int(_uniform(g) * 2)
        r = min(0.0, MEANS[s, int(_uniform(g) * 2)] + SD * _normal(g))
        for i in range(m):
            theta[i] += ETA * ALPHA * (tau[i] - (1.0 if r < theta[i] else 0.0))
        average = theta.sum() / m
        best = 1 if omega[a, 1].sum() > omega[a, 0].sum() else 0
        for j in range(m):
            below = 0
            for k in range(m):
                below += r - average + omega[a, best, k] - omega[s, a, j] < 0.0
            pull[j] = tau[j] - below / m
        for j in range(m):
            omega[s, a, j] += ALPHA * pull[j]
        s = a
    return average


def numpy_pendulum(rule: str, num_quantiles: int, num_steps: int, seed: int = 0) -> float:
    """Alg. 12, 5 or 9 on the inverted pendulum with 32 tilings of 8 × 8, at a step size of the paper's grid."""
    rng = np.random.default_rng(seed)
    alpha, alpha_theta, alpha_pi, huber = 2e-2, 2e-3, 2e-3, 1.0
    m = num_quantiles
    n = m if rule == "d3" else 1
    tau = (2 * np.arange(1, m + 1) - 1) / (2 * m)
    theta, average = np.zeros(m), 0.0
    w, u = np.zeros((32 * 81, n)), np.zeros((32 * 81, 3))
    offsets = np.arange(32)[:, None] * np.array([1, 3]) % 32
    start = 81 * np.arange(32)

    def tiles(angle: float, velocity: float) -> np.ndarray:
        steps = np.array([(angle + np.pi) / (2 * np.pi), (velocity + 2 * np.pi) / (4 * np.pi)]) * 256
        cells = (steps.astype(int) + offsets) // 32  # (32, 2)
        return start + 9 * cells[:, 0] + cells[:, 1]

    angle, velocity = np.pi, 0.0
    x = tiles(angle, velocity)
    total = 0.0
    for _ in range(num_steps):
        preferences = u[x].sum(axis=0)
        pi = np.exp(preferences - preferences.max())
        pi /= pi.sum()
        a = rng.choice(3, p=pi)
        velocity += (9.8 * np.sin(angle) + 12.0 * (a - 1)) * 0.05
        angle = (angle + velocity * 0.05 + np.pi) % (2 * np.pi) - np.pi
        r = -(angle**2)
        if abs(velocity) >= 2 * np.pi:
            angle, velocity = np.pi, 0.0
        x_next = tiles(angle, velocity)
        value, value_next = w[x].sum(axis=0), w[x_next].sum(axis=0)  # (n,)
        if rule == "differential":
            delta = r - average + value_next[0] - value[0]
            average += alpha_theta * delta
            w[x] += alpha * delta
        else:
            theta += alpha_theta * (tau - (r < theta))
            average = theta.mean()
            delta = r - average + value_next.mean() - value.mean()
            if rule == "d2":
                w[x] += alpha * delta
            else:
                psi = r - average + value_next[None, :] - value[:, None]  # (n, n)
                w[x] += alpha * (np.abs(tau[:, None] - (psi < 0)) * np.clip(psi, -huber, huber)).mean(axis=1)
        gradient = -pi
        gradient[a] += 1.0
        u[x] += alpha_pi * delta * gradient
        x = x_next
        total += r
    return total / num_steps
