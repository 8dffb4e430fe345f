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


def return_with_horizon(omega, omega_next, delta, g, alpha):
    """docs/decisions/0013: the Z part of Ω = Q + Z after one step, where Z is the distribution of Σ g^t δ_t."""
    n = len(omega)
    tau = levels(n)
    Q, Q_next = sum(omega) / n, sum(omega_next) / n
    Z, Z_next = [x - Q for x in omega], sorted(x - Q_next for x in omega_next)

    def F(x):
        """The distribution function of Z(S′): straight from level to level, exponential beyond the outer numbers."""
        if x <= Z_next[0]:
            width = (Z_next[1] - Z_next[0]) / 2
            return tau[0] * np.exp((x - Z_next[0]) / width) if width > 0 else 0.0
        if x > Z_next[-1]:
            width = (Z_next[-1] - Z_next[-2]) / 2
            return 1 - (1 - tau[-1]) * np.exp(-(x - Z_next[-1]) / width) if width > 0 else 1.0
        k = max(k for k in range(n) if Z_next[k] < x)
        return tau[k] + (tau[k + 1] - tau[k]) * (x - Z_next[k]) / (Z_next[k + 1] - Z_next[k])

    v, v_next = sum(z**2 for z in Z) / n, sum(z**2 for z in Z_next) / n
    v_new = v + min(alpha, 1) * (delta**2 + g**2 * v_next - v)
    beta = [tau[j] - F((Z[j] - delta) / g) for j in range(n)]
    moved = [
        (Z[j] / v**0.5 if v**0.5 > 1e-12 * abs(Q) else 0.0) + min(alpha, 1) * 2 * (beta[j] - sum(beta) / n)
        for j in range(n)
    ]
    size = (sum(x**2 for x in moved) / n) ** 0.5
    return [v_new**0.5 * x / size for x in moved]


def d3_horizon_q(Omega, theta, alpha, alpha_theta, g, S, A, R, S_next, b, eta_b):
    """docs/decisions/0013: Q moves as in d2 with the offset, Z beside it. With one column it is the TD version."""
    Q = Omega.mean(axis=2)
    a_star = int(np.argmax(Q[S_next]))
    before = Q[S, A]
    old, old_next = list(Omega[S, A]), list(Omega[S_next, a_star])
    delta = R - (d2_average(theta, alpha_theta, R) + b[0]) + Q[S_next, a_star] - Q[S, A]
    b[0] = b[0] + eta_b * alpha * delta
    Omega[S, A] = before + alpha * delta + np.array(return_with_horizon(old, old_next, delta, g, alpha))


def d2_average(theta, alpha_theta, R):
    """θ by one reward, then its mean."""
    tau = levels(len(theta))
    for i in range(len(theta)):
        theta[i] = theta[i] + alpha_theta * (tau[i] - (1 if R < theta[i] else 0))
    return sum(theta) / len(theta)


def d3_horizon_actor_critic(w, u, theta, alpha, alpha_theta, alpha_pi, g, x, A, R, x_next):
    """docs/decisions/0013 on K active features: Ω̂(S, j) arrives at Q + K α δ + Z_j, each active weight carries its share."""
    here, ahead = x @ w, x_next @ w
    delta = R - d2_average(theta, alpha_theta, R) + ahead.mean() - here.mean()
    K = int(x.sum())
    Z = np.array(return_with_horizon(list(here), list(ahead), delta, g, K * alpha))
    w[x > 0] += (here.mean() + K * alpha * delta + Z - here) / K
    u[:] = u + alpha_pi * delta * policy_gradient(u, x, A)


def project(points, masses, atoms):
    """Masses on an even grid of atoms: each point counts for its two neighbours, in proportion to its nearness."""
    width = atoms[1] - atoms[0]
    return [sum(p * max(0.0, 1 - abs(x - atom) / width) for x, p in zip(points, masses, strict=True)) for atom in atoms]


def categorical_q(Q, masses, atoms, alpha, alpha_theta, S, A, R, S_next, b, eta_b):
    """docs/decisions/0014: the reward as masses on a grid that doubles until it reaches R. Returns R̄, the mean of the masses
    plus the offset."""
    m = len(masses)
    if (
        R != atoms[0] and atoms[0] == atoms[-1]
    ):  # one point so far: it becomes the middle, R is a quarter of the grid away
        width = abs(R - atoms[0]) / max((m - 1) // 4, 1)
        point, middle = atoms[0], (m - 1) // 2
        atoms[:] = [point + (i - middle) * width for i in range(m)]
        masses[:] = [1.0 if i == middle else 0.0 for i in range(m)]
    while not atoms[0] <= R <= atoms[-1]:
        width = 2 * (atoms[1] - atoms[0])
        lowest = atoms[0] if R > atoms[-1] else atoms[-1] - (m - 1) * width
        doubled = [lowest + i * width for i in range(m)]
        masses[:] = project(atoms, masses, doubled)
        atoms[:] = doubled
    target = project([R], [1.0], atoms) if atoms[0] != atoms[-1] else [1.0] + [0.0] * (m - 1)
    for i in range(m):
        masses[i] = masses[i] + alpha_theta * (target[i] - masses[i])
    R_bar = sum(p * x for p, x in zip(masses, atoms, strict=True)) + b[0]
    delta = R - R_bar + max(Q[S_next]) - Q[S, A]
    b[0] = b[0] + eta_b * alpha * delta
    Q[S, A] = Q[S, A] + alpha * delta
    return R_bar


def softmax(preferences):
    top = max(preferences)
    powers = [np.exp(p - top) for p in preferences]
    return [p / sum(powers) for p in powers]


def policy_gradient(u, x, A):
    """∇ ln π(A | S, u) for softmax preferences h(s, a) = x(s)·u[:, a]."""
    pi = softmax([x @ u[:, a] for a in range(u.shape[1])])
    gradient = np.zeros_like(u)
    for a in range(u.shape[1]):
        gradient[:, a] = ((1 if a == A else 0) - pi[a]) * x
    return gradient


def differential_actor_critic(w, u, R_bar, alpha, eta, eta_pi, x, A, R, x_next):
    """Algorithm 12, linear: v̂(s, w) = w·x(s)."""
    delta = R - R_bar[0] + w @ x_next - w @ x
    R_bar[0] = R_bar[0] + eta * alpha * delta
    w[:] = w + alpha * delta * x
    u[:] = u + eta_pi * alpha * delta * policy_gradient(u, x, A)


def d2_actor_critic(w, u, theta, alpha, alpha_theta, alpha_pi, x, A, R, x_next, b=None, eta_b=0.0):
    """Algorithm 5, linear; with b (a list of one number), the learned offset of docs/decisions/0001."""
    m = len(theta)
    tau = levels(m)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m + (b[0] if b else 0.0)
    delta = R - R_bar + w @ x_next - w @ x
    if b:
        b[0] = b[0] + eta_b * alpha * delta
    w[:] = w + alpha * delta * x
    u[:] = u + alpha_pi * delta * policy_gradient(u, x, A)


def huber_slope(x, tau, lam):
    """dh/dx of the quantile Huber loss."""
    weight = abs(tau - (1 if x < 0 else 0))
    return weight * x if abs(x) <= lam else weight * lam * (1 if x > 0 else -1)


def d3_actor_critic(w, u, theta, alpha, alpha_theta, alpha_pi, lam, x, A, R, x_next):
    """Algorithm 9, linear: Ω̂(s, j, w) = w[:, j]·x(s). ∂ℓ/∂w[:, j] = E_k[h′] x(S), since ψ falls with Ω̂(S, j)."""
    m, n = len(theta), w.shape[1]
    tau_m, tau_n = levels(m), levels(n)
    for i in range(m):
        theta[i] = theta[i] + alpha_theta * (tau_m[i] - (1 if R < theta[i] else 0))
    R_bar = sum(theta) / m
    omega, omega_next = x @ w, x_next @ w
    delta = R - R_bar + sum(omega_next) / n - sum(omega) / n
    for j in range(n):
        slope = sum(huber_slope(R - R_bar + omega_next[k] - omega[j], tau_n[j], lam) for k in range(n)) / n
        w[:, j] = w[:, j] + alpha * slope * x
    u[:] = u + alpha_pi * delta * policy_gradient(u, x, A)


def smooth_l1(x, lam):
    """Equation of the smooth L1 loss, L^λ(x)."""
    if abs(x) <= lam:
        return x**2 / (2 * lam)
    return abs(x) - lam / 2


def quantile_huber(x, tau, lam):
    """Equation of the quantile Huber loss, h^λ_τ(x)."""
    weight = abs(tau - (1 if x < 0 else 0))
    if abs(x) <= lam:
        return weight * x**2 / 2
    return weight * lam * (abs(x) - lam / 2)


def differential_deep_q(R_bar, alpha, eta, A, R, q, q_T_next, lam):
    """Algorithm 13 between the sample and the step on w; R_bar is a list of one number. Returns ℓ.

    q (B, A) is q̂(S_b, ·, w), q_T_next (B, A) is q̂_T(S′_b, ·, w_T).
    """
    B = len(R)
    delta = [R[b] - R_bar[0] + max(q_T_next[b]) - q[b][A[b]] for b in range(B)]
    y = min(range(B), key=lambda b: abs(delta[b]))
    R_bar[0] = R_bar[0] + eta * alpha * delta[y]
    return -sum(smooth_l1(delta[b], lam) for b in range(B)) / B


def d2_deep_q(theta, alpha_theta, A, R, q, q_T_next, lam, per_sample=False):
    """Algorithm 6 between the sample and the step on w. Returns ℓ. Ours: `per_sample`, θ by every reward of the batch."""
    B, m = len(R), len(theta)
    tau = levels(m)
    for i in range(m):
        below = sum(1 if r < theta[i] else 0 for r in R) / B if per_sample else (1 if sum(R) / B < theta[i] else 0)
        theta[i] = theta[i] + alpha_theta * (tau[i] - below)
    R_bar = sum(theta) / m
    delta = [R[b] - R_bar + max(q_T_next[b]) - q[b][A[b]] for b in range(B)]
    return -sum(smooth_l1(delta[b], lam) for b in range(B)) / B


def d3_deep_q(theta, alpha_theta, A, R, omega, omega_next, omega_T_next, lam, per_sample=False):
    """Algorithm 10 between the sample and the step on w. Returns ℓ. a* is the first of the best.

    omega (B, A, n) is Ω̂(S_b, ·, ·, w), omega_next Ω̂(S′_b, ·, ·, w), omega_T_next Ω̂_T(S′_b, ·, ·, w_T).
    """
    B, m, n = len(R), len(theta), len(omega[0][0])
    tau_m, tau_n = levels(m), levels(n)
    for i in range(m):
        below = sum(1 if r < theta[i] else 0 for r in R) / B if per_sample else (1 if sum(R) / B < theta[i] else 0)
        theta[i] = theta[i] + alpha_theta * (tau_m[i] - below)
    R_bar = sum(theta) / m
    total = 0.0
    for b in range(B):
        a_star = int(np.argmax([sum(quantiles) / n for quantiles in omega_next[b]]))
        for j in range(n):
            expected = 0.0
            for k in range(n):
                x = R[b] - R_bar + omega_T_next[b][a_star][k] - omega[b][A[b]][j]
                expected += quantile_huber(x, tau_n[j], lam) / n
            total += expected
    return -total / B


def stopping_deep_q(R, done, R_bar, gamma, values, next_values, unit, quantiles):
    """Ours: the loss with λ = 1 where rewards stop at an end, of values (B, n) in rewards that a network keeps in units.

    The target is R − R̄ + γ v′, and after an end v′ = Σ_k γ^k (0 − R̄), written out here. With `quantiles` the quantile Huber loss,
    summed over j and averaged over k, else the smooth L1 loss; errors are divided by the unit.
    """
    B, n = values.shape
    nothing = sum(gamma**k * (0 - R_bar) for k in range(5000))
    total = 0.0
    for b in range(B):
        for j in range(n):
            for k in range(n):
                ahead = nothing if done[b] else next_values[b][k]
                x = (R[b] - R_bar + gamma * ahead - values[b][j]) / unit
                total += quantile_huber(x, levels(n)[j], 1) / n if quantiles else smooth_l1(x, 1)
    return total / B


# --------------------------------------------------------------------------------------- the field's baselines, as published


def q_learning(Q, alpha, gamma, S, A, R, S_next, done=False):
    """Watkins 1989, discounted."""
    target = R + (0.0 if done else gamma * max(Q[S_next]))
    Q[S, A] = Q[S, A] + alpha * (target - Q[S, A])


def running_mean(R_bar, step, R):
    """What an uncentered rule reports as the average: R̄ ← R̄ + step (R − R̄)."""
    R_bar[0] = R_bar[0] + step * (R - R_bar[0])


def quantile_q_learning(Omega, alpha, gamma, S, A, R, S_next, done=False):
    """Dabney et al. 2018, Algorithm 1 of QR-DQN on a table with λ = 0: a* by the means, quantile loss, discounted targets."""
    n = Omega.shape[-1]
    tau = levels(n)
    a_star = int(np.argmax([sum(Omega[S_next, a]) / n for a in range(Omega.shape[1])]))
    targets = [R + (0.0 if done else gamma * Omega[S_next, a_star, k]) for k in range(n)]
    old = Omega[S, A].copy()
    for j in range(n):
        pull = 0.0
        for k in range(n):
            pull += tau[j] - (1 if targets[k] < old[j] else 0)
        Omega[S, A, j] = old[j] + alpha * pull / n


def centered_q_learning(Q, R_bar, alpha, eta, gamma, S, A, R, S_next):
    """Naik et al. 2024, Q-learning with value-based reward centering."""
    delta = (R - R_bar[0]) + gamma * max(Q[S_next]) - Q[S, A]
    Q[S, A] = Q[S, A] + alpha * delta
    R_bar[0] = R_bar[0] + eta * alpha * delta


def rvi_q_learning(Q, f, alpha, S, A, R, S_next):
    """Abounadi, Bertsekas & Borkar 2001, Eq. 2.8: f(Q) takes the place of the average."""
    Q[S, A] = Q[S, A] + alpha * (R + max(Q[S_next]) - f(Q) - Q[S, A])


def differential_sarsa(Q, R_bar, alpha, beta, S, A, R, S_next, A_next):
    """Sutton & Barto 2018, 10.3, on a table."""
    delta = R - R_bar[0] + Q[S_next, A_next] - Q[S, A]
    R_bar[0] = R_bar[0] + beta * delta
    Q[S, A] = Q[S, A] + alpha * delta


def differential_expected_sarsa(Q, R_bar, alpha, beta, epsilon, S, A, R, S_next):
    """The same with the mean of Q(S′, ·) under the ε-greedy policy."""
    count = len(Q[S_next])
    pi = [epsilon / count for _ in range(count)]
    pi[int(np.argmax(Q[S_next]))] += 1 - epsilon
    expected = sum(p * q for p, q in zip(pi, Q[S_next], strict=True))
    delta = R - R_bar[0] + expected - Q[S, A]
    R_bar[0] = R_bar[0] + beta * delta
    Q[S, A] = Q[S, A] + alpha * delta


def differential_linear_sarsa(w, R_bar, alpha, beta, x, A, R, x_next, A_next):
    """Sutton & Barto 2018, 10.3: semi-gradient, q̂(s, a, w) = w[a]·x(s)."""
    delta = R - R_bar[0] + w[A_next] @ x_next - w[A] @ x
    R_bar[0] = R_bar[0] + beta * delta
    w[A] = w[A] + alpha * delta * x


def linear_q_learning(w, R_bar, alpha, beta, x, A, R, x_next):
    """Differential semi-gradient Q-learning, q̂(s, a, w) = w[a]·x(s)."""
    delta = R - R_bar[0] + max(w @ x_next) - w[A] @ x
    R_bar[0] = R_bar[0] + beta * delta
    w[A] = w[A] + alpha * delta * x


# ------------------------------------------------------------------------ ours: tiles that fit any scale of rewards


def unseen_on_tiles(e, x, x_next):
    """What is unseen, ê(s, e) = e·x(s), all 1 at first: a TD step of 0.5 without rewards, discount 0.96. Returns its TD error."""
    error = 0.96 * (e @ x_next) - e @ x
    e[:] = e + 0.5 / sum(x) * error * x
    return error


def bonus(optimism, delay, steps, unit):
    """How many units of return the bonus of the unseen is."""
    return optimism / (1 + steps / delay) if unit > 0 else 10 * optimism


def scale_free_actor_critic(
    w, u, e, R_bar, size, alpha, beta, alpha_pi, gamma, seen, bonus, unit, x, A, R, x_next, done
):
    """Actor-critic with a discount; R̄ is the running mean of the rewards; no rewards after an end; the policy moves by δ with the
    bonus, in units of Σ .99^k δ_k for independent normal δ of the mean size that was seen, at most by one unit."""
    end_value = -R_bar[0] / (1 - gamma)
    delta = R - R_bar[0] + gamma * (end_value if done else w @ x_next) - w @ x
    R_bar[0] = R_bar[0] + beta * (R - R_bar[0])
    w[:] = w + alpha * delta * x
    size[0] = size[0] + 3 / (seen + 2) * (abs(delta) - size[0])
    error = bonus * unseen_on_tiles(e, x, x_next)
    if unit > 0:
        error = (delta + unit * error) / (size[0] * np.sqrt(np.pi / 2) / np.sqrt(1 - 0.99**2))
    u[:] = u + alpha_pi * min(max(error, -1), 1) * policy_gradient(u, x, A)


def scores_with_bonus(w, e, x, unit, bonus):
    """What the actions of optimistic Q are chosen by: q̂(s, a, w[a]) in units of return, and the bonus times what is unseen."""
    values = (w @ x) / unit if unit > 0 else np.zeros(len(w))
    return values + bonus * (e @ x)


def scale_free_tile_sarsa(w, e, R_bar, alpha, beta, gamma, x, A, R, x_next, A_next, done):
    """Sarsa with a discount on tiles; R̄ is the running mean of the rewards; no rewards after an end."""
    end_value = -R_bar[0] / (1 - gamma)
    delta = R - R_bar[0] + gamma * (end_value if done else w[A_next] @ x_next) - w[A] @ x
    R_bar[0] = R_bar[0] + beta * (R - R_bar[0])
    w[A] = w[A] + alpha * delta * x
    error = 0.96 * (e[A_next] @ x_next) - e[A] @ x
    e[A] = e[A] + 0.5 / sum(x) * error * x


def traces_of_values(past, x, column, alpha, decay, longest):
    """z of true online TD(λ) (van Seijen & Sutton 2014; Sutton & Barto, 12.5) at features x: z ← decay z + (1 − α decay z·x) x,
    for each column a vector. Steps more than `longest` ago are forgotten, so z is written as the sum of the steps `past`, a list
    of (x, column, 1 − α decay z·x), to which this one is added."""
    z = {}
    for ago, (features, place, weight) in enumerate(reversed(past[-longest:]), 1):
        z[place] = z.get(place, np.zeros(len(x))) + decay**ago * weight * features
    old = z.get(column, np.zeros(len(x)))
    past.append((x, column, 1 - alpha * (old @ x)))
    z[column] = old + past[-1][2] * x
    return z


def traces_of_policy(past, decay, longest):
    """Accumulating traces: Σ decay^k ∇ ln π of the step k steps ago; `past` is a list of gradients, the last one now."""
    return sum(decay**ago * gradient for ago, gradient in list(enumerate(reversed(past)))[: longest + 1])


def default_q(state, rule, S, A, R, S_next):
    """The default of QLearning for "differential" and "d2", step by step. `state` is a dict: Q (S, A), theta, b, visits (S, A), t,
    and what it has seen.

    Units: the spread of the rewards, in which θ moves, is the root of a running mean square of R − (running mean), where a
    deviation counts for no more than the second largest so far. The memory is a third of the steps.
    """
    Q, theta, b, nu, t = state["Q"], state["theta"], state["b"], state["visits"], state["t"]
    entries, m = Q.size, len(theta)
    tau = levels(m)
    # The reward is seen.
    n = t + 1
    if n == 1:
        state["mean"], state["square"], state["largest"], state["second"], state["first"] = R, 0.0, 0.0, 0.0, []
    rate = max(3.0 / (n + 2.0), 1e-5)
    deviation = R - state["mean"]
    state["mean"] += rate * deviation
    size = abs(deviation)
    state["largest"], state["second"] = sorted([state["largest"], state["second"], size], reverse=True)[:2]
    size = min(size, state["second"])
    state["square"] += rate * (size**2 - state["square"])
    # The first 128 rewards give θ and R̄.
    if n <= 128:
        state["first"].append(R)
        ordered = sorted(state["first"])
        average = sum(ordered) / n
        if rule == "d2":
            theta[:] = [ordered[min(int(tau[i] * n), n - 1)] for i in range(m)]
            b[0] = average - sum(theta) / m
        else:
            theta[0] = average
    alpha = 1.0 / (1.0 + nu[S, A] / 10.0) ** 0.8
    if rule == "d2":
        alpha_theta = 1.0 / (1.0 + t / 10.0) ** 0.8 * state["square"] ** 0.5
        for i in range(m):
            theta[i] = theta[i] + alpha_theta * (tau[i] - (1 if R < theta[i] else 0))
        R_bar = sum(theta) / m + b[0]
        delta = R - R_bar + max(Q[S_next]) - Q[S, A]
        b[0] = b[0] + alpha / entries * delta
    else:
        delta = R - theta[0] + max(Q[S_next]) - Q[S, A]
        theta[0] = theta[0] + alpha / entries * delta
    Q[S, A] = Q[S, A] + alpha * delta
    nu[S, A] += 1
    state["t"] += 1
