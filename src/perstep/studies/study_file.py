"""Read a user's own study from a file and check all of it before anything runs. The result has the form of the paper's studies."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perstep.inputs.checks import count
from perstep.inputs.errors import unknown
from perstep.numerics.schedules import Decay, is_finite
from perstep.rules import presets
from perstep.rules.lattice import ALGORITHMS, algorithm
from perstep.studies.runs import load_code
from perstep.studies.study import Study, setting_name

KEYS = ("name", "algorithm", "world", "world_settings", "grid", "fixed", "steps", "runs", "seeds", "window")
NEEDED = ("algorithm", "world", "grid", "steps")
RUNS = 10  # default number of runs per configuration
WINDOWS = 100  # default number of windows per run
MOST_CONFIGURATIONS = 100_000
MOST_RUNS = 10_000_000
LARGEST_SEED = 2**63 - 1  # of the column of a result file
LARGEST_FILE = 1_000_000  # bytes
LONGEST_NAME = 200  # bytes: most file systems allow 255, and the name gets suffixes
SUFFIXES = (".yaml", ".yml", ".json", ".py")


@dataclass(frozen=True, kw_only=True)
class Range:
    """All numbers from `low` to `high`, for a search: {low: 1e-4, high: 1e-1, log: true}."""

    low: float
    high: float
    log: bool = False
    """Whether to draw factors evenly rather than differences: for step sizes."""

    def __post_init__(self) -> None:
        if not (is_finite(self.low) and is_finite(self.high)):
            raise ValueError(f"low and high of a range must be finite numbers, got {self.low!r} and {self.high!r}.")
        if self.low >= self.high:
            raise ValueError(f"low of a range must be below high, got low {self.low} and high {self.high}.")
        if not isinstance(self.log, bool):
            raise ValueError(f"log of a range must be true or false, got {self.log!r}.")
        if self.log and self.low <= 0:
            raise ValueError(f"A range with log: true must begin above 0, got low {self.low}.")

    @property
    def whole(self) -> bool:
        """Whether it holds whole numbers alone: both ends are written as such."""
        return isinstance(self.low, int) and isinstance(self.high, int)


@dataclass(frozen=True)
class UserStudy:
    """A named study of one algorithm, or of several for comparison."""

    name: str
    studies: tuple[Study, ...]
    """Where the file gives a range, the grid has its two ends."""
    code: str | None = None
    """The path of the study file if it is a Python file."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """The settings whose values are a range. Only a search can run them."""


def read_study(path: Path) -> UserStudy:
    """The study in a YAML or JSON file, or in a Python file that defines STUDY. A Python file is executed."""
    if path.suffix not in SUFFIXES:
        raise ValueError(f"A study must be a .yaml, .json or .py file, got {str(path)!r}.")
    if not path.is_file():
        raise FileNotFoundError(f"There is no study file {path}.")
    if path.suffix == ".py":
        code = str(path.resolve())
        try:
            given = getattr(load_code(code), "STUDY", None)
        except SyntaxError as error:
            raise ValueError(f"{path} is not Python: {error}.") from error
        if given is None:
            raise ValueError(f"{path} does not define STUDY, a dict with the keys of a study file.")
    else:
        code, given = None, _plain(path)
    try:
        name, studies = studies_of(given, path.stem)
        ranges = _ranges(given["grid"])
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{path}: {error}") from error
    return UserStudy(name, studies, code, ranges)


def studies_of(given: Any, name: str) -> tuple[str, tuple[Study, ...]]:
    """The name and the studies that the content of a file describes: one study per algorithm, all of them checked."""
    if not isinstance(given, Mapping):
        raise TypeError(
            f"A study must be a mapping with keys such as algorithm, world and grid, got {type(given).__name__}."
        )
    for key in given:
        if key not in KEYS:
            raise unknown("key of a study", key, KEYS)
    if missing := [key for key in NEEDED if key not in given]:
        raise ValueError(f"A study needs {' and '.join(missing)}.")
    name = str(given.get("name", name))
    if not re.fullmatch(r"[\w][\w.-]*", name):
        raise ValueError(
            f"The name of a study is the name of its folder: it must consist of letters, digits, - and _, got {name!r}."
        )
    names = given["algorithm"] if isinstance(given["algorithm"], list | tuple) else [given["algorithm"]]
    if not names:
        raise ValueError(f"algorithm is empty. Give one or more of {', '.join(ALGORITHMS)}.")
    for key, words in (("algorithm", names), ("world", [given["world"]])):
        for each in words:
            if not isinstance(each, str):
                raise TypeError(f"{key} must be a name, as text, got {each!r}.")
    if doubled := [each for each, times in Counter(names).items() if times > 1]:
        raise ValueError(f"The algorithm {doubled[0]} is given twice. Remove one of the two.")
    _refuse_too_much(names, given)
    studies = tuple(_study(str(each), name, given) for each in names)
    for study in studies:
        _check(study)
    return name, studies


def _refuse_too_much(names: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Count before anything is built: a few characters can ask for more than a machine can hold."""
    if len(names) > len(ALGORITHMS):
        raise ValueError(f"There are {len(ALGORITHMS)} algorithms, but the study names {len(names):,}.")
    configurations = len(names) * math.prod(len(values) for values in _grid(given["grid"]).values())
    if configurations > MOST_CONFIGURATIONS:
        raise ValueError(
            f"The grid has {configurations:,} configurations, but a study may have {MOST_CONFIGURATIONS:,}. "
            "Give fewer values, or several studies."
        )
    seeds = given.get("seeds")
    runs = len(seeds) if isinstance(seeds, list | tuple) else count("runs", given.get("runs", RUNS), 1)
    if runs * configurations > MOST_RUNS:
        raise ValueError(
            f"The study has {configurations:,} configurations with {runs:,} runs each, but may have {MOST_RUNS:,} runs in all. "
            "Give fewer values or runs, or several studies."
        )


def _study(name: str, part: str, given: Mapping[str, Any]) -> Study:
    algorithm(name)
    steps = count("steps", given["steps"], 1)
    window = count("window", given.get("window", max(1, steps // WINDOWS)), 1)
    if window > steps:
        raise ValueError(f"window must be at most the number of steps, {steps}, got {window}.")
    seeds, runs = _seeds_and_runs(given)
    return Study(
        part=part,
        algorithm=name,
        world=str(given["world"]),
        world_settings=_mapping("world_settings", given.get("world_settings")),
        grid=_grid(given["grid"]),
        fixed=_with_preset(name, given),
        steps=steps,
        num_runs=runs,
        own_seeds=seeds,
        window=window,
        tuned={},
    )


def _with_preset(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fixed settings; a preset that is not named is that of all agents, and is part of what determines a run."""
    fixed = _mapping("fixed", given.get("fixed"))
    named = "preset" in {**fixed, **_mapping("grid", given["grid"]), **algorithm(name).settings}
    return fixed if named else {"preset": presets.DEFAULT, **fixed}


def _seeds_and_runs(given: Mapping[str, Any]) -> tuple[tuple[int, ...], int]:
    """The seeds, empty if the file gives none, and the number of runs."""
    if "seeds" not in given:
        return (), count("runs", given.get("runs", RUNS), 1)
    if not isinstance(given["seeds"], list | tuple) or not given["seeds"]:
        raise ValueError(
            f"seeds must be a list of integers, one per run, got {given['seeds']!r}. To give only their number, use runs."
        )
    seeds = tuple(count("A seed", seed, 0, LARGEST_SEED) for seed in given["seeds"])
    if len(set(seeds)) < len(seeds):
        raise ValueError("A seed is given twice and would give the same run twice. Remove one of the two.")
    if given.get("runs", len(seeds)) != len(seeds):
        raise ValueError(f"runs is {given['runs']!r}, but there are {len(seeds)} seeds. Give one of the two.")
    return seeds, len(seeds)


def _mapping(key: str, value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{key} must be a mapping from names to values, got {value!r}.")
    return {str(name): inner for name, inner in value.items()}


def _grid(given: Any) -> dict[str, tuple[Any, ...]]:
    ranges = _ranges(given)
    grid = {
        name: [ranges[name].low, ranges[name].high]  # checked as all values are; a search replaces them
        if name in ranges
        else values
        if isinstance(values, list | tuple)
        else [values]
        for name, values in _mapping("grid", given).items()
    }
    if not grid:
        raise ValueError(
            "The grid is empty. Give a list of values for at least one setting, for example step_size: [0.01, 0.1]."
        )
    for name, values in grid.items():
        if not values:
            raise ValueError(f"The grid has no values for {name}. Give at least one value or remove the name.")
    return {name: tuple(values) for name, values in grid.items()}


def _ranges(grid: Any) -> dict[str, Range]:
    """The settings of a grid that are given as {low: …, high: …}."""
    return {name: _range(name, given) for name, given in _mapping("grid", grid).items() if _is_range(given)}


def _is_range(given: Any) -> bool:
    return isinstance(given, Mapping) and bool({"low", "high"} & set(given))


def _range(name: str, given: Mapping[str, Any]) -> Range:
    try:
        return Range(**given)
    except TypeError:
        raise ValueError(
            f"A range must have the form {{low: 1e-4, high: 1e-1, log: true}}, got {name}: {dict(given)}."
        ) from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _check(study: Study) -> None:
    """Check every configuration as the algorithm itself would check it."""
    if both := sorted(set(study.grid) & set(study.fixed)):
        raise ValueError(f"{both[0]} is both in grid and in fixed. Remove it from one of them.")
    cell = algorithm(study.algorithm)
    given = {name for name in (*study.grid, *study.fixed) if name in ("rule", "seed")}
    if "seed" in given:
        raise ValueError("seed is not a setting of a study. Give seeds, or runs for their number.")
    if "rule" in given:
        raise ValueError(
            f"rule is not a setting of a study: the rule of {study.algorithm} is {cell.rule!r}. Remove rule."
        )
    predicts = not cell.learner.control
    for setting in study.settings:
        plain = {**cell.settings, **study.fixed, **setting, "rule": cell.rule}
        if predicts:
            plain.pop("policy", None)
        try:
            values = {name: Decay(**v) if isinstance(v, Mapping) else v for name, v in plain.items()}
        except TypeError:
            raise ValueError("A decaying step size must have the form {scale: 0.5, power: 0.8}.") from None
        cell.config.of(values)
        json.dumps(plain, allow_nan=False)  # raises if a value cannot be part of the description in the result file
    names = Counter(map(setting_name, study.settings))
    if len((longest := max(names, key=lambda name: len(name.encode()))).encode()) > LONGEST_NAME:
        raise ValueError(
            f"The name of a configuration, which is the name of its file, may have {LONGEST_NAME} bytes, got {longest[:100]!r}… "
            "Put settings that do not vary into fixed, or give shorter values."
        )
    if doubled := [name for name, times in names.items() if times > 1]:
        raise ValueError(
            f"The configuration {doubled[0]} occurs twice: a value is repeated in the grid. Remove one of the two."
        )


def _plain(path: Path) -> Any:
    """The content of a YAML or JSON file. Nothing in it is executed."""
    if (size := path.stat().st_size) > LARGEST_FILE:
        raise ValueError(f"A study file may have {LARGEST_FILE:,} bytes, but {path} has {size:,}.")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file in UTF-8: {error}.") from error
    if path.suffix == ".json":
        try:
            return json.loads(text, object_pairs_hook=_without_doubles)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is not JSON: {error}.") from error
    import yaml

    try:
        return yaml.load(text, _yaml_loader())
    except (yaml.YAMLError, RecursionError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path} is not YAML: {' '.join(str(error).split())}.") from error


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    try:
        found = dict(pairs)
    except TypeError as error:
        raise ValueError(f"A key must be a word, got {error}.") from error
    if len(found) < len(pairs):
        doubled = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"The key {doubled!r} is given twice. Remove one of the two.")
    return found


def _yaml_loader() -> Any:
    """PyYAML's safe loader with the numbers of YAML 1.2: 2e-3 is a number, 1:30 and `on` are strings. Refuses duplicate keys."""
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
        """Loads plain values only."""

        yaml_implicit_resolvers = {  # noqa: RUF012 (PyYAML declares it without ClassVar)
            first: [pair for pair in pairs if pair[0].rpartition(":")[2] not in ("float", "int", "bool", "timestamp")]
            for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def compose_node(self, parent: Any, index: Any) -> Any:
            """Like PyYAML's, but without aliases: a few lines of them can stand for more values than a machine can hold."""
            if self.check_event(yaml.events.AliasEvent):
                raise yaml.YAMLError("a study may not use aliases such as *name. Write the values out")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[str, Any]:
            """Like PyYAML's, but a duplicate key is an error."""
            self.flatten_mapping(node)
            return _without_doubles(
                [(self.construct_object(key, True), self.construct_object(value, True)) for key, value in node.value]
            )

    number = r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?"
    Loader.add_implicit_resolver("!number", re.compile(rf"^{number}$"), list("-+.0123456789"))
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|True|false|False)$"), list("tTfF"))
    Loader.add_constructor("!number", lambda loader, node: _number(loader.construct_scalar(node)))
    Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: loader.construct_mapping(node))
    return Loader


def _number(text: str) -> int | float:
    """The value of 1000, 1_000, 1e6 (an integer as well) or 2e-3."""
    value = float(text.replace("_", ""))
    whole = "." not in text and value.is_integer()
    return (
        int(value)
        if whole and abs(value) < 2**53
        else int(text.replace("_", ""))
        if text.strip("+-").isdecimal()
        else value
    )
