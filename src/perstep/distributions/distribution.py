"""The distribution of the reward per step: what the paper's θ represents (Sec. 4.1), with its mean, quantiles and CVaR.

One class represents learned quantiles (atoms of equal weight at θ), samples (an atom for each value) and the exact distribution of
a known world. Each is a mixture of normal distributions that are capped from above. An atom is a normal with standard deviation 0.
A distribution of samples knows their number. So it has standard errors, and it warns where a tail has too few samples. Samples in
the order of time are kept in batches, from which the errors come: rewards that follow each other are alike, and a policy that is
still changing earns something else in each batch.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, final, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perstep.numerics.quantiles import levels
from perstep.system.budget import claim

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

MOST_NEEDED = 10**18  # steps that a warning names
WEIGHT_TOLERANCE = 1e-9  # a sum of probabilities may differ from 1 by this much, because of rounding
LEVEL_TOLERANCE = 1e-14  # relative: the 0.8-quantile of ten atoms is the eighth, also if 8 · 0.1 rounds below 0.8
BLOCK = 1 << 20  # entries of a (points × components) table in memory at once
FEW_ATOMS = 40  # up to this number of distinct rewards, each is drawn as a line of its own
SHOWN = (0.05, 0.25, 0.5, 0.75, 0.95)  # levels of the quantiles that are shown
TAILS = (0.1, 0.01)  # shares of the worst steps whose means are shown
NORMAL_95 = 1.96  # half the width of a 95 % interval, in standard errors
OTHERS = ("black", "C2", "C3", "C4")  # colours of distributions drawn beside one
WORST = 0.05  # the share of the steps that is drawn as the bad ones
FEWEST_BATCHES = 4  # below which there is no standard error
FEWEST_IN_TAIL = 10  # independent samples in a tail, below which its mean and its quantile are not to be trusted


class ThinTail(UserWarning):
    """A quantile or CVaR of a tail that has too few samples."""


class Batches(NamedTuple):
    """Samples as they were counted, batch by batch in the order of time."""

    values: Floats
    counts: NDArray[np.int64]
    batch: NDArray[np.int64]  # the batch of each, the oldest is 0

    def steps(self) -> Floats:
        """The number of samples of each batch."""
        return np.bincount(self.batch, self.counts).astype(np.float64)

    def means(self, of_values: Floats) -> Floats:
        """The mean over each batch of a function, given at the values."""
        return np.asarray(np.bincount(self.batch, self.counts * of_values) / self.steps())

    def sampling_variance(self, of_values: Floats) -> float:
        """The variance of the mean over all batches, as their means differ; at least that of independent samples."""
        means, steps = self.means(of_values), self.steps()
        shares, total = steps / steps.sum(), float(steps.sum())
        mean = float(shares @ means)
        alone = float((self.counts / total) @ (of_values - mean) ** 2) / total
        if means.size < FEWEST_BATCHES:
            return alone
        return max(alone, means.size / (means.size - 1.0) * float(shares**2 @ (means - mean) ** 2))

    def error(self, of_values: Floats) -> float:
        """The standard error of the mean of a function as what it is now; NaN with too few batches to tell.

        To the variance of the mean comes the square by which the later half of the batches differs from the earlier half beyond
        what that variance explains: where the mean moves by D in all, the halves differ by D/2, and so do its end and the mean.
        """
        means, steps = self.means(of_values), self.steps()
        if means.size < FEWEST_BATCHES:
            return math.nan
        variance, half = self.sampling_variance(of_values), means.size // 2
        earlier, later = (np.average(means[part], weights=steps[part]) for part in (slice(half), slice(half, None)))
        share = float(steps[:half].sum() / steps.sum())
        moved = (later - earlier) ** 2 - variance / (share * (1.0 - share))
        return math.sqrt(variance + max(0.0, float(moved)))


@final
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Distribution:
    """A mixture of normal distributions, each capped from above; a component with sd 0 is an atom.

    Equal components are merged, and components are sorted by mean. So the arrays may be shorter than the given arrays.
    """

    weights: Floats
    """The probability of each component; they sum to 1. (C,)"""
    means: Floats
    """The mean of each component before the cap. (C,)"""
    sds: Floats
    """The standard deviation of each component before the cap; 0 makes an atom. (C,)"""
    cap: float = math.inf
    """No draw exceeds this: a draw X becomes min(cap, X)."""
    num_samples: int | None = None
    """The number of samples (steps) that it was made of; None if it is exact, or made of learned quantiles."""
    effective_samples: float | None = None
    """The number of independent samples that these are worth: rewards of consecutive steps are correlated. None as above."""
    source: str = ""
    """Where it comes from, in a few words."""
    batches: Batches | None = None
    """The samples in the order of time, if they are known in it; standard errors then come from them."""

    def __init__(
        self,
        weights: ArrayLike,
        means: ArrayLike,
        sds: ArrayLike = 0.0,
        cap: float = math.inf,
        *,
        num_samples: int | None = None,
        effective_samples: float | None = None,
        source: str = "",
        batches: Batches | None = None,
    ) -> None:
        effective_samples = _checked_samples(num_samples, effective_samples)
        weights, means, sds, cap = _checked(weights, means, sds, cap)
        means = np.where(sds == 0.0, np.minimum(means, cap), means)  # an atom above the cap is an atom at the cap
        weights, means, sds = _merged(weights, means, sds)
        for name, value in (("weights", weights), ("means", means), ("sds", sds)):
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        for name, number in (("cap", cap), ("num_samples", num_samples), ("effective_samples", effective_samples)):
            object.__setattr__(self, name, number)
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "batches", batches)

    @classmethod
    def from_quantiles(cls, theta: ArrayLike) -> Distribution:
        """Equal weights at the quantiles, which may be in any order: φ = Σ δ(θ_i)/m, the paper's parametrisation."""
        theta = _finite_vector(theta, "quantiles")  # (m,)
        return cls(np.full(theta.size, 1.0 / theta.size), theta)

    @classmethod
    def from_samples(cls, rewards: ArrayLike, effective_samples: float | None = None) -> Distribution:
        """The empirical distribution: an atom for each distinct reward, weighted by its frequency. `effective_samples`: the number
        of independent samples that they are worth; all of them if it is not given."""
        values, counts = np.unique(_finite_vector(rewards, "samples"), return_counts=True)
        return cls.from_counts(values, counts, effective_samples)

    @classmethod
    def from_counts(
        cls, values: ArrayLike, counts: ArrayLike, effective_samples: float | None = None, *, source: str = ""
    ) -> Distribution:
        """The empirical distribution of samples that have been counted: an atom for each value."""
        counts = np.asarray(counts)
        total = int(counts.sum())
        return cls(
            counts / max(total, 1), values, num_samples=total, effective_samples=effective_samples, source=source
        )

    @classmethod
    def from_batches(cls, batches: Batches, *, source: str = "") -> Distribution:
        """The empirical distribution of samples that were counted in the order of time."""
        values, place = np.unique(batches.values, return_inverse=True)
        counts = np.bincount(place, batches.counts)
        total = int(batches.counts.sum())
        weights = counts / max(total, 1)
        spread = float(weights @ (values - weights @ values) ** 2) / max(total, 1)
        variance = batches.sampling_variance(batches.values)
        effective = min(total * spread / variance, total) if spread > 0.0 else total
        return cls(weights, values, num_samples=total, effective_samples=effective, source=source, batches=batches)

    @property
    def num_components(self) -> int:
        """Number of distinct components of the mixture."""
        return self.weights.size

    @cached_property
    def mean(self) -> float:
        """The mean; for the distribution of the reward per step, this is the average reward."""
        means, _ = capped_moments(self.means, self.sds, self.cap)
        return float(self.weights @ means)

    @cached_property
    def std(self) -> float:
        """The standard deviation of a draw."""
        means, variances = capped_moments(self.means, self.sds, self.cap)
        return math.sqrt(max(0.0, float(self.weights @ (variances + (means - self.mean) ** 2))))

    @overload
    def quantile(self, p: float) -> float: ...
    @overload
    def quantile(self, p: Sequence[float] | Floats) -> Floats: ...
    def quantile(self, p: float | Sequence[float] | Floats) -> float | Floats:
        """The smallest x with P(X ≤ x) ≥ p, for p in [0, 1]; at p = 0 the lower end of the distribution. Warns (`ThinTail`) if
        fewer than ten independent samples lie on one side of it, except at p = 0 and 1: the smallest and the largest sample."""
        asked = _probabilities(p, "quantile", zero_allowed=True)
        self._warn_of_thin_tail("quantile", asked, np.minimum(asked, 1.0 - asked))
        return _like(p, _by_block(self._quantiles, asked, self._smooth[0].size))

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: Sequence[float] | Floats) -> Floats: ...
    def cdf(self, x: float | Sequence[float] | Floats) -> float | Floats:
        """P(X ≤ x)."""
        points = _numbers(x, "cdf")
        if np.isnan(points).any():
            raise ValueError("cdf expects numbers, got NaN or None. Check how x was computed.")
        return _like(x, _by_block(self._cdf, points, self._smooth[0].size))

    @overload
    def cvar(self, p: float) -> float: ...
    @overload
    def cvar(self, p: Sequence[float] | Floats) -> Floats: ...
    def cvar(self, p: float | Sequence[float] | Floats) -> float | Floats:
        """The mean of the worst fraction p of the draws (the lower tail), for p in (0, 1]; at p = 1 the mean. Warns (`ThinTail`) if
        these are fewer than ten independent samples."""
        asked = _probabilities(p, "cvar", zero_allowed=False)
        self._warn_of_thin_tail("cvar", asked, np.where(asked == 1.0, 0.0, asked))
        return _like(p, _by_block(self._cvars, asked, self._smooth[0].size))

    @property
    def mean_error(self) -> float:
        """The standard error of the mean; 0 if the distribution is exact, NaN if too few samples tell it."""
        if self.batches is not None:
            return self.batches.error(self.batches.values)
        return 0.0 if self.effective_samples is None else self.std / math.sqrt(self.effective_samples)

    @overload
    def quantile_error(self, p: float) -> float: ...
    @overload
    def quantile_error(self, p: Sequence[float] | Floats) -> Floats: ...
    def quantile_error(self, p: float | Sequence[float] | Floats) -> float | Floats:
        """The standard error of a quantile: half the distance between the quantiles one standard error of p below and above; 0 if
        the distribution is exact. Below, it is the error of P(X < quantile): where many rewards are equal, that of P(X ≤ quantile)
        says nothing of the rewards that are less."""
        asked = _probabilities(p, "quantile_error", zero_allowed=True)
        if self.effective_samples is None:
            return _like(p, np.zeros_like(asked))
        x = self._quantiles(asked)
        under = self._error_of_level(np.nextafter(x, -np.inf), asked)
        upto = self._error_of_level(x, asked)
        low, high = (
            _by_block(self._quantiles, np.clip(level, 0.0, 1.0), self._smooth[0].size)
            for level in (asked - under, asked + upto)
        )
        return _like(p, np.where(np.isnan(under + upto), np.nan, 0.5 * (high - low)))

    @overload
    def cdf_error(self, x: float) -> float: ...
    @overload
    def cdf_error(self, x: Sequence[float] | Floats) -> Floats: ...
    def cdf_error(self, x: float | Sequence[float] | Floats) -> float | Floats:
        """The standard error of P(X ≤ x), √(P (1 − P) / n) for n independent samples; 0 if the distribution is exact."""
        return _like(x, self._error_of_level(_numbers(x, "cdf"), np.asarray(self.cdf(x))))

    @overload
    def cvar_error(self, p: float) -> float: ...
    @overload
    def cvar_error(self, p: Sequence[float] | Floats) -> Floats: ...
    def cvar_error(self, p: float | Sequence[float] | Floats) -> float | Floats:
        """The standard error of a CVaR: the standard deviation of (q − X)⁺, q the p-quantile, over p √n for n independent samples;
        0 if the distribution is exact."""
        asked = _probabilities(p, "cvar_error", zero_allowed=False)
        if self.effective_samples is None:
            return _like(p, np.zeros_like(asked))
        if self.batches is not None:
            q = _by_block(self._quantiles, asked, self._smooth[0].size)
            return _like(p, self._errors(lambda x, q: np.maximum(q - x, 0.0), q) / asked)
        spread = _by_block(self._shortfall_sds, asked, self.num_components)
        return _like(p, np.asarray(spread / (asked * math.sqrt(self.effective_samples))))

    def sample(self, n: int, seed: int | np.random.Generator | None = None) -> Floats:
        """`n` independent draws. (n,)"""
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 0:
            raise ValueError(f"sample expects a number of draws, 0 or more, got {n!r}.")
        claim(24 * int(n), f"a sample of {n:,} draws", "Choose fewer.")
        random = np.random.default_rng(seed)
        chosen = np.searchsorted(_cumulative(self.weights), random.random(n), side="right")
        chosen = np.minimum(chosen, self.weights.size - 1)
        draws = self.means[chosen]
        if self._smooth[0].size:
            draws = draws + self.sds[chosen] * random.standard_normal(n)
        return np.minimum(draws, self.cap)

    def levels_and_quantiles(self, num_levels: int = 51) -> tuple[Floats, Floats]:
        """The paper's m midpoint levels τ, and the quantiles at these levels: what θ should converge to. (m,), (m,)"""
        if num_levels < 1:
            raise ValueError(f"levels_and_quantiles expects at least one level, got {num_levels}.")
        tau = np.asarray(levels(num_levels))
        return tau, self.quantile(tau)

    def histogram(self, bins: int | Sequence[float] | Floats = 50) -> tuple[Floats, Floats]:
        """Density of each bin, and the edges, for `plt.stairs`. A bin includes its right edge; the first, both. (b,), (b + 1,)"""
        if isinstance(bins, (int, np.integer)):
            if bins < 1:
                raise ValueError(f"histogram expects at least one bin, got {bins}.")
            edges = np.linspace(*self._range, int(bins) + 1)
        else:
            edges = _finite_vector(bins, "edges")
            if edges.size < 2 or (np.diff(edges) <= 0.0).any():
                raise ValueError(
                    "histogram expects two or more increasing edges, got edges that do not increase. "
                    "Sort the edges and remove equal ones, or give a number of bins."
                )
        below = self.cdf(edges)
        below[0] = self.cdf(np.nextafter(edges[0], -np.inf))
        return np.diff(below) / np.diff(edges), edges

    def frame(self, levels: Sequence[float] = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)) -> polars.DataFrame:
        """Quantiles and CVaR at some levels, as a table: level, quantile, cvar, and their standard errors where they are known."""
        import polars

        p = _probabilities(levels, "level", zero_allowed=False)
        columns = {"level": p, "quantile": self._quantiles(p), "cvar": self._cvars(p)}
        if self.num_samples is not None:
            columns |= {"quantile_error": self.quantile_error(p), "cvar_error": self.cvar_error(p)}
        return polars.DataFrame(columns)

    def plot(
        self, ax: Axes | None = None, *, label: str = "", beside: Mapping[str, Distribution] | None = None
    ) -> Figure:
        """A matplotlib figure, drawn into `ax` if given: chances of single rewards or a density, the mean, and the mean of the
        worst 5 % of the steps. `beside`: other distributions by name, whose outlines and means are drawn over it, as
        learnt.plot(label="learnt", beside={"exact": exact})."""
        from perstep.display.drawing import drawn, legend_below

        if not isinstance(beside, Mapping | None) or not all(
            isinstance(each, Distribution) for each in (beside or {}).values()
        ):
            raise TypeError(f'plot expects other distributions by name, as beside={{"exact": exact}}, got {beside!r}.')
        others = {} if beside is None else dict(beside)
        worst = float(self._cvars(np.array([WORST]))[0])
        every = [self, *others.values()]
        atoms = all(each.num_components <= FEW_ATOMS and not each.sds.any() for each in every)
        span = min(each._range[0] for each in every), max(each._range[1] for each in every)
        edges = np.linspace(*span, 61)
        with drawn(ax) as (figure, axes):
            if atoms:
                values, chances = self._chances()
                axes.vlines(values, 0.0, chances, color="C0", lw=3.0, label=label)
            else:
                density, _ = self.histogram(edges)
                axes.stairs(density, edges, color="C0", fill=True, alpha=0.35)
                axes.stairs(density, edges, color="C0", label=label)
            for number, (name, other) in enumerate(others.items()):
                colour = OTHERS[number % len(OTHERS)]
                if atoms:
                    axes.plot(*other._chances(), color=colour, ls="", marker="_", ms=11, mew=1.5, label=name)
                else:
                    axes.stairs(other.histogram(edges)[0], edges, color=colour, lw=1.1, label=name)
                axes.axvline(other.mean, color=colour, ls=":", label=f"mean of {name} {other.mean:.4g}")
            axes.axvline(self.mean, color="C1", label=f"mean {self.mean:.4g}")
            axes.axvline(worst, color="C7", ls="--", label=f"mean of the worst 5 % {worst:.4g}")
            axes.set(xlabel="reward per step", ylabel="chance" if atoms else "density")
            axes.set_ylim(bottom=0.0)
            legend_below(axes)
        return figure

    def _chances(self) -> tuple[Floats, Floats]:
        """The values of atoms, and their probabilities."""
        values, place = np.unique(self.means, return_inverse=True)
        return values, np.asarray(np.bincount(place, self.weights), np.float64)

    def __repr__(self) -> str:
        found = self._quantiles(np.array(SHOWN))
        quantiles = ", ".join(f"{100 * p:.0f}%: {x:.4g}" for p, x in zip(SHOWN, found, strict=True))
        error = math.nan if self.num_samples is None else NORMAL_95 * self.mean_error
        mean = f"{self.mean:.6g} ± {error:.2g} (95 %)" if math.isfinite(error) else f"{self.mean:.6g}"
        worst = ", ".join(f"{100 * p:g}%: {x:.4g}" for p, x in zip(TAILS, self._cvars(np.array(TAILS)), strict=True))
        samples = "" if self.num_samples is None or self.source else f", {self.num_samples:,} samples"
        source = f"{self.source}: " if self.source else ""
        return f"Distribution({source}mean {mean}, std {self.std:.4g}, quantiles {quantiles}, mean of the worst {worst}{samples})"

    def _warn_of_thin_tail(self, name: str, asked: Floats, tails: Floats) -> None:
        """Warn if a tail, of probability above 0, has too few samples. `asked`: the levels that the caller has named."""
        if self.num_samples is None or self.effective_samples is None:
            return
        # A level such as 1 - 0.99 is a little below 0.01.
        thin = (tails > 0.0) & (tails * self.effective_samples < FEWEST_IN_TAIL * (1.0 - WEIGHT_TOLERANCE))
        if not thin.any():
            return
        worst = np.where(thin, tails, np.inf).argmin()
        tail = float(tails.flat[worst])
        needed = math.ceil(min(FEWEST_IN_TAIL / tail * self.num_samples / self.effective_samples, MOST_NEEDED))
        warnings.warn(
            f"{name}({float(asked.flat[worst]):g}) rests on a tail of about {tail * self.effective_samples:.2g} independent "
            f"samples: these {self.num_samples:,} steps are worth {self.effective_samples:,.0f} of them. It needs about "
            f"{needed:,} steps. Learn or evaluate for longer, or ask for a larger part.",
            ThinTail,
            stacklevel=3,
        )

    def _errors(self, function: Callable[[Floats, float], Floats], points: Floats) -> Floats:
        """The standard error of the mean of a function of the samples, for each of the points that it takes."""
        assert self.batches is not None
        each = [self.batches.error(function(self.batches.values, float(point))) for point in np.ravel(points)]
        return np.reshape(each, np.shape(points))

    def _error_of_level(self, x: Floats, below: Floats) -> Floats:
        """The standard error of P(X ≤ x), which is `below`."""
        if self.batches is not None:
            return self._errors(lambda values, point: (values <= point).astype(np.float64), x)
        samples = math.inf if self.effective_samples is None else self.effective_samples
        return np.asarray(np.sqrt(below * (1.0 - below) / samples))

    # Implementation. Atoms are sorted, so sums over atoms are look-ups. A sum over the normals is a product of a table and weights.

    @cached_property
    def _atoms(self) -> tuple[Floats, Floats, Floats]:
        """Sorted values of the atoms (N,), and the total weight and the weighted sum of the first i atoms, i = 0 … N."""
        atom = self.sds == 0.0
        places, weights = self.means[atom], self.weights[atom]
        return places, np.append(0.0, _cumulative(weights)), np.append(0.0, _cumulative(weights * places))

    @cached_property
    def _smooth(self) -> tuple[Floats, Floats, Floats]:
        """Weights, means and standard deviations of the components that are not atoms. (M,) each"""
        spread = self.sds > 0.0
        return self.weights[spread], self.means[spread], self.sds[spread]

    @cached_property
    def _range(self) -> tuple[float, float]:
        low, high = float((self.means - 4.0 * self.sds).min()), float((self.means + 4.0 * self.sds).max())
        low, high = min(low, self.cap), min(high, self.cap)
        return (low, high) if low < high else (low - 0.5, high + 0.5)

    def _smooth_cdf(self, x: Floats) -> Floats:
        """The probability of the normals, before the cap, at or below x."""
        weights, means, sds = self._smooth
        if not weights.size:
            return np.zeros_like(x)
        from scipy.special import ndtr

        return np.asarray(ndtr((x[:, None] - means) / sds) @ weights)

    def _cdf(self, x: Floats) -> Floats:
        places, before, _ = self._atoms
        total = before[np.searchsorted(places, x, side="right")] + self._smooth_cdf(x)
        return np.where(x >= self.cap, 1.0, np.minimum(total, 1.0))

    def _quantiles(self, p: Floats) -> Floats:
        places, before, _ = self._atoms
        reached = p * (1.0 - LEVEL_TOLERANCE)
        if not self._smooth[0].size:
            return places[np.minimum(np.searchsorted(before[1:], reached), places.size - 1)]
        # Bisection for the first atom with P(X ≤ atom) ≥ p; N if there is none.
        low, high = np.zeros(p.size, dtype=np.intp), np.full(p.size, places.size, dtype=np.intp)
        while (unsure := low < high).any():
            middle = (low + high) // 2
            enough = np.zeros(p.size, dtype=np.bool_)
            enough[unsure] = before[middle[unsure] + 1] + self._smooth_cdf(places[middle[unsure]]) >= reached[unsure]
            high, low = np.where(unsure & enough, middle, high), np.where(unsure & ~enough, middle + 1, low)
        # The quantile is that atom if the level lies in its jump, otherwise a point of the continuous part before it.
        x = np.append(places, np.inf)[low]
        jump = before[low] + self._smooth_cdf(x) < p
        jump &= low < places.size
        from_left = np.append(-np.inf, places)[low]
        root = self._smooth_quantiles(p[~jump] - before[low[~jump]])
        x[~jump] = np.clip(root, from_left[~jump], x[~jump])
        x[p == 1.0] = np.inf  # a normal has no upper bound; rounding would give one
        return np.asarray(np.minimum(x, self.cap))

    def _shortfall_sds(self, p: Floats) -> Floats:
        """The standard deviation of (q − X)⁺, where q is the p-quantile."""
        q = self._quantiles(p)[:, None]  # (points, 1)
        if not np.isfinite(q).all():  # of a normal at p = 1: all draws count
            return np.asarray(
                np.where(np.isfinite(q[:, 0]), self._finite_shortfall_sds(np.where(np.isfinite(q), q, 0.0)), self.std)
            )
        return self._finite_shortfall_sds(q)

    def _finite_shortfall_sds(self, q: Floats) -> Floats:
        from scipy.special import ndtr

        gap = q - self.means  # (points, C)
        z = np.divide(gap, self.sds, out=np.zeros_like(gap), where=self.sds > 0.0)
        atom, density = self.sds == 0.0, _normal_density(z)
        first = np.where(atom, np.maximum(gap, 0.0), gap * ndtr(z) + self.sds * density)
        second = np.where(atom, np.maximum(gap, 0.0) ** 2, (gap**2 + self.sds**2) * ndtr(z) + self.sds * gap * density)
        return np.sqrt(np.maximum(second @ self.weights - (first @ self.weights) ** 2, 0.0))

    def _smooth_quantiles(self, mass: Floats) -> Floats:
        """Points at or below which the normals have the probability `mass`."""
        from scipy.optimize import elementwise
        from scipy.special import ndtri

        weights, means, sds = self._smooth
        share = np.clip(mass / weights.sum(), 0.0, 1.0)
        answer = np.where(share == 0.0, -np.inf, np.inf)
        inside = (share > 0.0) & (share < 1.0)
        if not inside.any():
            return answer
        each = means + sds * ndtri(share[inside])[:, None]  # the quantile of each normal
        room = 1e-6 * sds.max()  # with one component, both ends are equal, and rounding may move the root outside
        bracket = each.min(axis=1) - room, each.max(axis=1) + room

        def excess(x: Floats, target: Floats) -> Floats:
            return self._smooth_cdf(x) - target

        answer[inside] = elementwise.find_root(excess, bracket, args=(mass[inside],)).x
        return answer

    def _cvars(self, p: Floats) -> Floats:
        # Rockafellar and Uryasev (2000): with q the p-quantile, the mean of the tail is q − E[(q − X)⁺]/p. An error
        # in q matters only to second order.
        q = self._quantiles(p)
        answer = np.full(p.size, self.mean)
        part = (p < 1.0) & np.isfinite(q)
        q, p = q[part], p[part]
        places, before, before_sum = self._atoms
        position = np.searchsorted(places, q, side="right")
        shortfall = q * before[position] - before_sum[position]
        weights, means, sds = self._smooth
        if weights.size:
            shortfall = shortfall + (sds * expected_excess((q[:, None] - means) / sds)) @ weights
        answer[part] = q - shortfall / p
        return np.asarray(np.minimum(answer, self.mean))  # a tail mean never exceeds the mean, except by rounding


def capped_moments(means: Floats, sds: Floats, cap: float) -> tuple[Floats, Floats]:
    """Mean and variance of min(cap, X) for X ~ N(mean, sd), elementwise."""
    if cap == math.inf:
        return means, sds**2
    if not sds.any():
        return np.minimum(means, cap), np.zeros_like(means)
    from scipy.special import ndtr

    spread = sds > 0.0
    z = np.divide(cap - means, sds, out=np.zeros_like(means), where=spread)
    density, above = _normal_density(z), ndtr(-z)
    mean = z * above - density  # E min(z, Z)
    square = ndtr(z) - z * density + z**2 * above  # E min(z, Z)²
    return (
        np.where(spread, means + sds * mean, np.minimum(means, cap)),
        np.where(spread, sds**2 * np.maximum(square - mean**2, 0.0), 0.0),
    )


def _normal_density(z: Floats) -> Floats:
    return np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)


def expected_excess(z: Floats) -> Floats:
    """E[(z − Z)⁺] for a standard normal Z."""
    from scipy.special import ndtr

    return np.asarray(np.maximum(z * ndtr(z) + _normal_density(z), 0.0))


def _cumulative(weights: Floats) -> Floats:
    return np.cumsum(weights, dtype=np.longdouble).astype(np.float64)


def _merged(weights: Floats, means: Floats, sds: Floats) -> tuple[Floats, Floats, Floats]:
    """Merge equal components, remove those of weight 0, and sort by mean; the weights then sum to 1."""
    kept = weights > 0.0
    weights, means, sds = weights[kept], means[kept], sds[kept]
    order = np.lexsort((sds, means))
    weights, means, sds = weights[order], means[order], sds[order]
    first = np.append(True, (np.diff(means) != 0.0) | (np.diff(sds) != 0.0))
    starts = np.flatnonzero(first)
    weights = np.add.reduceat(weights.astype(np.longdouble), starts)
    return (weights / weights.sum()).astype(np.float64), means[starts], sds[starts]


def _checked(weights: ArrayLike, means: ArrayLike, sds: ArrayLike, cap: float) -> tuple[Floats, Floats, Floats, float]:
    means, weights = _finite_vector(means, "means"), _finite_vector(weights, "weights")
    sds = _finite_vector(np.broadcast_to(sds, means.shape) if np.ndim(sds) == 0 else sds, "sds")
    if not means.shape == weights.shape == sds.shape:
        raise ValueError(
            f"A distribution expects one weight, mean and sd for each component, got {weights.size} weights, "
            f"{means.size} means and {sds.size} sds. Give three vectors of the same length."
        )
    if (weights < 0.0).any():
        worst = int(weights.argmin())
        raise ValueError(
            f"A distribution expects weights of 0 or more, got {weights[worst]:g} as weight {worst}. Remove that component."
        )
    total = float(weights.sum())
    if abs(total - 1.0) > WEIGHT_TOLERANCE:
        raise ValueError(
            f"A distribution expects weights that sum to 1, got weights that sum to {total:.12g}. Divide them by their sum."
        )
    if (sds < 0.0).any():
        raise ValueError(f"A distribution expects standard deviations of 0 or more (0 for an atom), got {sds.min():g}.")
    cap = float(cap)
    if math.isnan(cap) or cap == -math.inf:
        raise ValueError(
            f"A distribution expects a cap above -inf, the largest value of a draw, got {cap}. Give a number, or leave it out."
        )
    return weights, means, sds, cap


def _checked_samples(num_samples: int | None, effective_samples: float | None) -> float | None:
    """The effective number of samples: as given, or the number of samples."""
    if num_samples is None:
        if effective_samples is not None:
            raise ValueError("A distribution expects num_samples beside effective_samples. Give both, or neither.")
        return None
    if num_samples < 1:
        raise ValueError(f"A distribution expects at least one sample, got {num_samples}. Collect data first.")
    effective = float(num_samples if effective_samples is None else effective_samples)
    if not 0.0 < effective < math.inf:
        raise ValueError(f"A distribution expects effective_samples above 0, got {effective}.")
    return effective


def _finite_vector(values: ArrayLike, what: str) -> Floats:
    vector = _numbers(values, "A distribution")
    if vector.ndim != 1 or vector.size == 0:
        raise ValueError(
            f"A distribution expects its {what} as a vector of at least one number, got shape {vector.shape}. "
            "Flatten the array, or collect data first."
        )
    if not np.isfinite(vector).all():
        where = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise ValueError(
            f"A distribution expects finite {what}, got {vector[where]} at index {where}. "
            "If they were learned, the estimates have diverged: use a smaller step size."
        )
    return vector


def _numbers(given: Any, what: str) -> Floats:
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(f"{what} expects a number or an array of numbers, got {str(given)[:100]!r}.") from error


def _probabilities(p: float | Sequence[float] | Floats, what: str, *, zero_allowed: bool) -> Floats:
    asked = _numbers(p, what)
    good = (asked <= 1.0) & ((asked >= 0.0) if zero_allowed else (asked > 0.0))
    if not good.all():
        bad = float(asked[~good].flat[0])
        allowed = "[0, 1]" if zero_allowed else "(0, 1]"
        raise ValueError(
            f"{what} expects a probability p in {allowed}, got {bad:g}. "
            + (
                "The worst 0 % of the steps is no step; quantile(0) is the smallest reward."
                if bad == 0
                else "Give a fraction: 0.05, not 5, for five percent."
            )
        )
    return asked


def _by_block(function: Callable[[Floats], Floats], points: Floats, components: int) -> Floats:
    """`function` of every point, computed in blocks, so that its (points × components) table stays small."""
    flat, size = points.ravel(), max(1, BLOCK // max(1, components))
    pieces = [function(flat[i : i + size]) for i in range(0, flat.size, size)]
    return np.concatenate([*pieces, np.empty(0)]).reshape(points.shape)


def _like(given: float | Sequence[float] | Floats, answer: Floats) -> float | Floats:
    return float(answer) if np.ndim(given) == 0 else answer
