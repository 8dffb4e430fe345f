"""The losses of the soft actor-critic: against a slow transcription and Stable-Baselines3's own code, and which weights move."""

from __future__ import annotations

import itertools
import math
import shutil

import gymnasium
import numpy as np
import pytest

import perstep
from perstep.deep.continuous.settings import SoftActorCriticConfig
from perstep.deep.observations import Observations
from perstep.deep.replay import Batch
from perstep.numerics.quantiles import levels
from perstep.numerics.randomness import make_generator
from perstep.rules import transition as rules

torch = pytest.importorskip("torch")
from perstep.deep import losses  # noqa: E402
from perstep.deep.continuous.learner import SoftActorCriticLearner  # noqa: E402
from perstep.deep.continuous.networks import squashed  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")

B, NUMBERS, ACTIONS, QUANTILES = 8, 3, 2, 4
VECTORS = Observations((NUMBERS,), "float32", "vector")
DISCOUNTED = {"discount": 0.99, "centered": False, "termination": "mask"}
CASES = {
    "differential": {"rule": "differential", "level_ratio": 0.3},
    "d2": {"rule": "d2", "level_ratio": 0.3},
    "categorical": {"rule": "categorical"},
    "rvi": {"rule": "rvi", "level_ratio": 0.3},
    "d2, a horizon of values": {"rule": "d2", "discount": 0.9},
    "SAC": {"rule": "differential", **DISCOUNTED},
    "quantile SAC": {"rule": "d3", **DISCOUNTED},
    "layers normalised": {"rule": "d2", "normalization": "layer"},
}


def batch(seed=0, count=B):
    rng = np.random.default_rng(seed)
    seen, ahead = rng.normal(size=(2, count, NUMBERS)).astype(np.float32)
    actions = rng.uniform(-1.0, 1.0, (count, ACTIONS)).astype(np.float32)
    return Batch(seen, actions, rng.normal(size=count), ahead, rng.random(count) < 0.3)


def new(seed=0, **settings):
    """A learner with a target network of its own."""
    settings = {"hidden": (5, 6), "num_quantiles": QUANTILES, "batch_size": B, "device": "cpu", **settings}
    config = SoftActorCriticConfig(**settings)
    learner = SoftActorCriticLearner(VECTORS, ACTIONS, config, make_generator(seed))
    generator = torch.Generator().manual_seed(seed)
    for weight in learner.target.parameters():
        weight.data.uniform_(-0.7, 0.7, generator=generator)
    return learner


def fed(learner, *noises):
    """The learner with these draws instead of those of its generator: for S′, then for S."""
    learner._noise = lambda count, generator: torch.cat(noises)
    return learner


def average_of(learner, average):
    """A reward estimate whose R̄ is this number."""
    return rules.reward_estimate(learner.config.theta_size, average)


def noises(seed=5):
    return torch.randn(2, B, ACTIONS, generator=torch.Generator().manual_seed(seed))


# ------------------------------------------------------------------------------------------ a slow transcription, in NumPy


def values_of(critics, observation, action, normalized):
    """(2, n): the outputs of two critics, one after the other."""
    found = []
    for twin in range(2):
        out = np.concatenate([observation, action]).astype(float)
        for layer in range(len(critics.weights)):
            out = (
                out @ critics.weights[layer][twin].detach().double().numpy()
                + critics.biases[layer][twin, 0].detach().double().numpy()
            )
            if layer < len(critics.weights) - 1:
                if normalized:
                    out = (out - out.mean()) / np.sqrt(out.var() + 1e-5)
                out = np.maximum(out, 0.0)
        found.append(out)
    return np.array(found)


def drawn_from(policy, observation, noise):
    out = np.asarray(observation, float)
    for layer in policy.body:
        if isinstance(layer, torch.nn.Linear):
            out = np.maximum(layer.weight.detach().double().numpy() @ out + layer.bias.detach().double().numpy(), 0.0)
    out = policy.head.weight.detach().double().numpy() @ out + policy.head.bias.detach().double().numpy()
    mean, log_deviation = out[:ACTIONS], np.clip(out[ACTIONS:], -20, 2)
    raw = mean + np.exp(log_deviation) * noise.double().numpy()
    density = np.exp(-0.5 * ((raw - mean) / np.exp(log_deviation)) ** 2) / (
        np.exp(log_deviation) * math.sqrt(2 * math.pi)
    )
    action = np.tanh(raw)
    return action, float(np.log(density / (1 - action**2)).sum())


def slow_losses(learner, sample, average, ahead_noise, noise):
    """(critics, policy, temperature), sample by sample."""
    config, online = learner.config, learner.online
    normalized, alpha = config.normalization == "layer", math.exp(float(online.log_temperature.detach()))
    soft, chances, estimates, policy, entropies = [], [], [], [], []
    for b in range(B):
        action, log_chance = drawn_from(online.policy, sample.next_observation[b], ahead_noise[b])
        both = values_of(learner.target, sample.next_observation[b], action, normalized)
        ahead = both[both.mean(1).argmin()] - alpha * log_chance
        masked = sample.masked[b] and config.termination == "mask"
        soft.append(np.zeros_like(ahead) if masked else ahead)
        chances.append(log_chance)
        estimates.append(values_of(online.critics, sample.observation[b], sample.action[b], normalized))
        action, log_chance = drawn_from(online.policy, sample.observation[b], noise[b])
        worth = values_of(online.critics, sample.observation[b], action, normalized).mean(1).min()
        policy.append(alpha * log_chance - worth)
        entropies.append(log_chance)
    level = np.mean(soft)
    reads = config.rule == "rvi"
    subtracted = (0.0 if reads else average - alpha * np.mean(chances)) if config.centered else 0.0
    if config.centered and config.discount == 1.0:
        subtracted += config.level_ratio * level
    total = 0.0
    for twin, b in itertools.product(range(2), range(B)):
        target, estimate = sample.reward[b] - subtracted + config.discount * soft[b], estimates[b][twin]
        if config.rule == "d3":
            for j, tau in enumerate(levels(QUANTILES)):
                for y in target:
                    psi = y - estimate[j]
                    size = abs(psi)
                    huber = 0.5 * psi**2 if size <= 1.0 else size - 0.5
                    total += abs(tau - (psi < 0)) * huber / QUANTILES / B
        else:
            total += 0.5 * float(target[0] - estimate[0]) ** 2 / B
    temperature = -math.log(alpha) * (np.mean(entropies) - ACTIONS)
    return total, float(np.mean(policy)), temperature


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", range(2))
def test_losses_are_those_of_a_slow_transcription(case, seed):
    settings = {"initial_temperature": 0.4, **CASES[case]}
    sample, (ahead_noise, noise) = batch(seed), noises(seed)
    learner = fed(new(seed, **settings), ahead_noise, noise)
    if learner.config.termination != "mask":
        sample.masked[:] = False
    config = learner.config
    rewards = rules.reward_estimate(config.theta_size, 0.7, has_masses=config.rule_row.has_reward_masses)
    average = float(rules.average_reward(config.kernel, rewards))
    parts, _ = learner.losses_and_look(sample, rewards, learner._steps())
    got = [float(loss.detach()) for loss in parts]
    assert got == pytest.approx(slow_losses(learner, sample, average, ahead_noise, noise), rel=2e-6, abs=1e-6)
    whole, _ = learner.loss(sample, rewards, learner._steps())
    assert float(whole.detach()) == pytest.approx(got[0], rel=1e-6)
    weights = list(learner.online.parameters())
    slopes = [torch.autograd.grad(loss, weights, allow_unused=True, retain_graph=True) for loss in (whole, sum(parts))]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_with_a_horizon_the_mean_of_the_quantiles_has_the_loss_of_d2():
    sample, (ahead_noise, noise) = batch(), noises()
    sample.masked[:] = False
    learner = fed(new(rule="d3", horizon=20.0, initial_temperature=0.4), ahead_noise, noise)
    (of_critics, _, _), look = learner.losses_and_look(sample, average_of(learner, 0.3), learner._steps())
    (slope,) = torch.autograd.grad(of_critics, look.estimate)
    delta = -slope.sum(1).detach() * B
    around = losses.around_the_mean(delta, look, learner._settings)
    assert float(of_critics.detach()) == pytest.approx(float((delta.square().mean() + 2.0 * around).detach()), rel=1e-5)
    targets = sample.reward - 0.3 + look.bootstrap[:B].mean(1).numpy()
    log_chance = np.mean([drawn_from(learner.online.policy, s, z)[1] for s, z in zip(sample.next_observation, ahead_noise)])
    targets += 0.4 * log_chance - 0.1 * float(look.bootstrap.mean())
    np.testing.assert_allclose(delta[:B] + look.estimate[:B].mean(1).detach(), targets, rtol=1e-5, atol=1e-6)


# ------------------------------------------------------------------------------------------------------ Stable-Baselines3


def copied(theirs, learner):
    """Their weights in our networks."""
    for ours, critic in ((learner.online.critics, theirs.critic), (learner.target, theirs.critic_target)):
        for twin, network in enumerate(critic.q_networks):
            layers = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
            for weight, bias, layer in zip(ours.weights, ours.biases, layers, strict=True):
                weight.data[twin] = layer.weight.data.T
                bias.data[twin, 0] = layer.bias.data
    policy, actor = learner.online.policy, theirs.actor
    ours = [layer for layer in policy.body if isinstance(layer, torch.nn.Linear)]
    for own, layer in zip(
        ours, [layer for layer in actor.latent_pi if isinstance(layer, torch.nn.Linear)], strict=True
    ):
        own.load_state_dict(layer.state_dict())
    policy.head.weight.data[:] = torch.cat([actor.mu.weight, actor.log_std.weight])
    policy.head.bias.data[:] = torch.cat([actor.mu.bias, actor.log_std.bias])
    learner.online.log_temperature.data.copy_(theirs.log_ent_coef.data[0])


@pytest.mark.parametrize("seed", range(3))
def test_discounted_losses_are_those_of_stable_baselines3(seed, monkeypatch):
    """One call of their `train`, with steps of 0 so that all three losses are of the same weights."""
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.logger import Logger

    box = gymnasium.spaces.Box(-1.0, 1.0, (NUMBERS,)), gymnasium.spaces.Box(-1.0, 1.0, (ACTIONS,))

    class Nothing(gymnasium.Env):
        observation_space, action_space = box

        def reset(self, *, seed=None, options=None):
            return np.zeros(NUMBERS, np.float32), {}

    peer = sb3.SAC(
        "MlpPolicy", Nothing(), learning_rate=0.0, batch_size=B, buffer_size=B, seed=seed, device="cpu",
        ent_coef="auto_0.4", policy_kwargs={"net_arch": [5, 6]},
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    for weight in peer.critic_target.parameters():
        weight.data.uniform_(-0.7, 0.7, generator=generator)
    sample, (ahead_noise, noise) = batch(seed), noises(seed)
    for b in range(B):
        row = [sample.observation[b], sample.next_observation[b], sample.action[b], sample.reward[b], sample.masked[b]]
        peer.replay_buffer.add(*(np.array([part]) for part in row), [{}])
    monkeypatch.setattr(
        np.random, "randint", lambda low, high, size=None: np.arange(B) if size == B else np.zeros(B, int)
    )
    drawn = iter((noise, ahead_noise))  # theirs: for S, then for S′
    monkeypatch.setattr(
        torch.distributions.Normal, "rsample", lambda self, shape=(): self.loc + self.scale * next(drawn)
    )
    peer.actor.action_dist.epsilon = 0.0  # they add 1e-6 to 1 − tanh²
    peer.set_logger(Logger(None, []))
    learner = fed(new(seed, rule="differential", **DISCOUNTED), ahead_noise, noise)
    copied(peer, learner)
    peer.train(gradient_steps=1, batch_size=B)
    told = [peer.logger.name_to_value[f"train/{name}_loss"] for name in ("critic", "actor", "ent_coef")]
    parts, _ = learner.losses_and_look(sample, average_of(learner, 0.0), learner._steps())
    got = [float(loss.detach()) for loss in parts]
    assert got == pytest.approx(told, rel=2e-6, abs=1e-6)


# -------------------------------------------------------------------------------------------------------------- the rest


def test_each_loss_has_slopes_on_its_own_weights_alone():
    learner, sample = new(), batch()
    parts, _ = learner.losses_and_look(sample, average_of(learner, 0.0), learner._steps())
    for name, loss in zip(("critics", "policy", "log_temperature"), parts, strict=True):
        learner.optimizer.zero_grad()
        loss.backward()
        moved = {key.partition(".")[0] for key, weight in learner.online.named_parameters() if weight.grad is not None}
        assert moved == {name}
    assert not any(weight.requires_grad for weight in learner.target.parameters())


def test_density_of_a_squashed_gaussian_is_one_over_the_box():
    """∫ π(a) da = 1 for one number, by quadrature over a = tanh(mean + deviation · z)."""
    z = torch.linspace(-12.0, 12.0, 200_001, dtype=torch.float64)[:, None]
    mean, log_deviation = torch.full_like(z, 0.3), torch.full_like(z, -0.4)
    action, log_chance = squashed((mean, log_deviation), z)
    area = torch.trapezoid(log_chance.exp(), action[:, 0])
    assert float(area) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("rule", ["differential", "d3"])
def test_a_new_unit_changes_no_value_and_the_temperature_goes_with_it(rule):
    agent = perstep.SoftActorCritic("Pendulum-v1", rule=rule, hidden=(8,), batch_size=8, learning_starts=20, threads=1)
    agent.learn(40)
    observation, action = np.array([1.0, 0.0, 0.5]), [0.7]
    before, value, learner = agent.temperature, agent.action_value(observation, action), agent._network
    unit = learner.unit
    learner._rescale(0.25)
    learner.unit = 4.0 * unit
    assert agent.temperature == pytest.approx(4.0 * before, rel=1e-6)
    assert agent.action_value(observation, action) == pytest.approx(value, rel=1e-5)


def test_compiled_losses_are_the_plain_ones():
    if shutil.which("c++") is None:
        pytest.skip("torch.compile needs a C++ compiler")
    plain, compiled = (new(rule="d2", normalization="layer", compile=wanted) for wanted in (False, True))
    sample = batch()
    with plain.learning():
        expected, _ = fed(plain, *noises()).losses_and_look(sample, average_of(plain, 0.3), plain._steps())
    with compiled.learning():
        got, _ = fed(compiled, *noises()).losses_and_look(sample, average_of(compiled, 0.3), compiled._steps())
    for one, other in zip(got, expected, strict=True):
        assert float(one.detach()) == pytest.approx(float(other.detach()), rel=1e-5)
    slopes = [torch.autograd.grad(sum(parts), list(learner.online.parameters())) for parts, learner in ((got, compiled), (expected, plain))]
    for one, other in zip(*slopes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
