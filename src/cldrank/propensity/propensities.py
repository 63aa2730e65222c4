"""`Propensities`: the examination probability of each position, relative to the first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing

_FORMAT = "cldrank-propensities"


@dataclass(frozen=True, eq=False, repr=False)
class Propensities:
    """ρ_k, the probability that position k is examined, normalised to ρ_1 = 1.

    values    (k,) float64: entry 0 is position 1; above 0, at most 1
    origin    where they come from, in words
    clipped   the positions that `clip` raised to its minimum

    >>> rho = Propensities.power(eta=1.0, k=4)
    >>> rho
    Propensities(1, 0.5, 0.3333, 0.25; power law, eta 1)
    >>> rho.at([1, 3, 3])
    array([1.        , 0.33333333, 0.33333333])
    >>> rho.clip(0.3)
    Propensities(1, 0.5, 0.3333, 0.3; power law, eta 1; clipped to 0.3 at position 4)
    """

    values: NDArray[np.float64]
    origin: str = "given"
    clipped: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not len(values):
            raise DataError(f"propensities are a flat array, one a position, not one of shape {values.shape}.")
        bad = ~(np.isfinite(values) & (values > 0))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            raise DataError(f"the propensity of position {at + 1} is {values[at]}; it must be above 0 and finite.")
        values = values / values[0]
        if values.max() > 1 + 1e-9:
            at = int(values.argmax())
            raise DataError(f"position {at + 1} would be examined more often than the first ({values[at]:.4g} times).")
        values.flags.writeable = False
        object.__setattr__(self, "values", np.minimum(values, 1.0))

    @classmethod
    def power(cls, eta: float, k: int) -> Propensities:
        """The power law (1/position)^eta down to position k.

        >>> Propensities.power(eta=0, k=3).values
        array([1., 1., 1.])
        """
        if not np.isfinite(eta) or eta < 0:
            raise UsageError(f"eta must be a number of at least 0, not {eta}.")
        if k < 1:
            raise UsageError(f"k, the number of positions, must be at least 1, not {k}.")
        return cls(np.arange(1, k + 1, dtype=np.float64) ** -float(eta), origin=f"power law, eta {eta:g}")

    @classmethod
    def parse(cls, text: str, k: int) -> Propensities:
        """From a text: `power:1.0`, `none` (all equal), or the path of a file that `save` wrote.

        >>> Propensities.parse("power:2", k=2).values
        array([1.  , 0.25])
        """
        kind, _, argument = text.partition(":")
        if kind == "power":
            try:
                return cls.power(float(argument), k)
            except ValueError as error:
                raise UsageError(f"{text!r} is no power law ({error}); write power:1.0, say.") from None
        if text == "none":
            return cls.power(0.0, k)
        return cls.load(text)

    def at(self, position: ArrayLike) -> NDArray[np.float64]:
        """The propensity of each position, counted from 1."""
        positions = np.asarray(position)
        if positions.size and not np.issubdtype(positions.dtype, np.integer):
            raise DataError(f"positions are whole numbers, not {positions.dtype}.")
        beyond = (positions < 1) | (positions > len(self.values))
        if beyond.any():
            raise DataError(
                f"there is no propensity for position {positions[beyond].ravel()[0]}; these go from 1 to "
                f"{len(self.values)}."
            )
        return self.values[positions.astype(np.int64) - 1]

    def clip(self, minimum: float) -> Propensities:
        """The same with no value below a minimum: less variance for some bias. What was raised is said."""
        if not 0 < minimum <= 1:
            raise UsageError(f"the minimum must be above 0 and at most 1, not {minimum}.")
        raised = tuple(int(at) + 1 for at in np.flatnonzero(self.values < minimum))
        if not raised:
            return self
        shown = ", ".join(map(str, raised))
        origin = f"{self.origin}; clipped to {minimum:g} at position{'s' if len(raised) > 1 else ''} {shown}"
        return Propensities(np.maximum(self.values, minimum), origin, raised)

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        shown = [f"{value:.4g}" for value in self.values[:8]]
        if len(self.values) > 8:
            shown.append(f"… {self.values[-1]:.4g}")
        return f"Propensities({', '.join(shown)}; {self.origin})"

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Write them to a JSON file."""
        content = {"format": _FORMAT, "values": self.values.tolist(), "origin": self.origin, "clipped": self.clipped}
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Propensities:
        """Read what `save` wrote, or the truth beside a simulated log, or a plain list of numbers as JSON.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     Propensities.power(1, 2).save(Path(folder) / "rho.json")
        ...     Propensities.load(Path(folder) / "rho.json").values
        array([1. , 0.5])
        """
        file = Path(path)
        if not file.is_file():
            raise DataError(f"{file}: no such file of propensities; write power:1.0 for a power law.")
        try:
            content: Any = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FormatError(f"not JSON ({error}).", path=file) from None
        origin, clipped = f"from {file.name}", ()
        if isinstance(content, dict):
            values = content.get("values", content.get("propensities"))
            if content.get("format") == _FORMAT:
                origin, clipped = str(content.get("origin", origin)), tuple(content.get("clipped", ()))
        else:
            values = content
        if not isinstance(values, list) or not all(isinstance(value, int | float) for value in values):
            raise FormatError("holds no list of propensities.", path=file)
        return cls(np.array(values, dtype=np.float64), origin, clipped)
