"""Names that people bring from other libraries, above all Stable-Baselines3, and what to use instead."""

from __future__ import annotations

from collections.abc import Container, Mapping

SYNONYMS: Mapping[str, str] = {
    "gamma": "discount",
    "learning_rate": "step_size",
    "lr": "step_size",
    "alpha": "step_size",
    "buffer_size": "replay_capacity",
    "train_freq": "update_every",
    "tau": "target_step_size",
    "exploration_final_eps": "epsilon",
    "exploration_initial_eps": "initial_epsilon",
    "n_quantiles": "num_quantiles",
    "n_steps": "return_steps",
    "max_grad_norm": "gradient_clip",
    "net_arch": "hidden",
    "lam": "trace_decay",
    "lambda_": "trace_decay",
    "td_lambda": "trace_decay",
    "traces": "trace_decay",
    "policy": "The network is chosen by the observations; network and hidden change it.",
    "policy_kwargs": "The sizes of the layers are hidden=(256, 256), the step of Adam is step_size.",
    "verbose": "learn(progress=True) shows a bar, agent.check() says what is wrong; callbacks print nothing.",
    "exploration_fraction": "epsilon_steps is the number of steps in which ε falls.",
    "exploration_rate": "epsilon is its final value and epsilon_steps the number of steps until then.",
    "target_update_interval": "The target network follows at every update: target_lag is how many steps it is behind.",
    "gradient_steps": "There is one minibatch every update_every steps.",
    "tensorboard_log": "Give callback=perstep.TensorBoardCallback(folder) to learn.",
    "optimizer_class": "Networks learn with Adam.",
    "ent_coef": "SoftActorCritic learns its temperature, from initial_temperature on; no other learner has an entropy bonus.",
    "gae_lambda": "The learners on tiles have eligibility traces, trace_decay; networks have return_steps.",
    "n_envs": "Give a vector environment: gymnasium.make_vec(id, num_envs=8).",
    "num_envs": "Give a vector environment: gymnasium.make_vec(id, num_envs=8).",
    "total_timesteps": "It is called num_steps, an argument of learn: agent.learn(100_000).",
    "progress_bar": "It is called progress: learn(100_000, progress=True).",
    "log_interval": "agent.history has the averages of every window, whatever is shown.",
    "tb_log_name": "Give callback=perstep.TensorBoardCallback(folder) to learn.",
    "reset_num_timesteps": "learn always continues; make a new agent to begin again.",
    "eval_freq": "Give callback=perstep.EvalCallback(eval_freq=10_000).",
    "n_eval_episodes": "A task that never ends has no episodes: num_steps is the length of an evaluation, "
    "whose episode_returns are those that ended.",
    "env": "The agent evaluates in a copy of its own world: leave it out; perstep.load(path, env=env) takes it to another one.",
    "eval_env": "The agent evaluates in a copy of its own world: leave it out; perstep.load(path, env=env) "
    "takes it to another one.",
    "render": "perstep evaluate FILE --video film.gif records a video.",
    "return_episode_rewards": "They are in the result: evaluate(num_steps).episode_returns.",
    "n_eval_steps": "It is called num_steps.",
    "callback_on_new_best": "Look at callback.best in a callback of your own: learn(…, callback=[evaluating, mine]).",
    "callback_after_eval": "Give several callbacks: learn(…, callback=[evaluating, mine]).",
    "log_path": "callback.evaluations holds every evaluation.",
    "warn": "There is nothing to warn of.",
    "save_replay_buffer": "The replay is always saved with the agent, by agent.save(path); replay=False leaves it out.",
    "save_vecnormalize": "What the agent knows of scales is always saved with it.",
    "set_env": "Save the agent and load it into the other world: perstep.load(path, env=env).",
    "get_env": "The world is the one that you gave; agent.mdp is the finite MDP, if it is one.",
    "get_parameters": "agent.network is the PyTorch module of an agent with networks; tables have all_action_values.",
    "set_parameters": "agent.network.load_state_dict(...) sets the weights of a network; perstep.load reads a whole agent.",
    "load_replay_buffer": "perstep.load(path) reads the replay with the agent.",
    "evaluate_policy": "agent.evaluate(num_steps) follows the policy for a budget of steps.",
    "export": "Tables and networks can be exported. The weights of tiles are in the file that save(path) "
    "writes, which the library safetensors reads.",
    "action_values": "ActorCritic has no values of actions: policy(observation) are their probabilities, and "
    "state_value(observation) is the value. SoftActorCritic has action_value(observation, action).",
    "state_value": "TileQ and DeepQ have values of actions: action_values(observation), whose largest is that of the state. "
    "SoftActorCritic has action_value(observation, action).",
    "train": "learn(num_steps) takes steps and learns from them.",
    "fit": "learn(num_steps) takes steps and learns from them.",
    "replay_buffer": "It is private; agent.config.replay_capacity is its size.",
    "num_timesteps": "It is called steps: agent.steps.",
    "observation_space": "It is that of the world that you gave.",
    "action_space": "It is that of the world that you gave.",
    "DQN": "Use perstep.DeepQ(env), or with a discount alone perstep.make_agent('dqn', env).",
    "QRDQN": "Use perstep.DeepQ(env, rule='d3'), or with a discount alone perstep.make_agent('qr-dqn', env).",
    "PPO": "Use perstep.ActorCritic(env) for boxes of a few numbers, perstep.DeepQ(env) for images and long vectors.",
    "A2C": "Use perstep.ActorCritic(env) for boxes of a few numbers, perstep.DeepQ(env) for images and long vectors.",
    "SAC": "Use perstep.SoftActorCritic(env), or with a discount alone perstep.make_agent('sac', env).",
    "TD3": "Use perstep.SoftActorCritic(env) for actions in a box.",
    "DDPG": "Use perstep.SoftActorCritic(env) for actions in a box.",
    "TQC": "Use perstep.SoftActorCritic(env, rule='d3') for actions in a box.",
}
"""Settings, arguments, methods and classes elsewhere → the name here, or a sentence."""


def class_hint(name: str) -> str:
    """What to use instead of an algorithm of another library, in whichever letters it is written; empty for other names."""
    return SYNONYMS.get(str(name).upper().replace("-", "").replace("_", ""), "")


def instead_of(name: str, known: Container[str] = ()) -> str:
    """A sentence about a name of another library; empty if it means nothing here, or something that is not among these names."""
    ours = SYNONYMS.get(name, "")
    if not ours.isidentifier():
        return ours
    return f"It is called {ours!r} here." if ours in known else ""
