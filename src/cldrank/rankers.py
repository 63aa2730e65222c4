"""Rankers: what a fit leaves behind. A scaling and a scorer, which can score, be saved, and be loaded again.

A saved ranker is a folder with two files: `ranker.json` says what it is, `weights.safetensors` holds its numbers.
Loading reads data only; nothing in a folder can make code run.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank._version import __version__
from cldrank.data.dataset import RankingDataset
from cldrank.errors import DataError, FormatError, UsageError
from cldrank.files import replacing_folder
from cldrank.scaling import Scaling, as_table

FORMAT = "cldrank-ranker"
FORMAT_VERSION = 1
_DESCRIPTION = "ranker.json"
_WEIGHTS = "weights.safetensors"

Weights = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Provenance:
    """Where a ranker comes from: the data, whether that was synthetic, the estimator and its parameters.

    >>> print(Provenance(estimator="Oracle", data="web10k-like", synthetic=True))
    trained by Oracle on web10k-like (synthetic)
    """

    estimator: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    data: str = ""
    synthetic: bool = False
    rows: int = 0
    queries: int = 0
    cldrank: str = __version__

    def __post_init__(self) -> None:
        for entry in fields(self):
            value, kind = getattr(self, entry.name), _PROVENANCE_TYPES[entry.name]
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise DataError(f"{entry.name} of the provenance must be a {kind.__name__}, not {value!r}.")
        try:
            plain = json.loads(json.dumps(dict(self.parameters), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise DataError(f"the parameters in the provenance must be plain JSON values: {error}.") from None
        object.__setattr__(self, "parameters", plain)

    def __str__(self) -> str:
        data = self.data or ("data without a name" if self.rows else "")
        parts = [f"by {self.estimator}"] if self.estimator else []
        parts += [f"on {data}"] if data else []
        origin = " ".join(["trained", *parts]) if parts else "of unknown origin"
        return f"{origin} (synthetic)" if self.synthetic else origin


_PROVENANCE_TYPES: dict[str, type] = {
    "estimator": str,
    "parameters": Mapping,
    "data": str,
    "synthetic": bool,
    "rows": int,
    "queries": int,
    "cldrank": str,
}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Ranker(ABC):
    """Features in, scores out; a higher score ranks higher. A row's score depends on nothing but that row.

    A kind of ranker names itself in `kind`, scores scaled features, and turns into arrays and back.
    """

    kind: ClassVar[str]
    feature_names: tuple[str, ...]
    scaling: Scaling
    provenance: Provenance = field(default_factory=Provenance)

    def __post_init__(self) -> None:
        object.__setattr__(self, "feature_names", tuple(self.feature_names))
        names, width = len(self.feature_names), self.scaling.n_features
        if names != width:
            raise DataError(f"there are {names} feature names for a scaling of {width} features.")

    @abstractmethod
    def score_scaled(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """The scores of some rows of scaled features."""

    @abstractmethod
    def weights(self) -> Weights:
        """All numbers of the scorer, as named arrays."""

    @classmethod
    @abstractmethod
    def from_weights(
        cls, weights: Weights, *, feature_names: tuple[str, ...], scaling: Scaling, provenance: Provenance
    ) -> Self:
        """The ranker that gave these weights; anything that it cannot have given is refused."""

    def score(
        self,
        features: RankingDataset | ArrayLike,
        *,
        feature_names: Sequence[str] | None = None,
        block_rows: int | None = None,
    ) -> NDArray[np.float64]:
        """One score a row; memory beyond the result is bounded by the block.

        A dataset must have the ranker's features by name and in order, an array the same number of them; say
        `feature_names` to have the columns of an array checked by name too.
        """
        if isinstance(features, RankingDataset):
            table: NDArray[Any] = features.features
            names: Sequence[str] | None = features.feature_names
        else:
            table, names = as_table(features), feature_names
        if names is not None:
            check_features(self.feature_names, names)
        if table.shape[1] != len(self.feature_names):
            raise DataError(f"the ranker knows {len(self.feature_names)} features, the table has {table.shape[1]}.")
        scores = np.empty(len(table), dtype=np.float64)
        for rows, block in self.scaling.blocks(table, block_rows=block_rows):
            scores[rows] = self.score_scaled(block)
        return scores

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the ranker to a folder, which is there whole or not at all.

        A ranker already saved there is replaced; a folder with anything else in it is refused.
        """
        target = Path(folder).resolve()
        _check_replaceable(target)
        from safetensors.numpy import save

        config, parameters = self.scaling.to_state()
        tensors = {f"scorer.{name}": values for name, values in self.weights().items()}
        tensors |= {f"scaling.{name}": values for name, values in parameters.items()}
        content = save({name: np.ascontiguousarray(values) for name, values in tensors.items()})
        description = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "feature_names": self.feature_names,
            "scaling": config,
            "provenance": asdict(self.provenance),
            "weights_sha256": hashlib.sha256(content).hexdigest(),
        }
        with replacing_folder(target) as temporary:
            (temporary / _WEIGHTS).write_bytes(content)
            text = json.dumps(description, indent=2, ensure_ascii=False, allow_nan=False)
            (temporary / _DESCRIPTION).write_text(text + "\n", encoding="utf-8")

    def __repr__(self) -> str:
        width = len(self.feature_names)
        counted = f"{width} feature{'' if width == 1 else 's'}"
        return f"{type(self).__name__}({counted}, scaling {self.scaling.method}, {self.provenance})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LinearRanker(Ranker):
    """score = intercept + Σ coefficient * scaled feature.

    >>> from cldrank import scaling
    >>> names = ("bm25", "pagerank")
    >>> ranker = LinearRanker(feature_names=names, scaling=scaling.fit(None, [[1, 1]]), coefficients=[2, -1])
    >>> ranker
    LinearRanker(2 features, scaling Unscaled(), of unknown origin)
    >>> ranker.score([[1, 0], [3, 1]])
    array([2., 5.])
    """

    kind = "linear"
    coefficients: NDArray[np.float64]
    intercept: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        coefficients = np.array(self.coefficients, dtype=np.float64)
        if coefficients.shape != (len(self.feature_names),):
            raise DataError(f"coefficients have shape {coefficients.shape} for {len(self.feature_names)} features.")
        if not np.isfinite(coefficients).all():
            at = np.flatnonzero(~np.isfinite(coefficients))[0]
            raise DataError(f"the coefficient of feature {self.feature_names[at]!r} is {coefficients[at]}.")
        if not np.isfinite(self.intercept):
            raise DataError(f"the intercept is {self.intercept}; it must be finite.")
        coefficients.flags.writeable = False
        object.__setattr__(self, "coefficients", coefficients)
        object.__setattr__(self, "intercept", float(self.intercept))

    def score_scaled(self, block: NDArray[np.float32]) -> NDArray[np.float64]:
        """Intercept + Σ coefficient * scaled feature."""
        # not `block @ coefficients`: BLAS adds up a row in an order that depends on where the row lies in the block,
        # and equal rows must get equal scores
        total: NDArray[np.float64] = np.einsum("ij,j->i", block.astype(np.float64), self.coefficients)
        return total + self.intercept

    def weights(self) -> Weights:
        """`coefficients`, one a feature, and `intercept`."""
        return {"coefficients": self.coefficients, "intercept": np.array([self.intercept])}

    @classmethod
    def from_weights(
        cls, weights: Weights, *, feature_names: tuple[str, ...], scaling: Scaling, provenance: Provenance
    ) -> Self:
        """The ranker with these coefficients and this intercept."""
        for name, shape in (("coefficients", (len(feature_names),)), ("intercept", (1,))):
            if name not in weights:
                raise DataError(f"the array {name!r} of a linear ranker is missing.")
            if weights[name].dtype != np.float64 or weights[name].shape != shape:
                found = f"{weights[name].dtype} {weights[name].shape}"
                raise DataError(f"the array {name!r} of the ranker must be float64 {shape}, not {found}.")
        if extra := weights.keys() - {"coefficients", "intercept"}:
            raise DataError(f"a linear ranker has no array {min(extra)!r}.")
        return cls(
            feature_names=feature_names,
            scaling=scaling,
            provenance=provenance,
            coefficients=weights["coefficients"],
            intercept=weights["intercept"].item(),
        )


KINDS: dict[str, type[Ranker]] = {ranker.kind: ranker for ranker in (LinearRanker,)}


def load_ranker(folder: str | PathLike[str]) -> Ranker:
    """The ranker saved in a folder, exactly as it was; a folder with anything wrong in it is refused."""
    path = Path(folder)
    if not path.is_dir():
        what = "is a file, not the folder of a ranker" if path.exists() else "does not exist"
        raise DataError(f"{path} {what}; name a folder written by save().")
    description = _description(path / _DESCRIPTION)
    weights = _weights(path / _WEIGHTS, description["weights_sha256"])
    try:
        return _assembled(description, weights)
    except DataError as error:
        raise FormatError(str(error), path=path) from None


def check_features(expected: Sequence[str], found: Sequence[str]) -> None:
    """Refuse features that are not those expected, by name and in order, and say where they differ.

    >>> check_features(["bm25", "length"], ["length", "bm25"])
    Traceback (most recent call last):
    ...
    cldrank.errors.DataError: feature 1 is 'length' where the ranker expects 'bm25'; put the features in its order.
    """
    expected, found = list(expected), list(found)
    if expected == found:
        return
    missing, extra = _without(expected, found), _without(found, expected)
    if missing or extra:
        parts = [f"{_named(missing)} missing"] if missing else []
        parts += [f"{_named(extra)} unknown to it"] if extra else []
        counts = f"{len(found)} features instead of the ranker's {len(expected)}"
        if len(found) == len(expected):
            counts = "other features than the ranker was trained on"
        raise DataError(f"{counts}: {', '.join(parts)}.")
    if len(found) != len(expected):
        raise DataError("a feature appears more than once; each may appear only once.")
    place = next(index for index, pair in enumerate(zip(expected, found, strict=True)) if pair[0] != pair[1])
    raise DataError(
        f"feature {place + 1} is {found[place]!r} where the ranker expects {expected[place]!r}; "
        "put the features in its order."
    )


def _without(names: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]


def _named(names: list[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{shown}{more} {'is' if len(names) == 1 else 'are'}"


def _check_replaceable(target: Path) -> None:
    """Refuse to save over anything but an empty folder or a ranker: what lies there may be somebody's work."""
    if not target.is_dir():
        return  # nothing there, or a file, which `replacing_folder` refuses
    inside = sorted(entry.name for entry in target.iterdir())
    if not inside:
        return
    foreign = [name for name in inside if name not in (_DESCRIPTION, _WEIGHTS)]
    if foreign:
        raise UsageError(f"{target} holds {foreign[0]!r}, which is no part of a ranker; name another folder.")
    try:
        marker = json.loads((target / _DESCRIPTION).read_bytes())["format"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        marker = None
    if marker != FORMAT:
        raise UsageError(f"{target} is not empty and holds no ranker; name another folder, or empty it first.")


def _description(path: Path) -> dict[str, Any]:
    content = _read(path)
    try:
        description = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        reason = getattr(error, "msg", None) or str(error)
        raise FormatError(f"this is not JSON ({reason}).", path=path, line=line) from None
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise FormatError(f'this does not describe a ranker: it lacks "format": "{FORMAT}".', path=path)
    version = description.get("format_version")
    if type(version) is not int or version < 1:
        raise FormatError(f"format_version is {version!r}; it must be a whole number.", path=path)
    if version > FORMAT_VERSION:
        raise FormatError(
            f"the ranker has format version {version}; this cldrank ({__version__}) reads up to {FORMAT_VERSION}. "
            "Upgrade cldrank.",
            path=path,
        )
    kinds = {"kind": str, "feature_names": list, "scaling": dict, "provenance": dict, "weights_sha256": str}
    for key, kind in kinds.items():
        if not isinstance(description.get(key), kind):
            raise FormatError(f"{key!r} must be a {kind.__name__}, not {description.get(key)!r}.", path=path)
    return description


def _weights(path: Path, digest: str) -> Weights:
    content = _read(path)
    if hashlib.sha256(content).hexdigest() != digest:
        raise FormatError(
            f"this is not the file that {_DESCRIPTION} was saved with: damaged, or of another.", path=path
        )
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except (SafetensorError, LookupError, TypeError, ValueError) as error:
        raise FormatError(f"this is not a safetensors file of numpy arrays ({error}).", path=path) from None


def _assembled(description: dict[str, Any], weights: Weights) -> Ranker:
    kind, names = description["kind"], description["feature_names"]
    if kind not in KINDS:
        raise DataError(
            f"the kind of ranker {kind!r} is not known to cldrank {__version__}; known: {', '.join(KINDS)}."
        )
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DataError("feature_names must be texts, each different.")
    parts: dict[str, Weights] = {"scaling": {}, "scorer": {}}
    for name, values in weights.items():
        part, _, rest = name.partition(".")
        if part not in parts:
            raise DataError(f"{_WEIGHTS} has the array {name!r}, which belongs to nothing.")
        parts[part][rest] = values
    try:
        provenance = Provenance(**description["provenance"])
    except TypeError as error:
        raise DataError(f"the provenance cannot be read: {error}.") from None
    scaling = Scaling.from_state(description["scaling"], parts["scaling"])
    return KINDS[kind].from_weights(parts["scorer"], feature_names=tuple(names), scaling=scaling, provenance=provenance)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FormatError(
            f"the file is missing; a saved ranker has {_DESCRIPTION} and {_WEIGHTS}.", path=path
        ) from None
    except OSError as error:
        raise FormatError(f"the file cannot be read ({error.strerror}).", path=path) from None
