"""The paper's listings, transcribed literally: slow and obvious, one function a listing, NumPy at most.

Each takes the estimates by reference and one transition (S, A, R, S′) and changes the estimates as the body of the listing's
`while` does. Nothing here is shared with the package, and nothing is clever.
"""

from __future__ import annotations

import numpy as np


def levels(count):
    return [(2 * i - 1) / (2 * count) for i in range(1, count + 1)]


def differential_td(V, R_bar, alpha, eta, S, R, S_next):
    """Wan et al. 2021, Differential TD-learning, on-policy. R_bar is a list of one number."""
    delta = R - R_bar[0] + V[S_next] - V[S]
    R_bar[0] = R_bar[0] + eta * alpha * delta
    V[S] = V[S] + alpha * delta


def differential_q(Q, R_bar, alpha, eta, S, A, R, S_next):
    """Algorithm 11."""
    delta = R - R_bar[0] + max(Q[S_next]) - Q[S, A]
    R_bar[0] = R_bar[0] + eta * alpha * delta
    Q[S, A] = Q[S, A] + alpha * delta


def d2_td(V, theta, alpha, alpha_theta, S, R, S_next, b=None, eta_b=0.0):
    """Algorithm 3; with b (a list of one number), the learned offset of docs/decisions/0001."""
    m = len(theta)
    tau = levels(m)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m + (b[0] if b else 0.0)
    delta = R - R_bar + V[S_next] - V[S]
    if b:
        b[0] = b[0] + eta_b * alpha * delta
    V[S] = V[S] + alpha * delta


def d2_q(Q, theta, alpha, alpha_theta, S, A, R, S_next, b=None, eta_b=0.0):
    """Algorithms 1 and 4; with b (a list of one number), the learned offset of docs/decisions/0001."""
    m = len(theta)
    tau = levels(m)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m + (b[0] if b else 0.0)
    delta = R - R_bar + max(Q[S_next]) - Q[S, A]
    if b:
        b[0] = b[0] + eta_b * alpha * delta
    Q[S, A] = Q[S, A] + alpha * delta


def d3_td(Omega, theta, alpha, alpha_theta, S, R, S_next):
    """Algorithm 7. All Ω_j move at once from the old Ω: ψ_t carries time indices."""
    m, n = len(theta), Omega.shape[-1]
    tau_m, tau_n = levels(m), levels(n)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau_m[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m
    old = Omega.copy()
    for j in range(n):
        beta = 0.0
        for k in range(n):
            beta += tau_n[j] - (1 if R - R_bar + old[S_next, k] - old[S, j] < 0 else 0)
        Omega[S, j] = old[S, j] + alpha * beta / n


def d3_q(Omega, theta, alpha, alpha_theta, S, A, R, S_next):
    """Algorithms 2 and 8. All Ω_j move at once from the old Ω; a* is the first of the best."""
    m, n = len(theta), Omega.shape[-1]
    tau_m, tau_n = levels(m), levels(n)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau_m[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m
    a_star = int(np.argmax([sum(Omega[S_next, a]) / n for a in range(Omega.shape[1])]))
    old = Omega.copy()
    for j in range(n):
        beta = 0.0
        for k in range(n):
            beta += tau_n[j] - (1 if R - R_bar + old[S_next, a_star, k] - old[S, A, j] < 0 else 0)
        Omega[S, A, j] = old[S, A, j] + alpha * beta / n
