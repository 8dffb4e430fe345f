"""What a world must answer: five values for a step, two for a reset. The interface of old gym is recognised."""

from __future__ import annotations

from typing import Any, final

import gymnasium
from gymnasium.utils import RecordConstructorArgs


@final
class WholeAnswers(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The same world; a wrong answer is refused before a wrapper of Gymnasium fails on it."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start again."""
        return whole_reset(self.env, seed=seed, **({} if options is None else {"options": options}))

    def step(self, action: Any) -> Any:
        """One step."""
        return whole_step(self.env.step(action))


def whole_step(result: Any) -> Any:
    """What a step returned, refused where it is not Gymnasium's five values."""
    if isinstance(result, tuple) and len(result) == 5:
        return result
    got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
    raise TypeError(
        f"step() must return (observation, reward, terminated, truncated, info), got {got}. The four values of old gym have one "
        "`done`: return terminated (a true end) and truncated (a time limit) instead, or, for a world of the old package, use "
        "shimmy: gymnasium.make('GymV21Environment-v0', env=world)."
    )


def first_observation(env: Any, seed: int | None) -> Any:
    """The first observation of an episode."""
    return whole_reset(env, seed=seed)[0]


def whole_reset(env: Any, **arguments: Any) -> Any:
    """What a reset returned, refused where it is not Gymnasium's two values."""
    try:
        result = env.reset(**arguments)
    except TypeError as error:
        if "unexpected keyword argument 'seed'" not in str(error):
            raise
        raise TypeError(
            "reset() must take a seed, as in def reset(self, *, seed=None, options=None), but this world's does not. Add it, and "
            "call super().reset(seed=seed), so that a run can be repeated."
        ) from error
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict):
        return result
    raise TypeError(
        f"reset() must return (observation, info) with a dictionary as info, got {result!r}. Return observation, {{}} in the world."
    )
