"""The truth about Z = Σ g^t δ_t in a finite world: its variance by a linear system, its quantiles by simulation."""

import numpy as np

from perstep.distributions.distribution import capped_moments


def solved(mdp):
    """r̄*, Q* (S, A) and the greedy policy (S,)."""
    best = mdp.solve()
    return best.average_reward, best.action_values, best.action_values.argmax(axis=1)


def return_spreads(mdp, factor):
    """The standard deviation of Z(s, a) when the best policy is followed after a: v = E[δ²] + g² P v. (S, A)"""
    average, values, policy = solved(mdp)
    outcomes, (states, actions) = mdp.outcomes, values.shape
    means, variances = capped_moments(outcomes.mean, outcomes.sd, outcomes.cap)
    delta = means - average + values.max(axis=1)[outcomes.next_state] - values[..., None]
    here = (outcomes.probability * (delta**2 + variances)).sum(axis=2)
    moves = np.zeros((states, actions, states, actions))
    for s, a, k in np.ndindex(outcomes.probability.shape):
        ahead = outcomes.next_state[s, a, k]
        moves[s, a, ahead, policy[ahead]] += outcomes.probability[s, a, k]
    size = states * actions
    system = np.eye(size) - factor**2 * moves.reshape(size, size)
    return np.sqrt(np.linalg.solve(system, here.ravel())).reshape(states, actions)


def sampled_returns(mdp, factor, state, action, count, seed=0):
    """Draws of Z(s, a), (count,), with what lies beyond a factor of 1e-4 left out."""
    average, values, policy = solved(mdp)
    random, outcomes = np.random.default_rng(seed), mdp.outcomes
    states, actions = np.full(count, state), np.full(count, action)
    total, weight = np.zeros(count), 1.0
    thresholds = outcomes.probability.cumsum(axis=2)
    while weight > 1e-4:
        k = (random.random(count)[:, None] > thresholds[states, actions]).sum(axis=1)
        k = np.minimum(k, thresholds.shape[2] - 1)
        reward = outcomes.mean[states, actions, k] + outcomes.sd[states, actions, k] * random.standard_normal(count)
        ahead = outcomes.next_state[states, actions, k]
        total += weight * (
            np.minimum(reward, outcomes.cap) - average + values.max(axis=1)[ahead] - values[states, actions]
        )
        states, actions, weight = ahead, policy[ahead], weight * factor
    return total
