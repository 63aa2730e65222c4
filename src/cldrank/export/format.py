"""`ExportFormat`: what each format declares and writes, and what all share: names, versions, refusals, READMEs."""

from __future__ import annotations

import hashlib
import json
import keyword
import pkgutil
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cldrank._version import __version__
from cldrank.collect.featureset import FeatureSet
from cldrank.documents.text import Markdown, markdown_templates
from cldrank.errors import UsageError
from cldrank.export.replay import NamedTable
from cldrank.rankers import Ranker
from cldrank.wording import listed, some

Files = Mapping[str, bytes]

_LONGEST = 100  # letters of a model's name, which is part of the names of files
_NOTEWORTHY = 1e-6  # a smaller constant is what rounding leaves
# words of Python and of Vespa's ranking expressions (RankingExpressionParser.jj)
RESERVED = frozenset(
    """
    TODO abs acos argmax argmin asin atan atan2 avg bit case ceil cell_cast cell_order concat cos cosh cosine_similarity
    count default diag elu erf euclidean_distance exp expand f fabs false filter_subspaces floor fmod hamming if in
    isNan join l1_normalize l2_normalize ldexp log log10 map map_subspaces matmul max median merge min pow prod random
    range reduce relu rename round sigmoid sign sin sinh softmax sqrt square sum switch tan tanh tensor top true
    unpack_bits xw_plus_b
    """.split()  # noqa: SIM905
) | frozenset(keyword.kwlist)
UNMATCHED = {
    "zero": "a feature whose query does not match counts 0, as it must have in the training data",
    "missing": "a feature whose query does not match is missing, and goes where each split sends missing values",
}


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What to write: the arguments of `export_ranker` of these names."""

    name: str = "cldrank"
    version: str | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)
    approximate: bool = False
    featureset: FeatureSet | None = None

    def definition(self, feature: str) -> Any:
        """How the engine defines a feature that it calls so; None where no feature set says."""
        return self.featureset and self.featureset.definitions.get(feature)

    def at_least(self, version: str) -> bool:
        """Whether the engine is this version or newer; without a version, it is the newest."""
        return self.version is None or version_parts(self.version) >= version_parts(version)


def version_parts(version: str) -> tuple[int, ...]:
    """The numbers of a version."""
    parts = version.split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        raise UsageError(f"`version` must be a version such as 3.6, not {version!r}.")
    return tuple(map(int, parts))


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What a format makes of a ranker.

    files       their content by name; a format of one file calls it "model"
    names       what the engine calls the features, in the ranker's order
    to_fill     the files that users complete, and that the next export keeps: the features that each must define
    unmatched   how the model takes a feature that does not match: "zero" or "missing"
    shift       what to add to the engine's score to get the ranker's: an intercept that the format cannot hold
    losses      what is only approximate, in words; empty if the export is exact
    notes       what users of the export must know
    readme      what the template of its README needs besides

    >>> Exported(files={"model": b"{}"}, notes=("it has no features",)).losses
    ()
    """

    files: Files
    names: tuple[str, ...] = ()
    to_fill: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unmatched: str = ""
    shift: float = 0.0
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    readme: Mapping[str, Any] = field(default_factory=dict)


class InexpressibleError(UsageError):
    """A ranker that a format cannot express; the message says why, and the way out."""


class ExportFormat(ABC):
    """A format: it writes rankers for an engine, and replays the files as the engine's documentation says.

    name            as the command line spells it; its file in `formats/` and its replay in `replay/` are called so
    label           the engine, as its makers write it
    takes           the kinds of rankers that it can express
    oldest, newest  the versions of the engine that it was written for; "" where versions do not matter
    one_file        whether it is a file rather than a folder
    takes_negative  whether the engine's features can be negative
    model_name      what a model may be called: a pattern, and the same in words
    own_feature     a pattern of names that are features of the engine itself, and are left as they are
    defines         a pattern of what defines a feature in the files that users complete

    >>> sorted(export_formats())
    ['elasticsearch', 'onnx', 'opensearch', 'solr', 'vespa']
    """

    name: ClassVar[str]
    label: ClassVar[str]
    takes: ClassVar[tuple[type[Ranker], ...]]
    oldest: ClassVar[str] = "0"
    newest: ClassVar[str] = ""
    one_file: ClassVar[bool] = False
    takes_negative: ClassVar[bool] = True
    model_name: ClassVar[tuple[str, str]] = (r"[A-Za-z0-9_][A-Za-z0-9_.-]*", "letters, digits, '_', '-' and '.'")
    own_feature: ClassVar[str] = r"(?!)"
    defines: ClassVar[str] = r'"(?:feature_)?name"\s*:\s*"(\w+)"'

    @abstractmethod
    def write(self, ranker: Any, request: ExportRequest, names: Sequence[str]) -> Exported:
        """The files of a ranker of a kind that it takes; `names` are the engine's names of its features."""

    def export(self, ranker: Ranker, request: ExportRequest) -> Exported:
        """The files with their README and notes; `InexpressibleError` if the format cannot express it."""
        self._check(ranker, request)
        names = self._names(ranker, request)
        try:
            written = self.write(ranker, request, names)
        except RecursionError:
            raise self.refuse(ranker, "a tree is too deep for nested JSON", "retrain with fewer leaves") from None
        changed = {own: name for own, name in zip(names, ranker.feature_names, strict=True) if own != name}
        mapped = [f"{own} ({name})" for own, name in changed.items() if own not in request.renamed.values()]
        defined: tuple[str, ...] = ()
        if request.featureset is not None:
            if unknown := [name for name in names if request.definition(name) is None]:
                raise UsageError(f"`featureset` does not define {some(unknown)}, which the ranker uses.")
            defined = (f"features are defined as in {request.featureset}, which leaves nothing to complete",)
            written = replace(written, to_fill={})
        elif ranker.provenance.featureset and written.to_fill:
            defined = (f"`featureset` with the file of {ranker.provenance.featureset} defines the features",)
        notes = (*written.notes, *defined, *self._notes(written, len(names), mapped))
        exported = replace(written, names=names, notes=notes)
        if self.one_file:
            return exported
        readme = rendered(
            f"{self.name}.md",
            name=Markdown(request.name),
            engine=self.engine(request.version or self.newest),
            provenance=str(ranker.provenance),
            files=list(exported.files),
            notes=notes,
            losses=exported.losses,
            changed=changed,
            **exported.readme,
        )
        return replace(exported, files={**exported.files, "README.md": readme})

    def replay(self, files: Files, table: NamedTable, request: ExportRequest) -> NDArray[np.float64]:
        """The score of each row of a table, computed from the files as the engine documents it."""
        scores: Any = import_module(f"cldrank.export.replay.{self.name}_replay").scores
        return scores(files, table, request.version)  # type: ignore[no-any-return]

    def engine(self, version: str) -> str:
        """The engine of a version, in words."""
        return f"{self.label} {version}".strip()

    def refuse(self, ranker: Ranker, reason: str, way_out: str) -> InexpressibleError:
        """The error for a ranker that this format cannot express."""
        return InexpressibleError(f"{self.label} cannot load this {type(ranker).__name__}: {reason}; {way_out}.")

    def accept(self, ranker: Ranker, request: ExportRequest, losses: Sequence[str], way_out: str) -> None:
        """Refuse a ranker that the format can only approximate, unless an approximation is wanted."""
        if losses and not request.approximate:
            raise self.refuse(ranker, "; ".join(losses), f"{way_out}ask for an approximation, which is measured")

    def _check(self, ranker: Ranker, request: ExportRequest) -> None:
        if not isinstance(ranker, self.takes):
            kinds = listed([kind.kind for kind in self.takes], "or")
            others = [other.label for other in export_formats().values() if isinstance(ranker, other.takes)]
            way = f"export it to {listed(others, 'or')}, or " if others else ""
            raise self.refuse(ranker, f"it takes rankers of the kind {kinds}", f"{way}train such a ranker")
        if not request.at_least(self.oldest):
            raise UsageError(
                f"`version={request.version!r}` is too old: the export to {self.label} is for {self.oldest} and later."
            )
        pattern, words = (r".*\S.*", "printable text") if self.one_file else self.model_name
        if not (re.fullmatch(pattern, request.name) and request.name.isprintable() and len(request.name) <= _LONGEST):
            raise UsageError(f"`name` must be {words}, at most {_LONGEST} letters, not {request.name[:_LONGEST]!r}.")

    def _names(self, ranker: Ranker, request: ExportRequest) -> tuple[str, ...]:
        """What the engine calls the ranker's features."""
        if unknown := [name for name in request.renamed if name not in ranker.feature_names]:
            raise UsageError(f"`renamed` names {unknown[0]!r}, which is not a feature of the ranker.")
        called = [request.renamed.get(name, name) for name in ranker.feature_names]
        if not self.one_file:
            mapped = plain_names([name for name in called if not re.fullmatch(self.own_feature, name)])
            called = [mapped.get(name, name) for name in called]
        name, times = Counter(called).most_common(1)[0]
        if times > 1:
            raise UsageError(f"two features would be called {name!r}; give each a name of its own.")
        return tuple(called)

    def _notes(self, written: Exported, n_features: int, mapped: Sequence[str]) -> Iterator[str]:
        to_define = sum(map(len, written.to_fill.values()))
        if written.unmatched:
            yield UNMATCHED[written.unmatched]
        if abs(written.shift) > _NOTEWORTHY:
            yield f"add {written.shift:.6g} to {self.label}'s scores to get the ranker's own; the order is the same"
        if 0 < to_define < n_features:
            yield f"{to_define} of {n_features} features are to be defined; the others need no definition"
        if mapped:
            yield f"names that not every engine takes became {some(mapped, most=3)}; README.md lists them all"


@cache
def export_formats() -> Mapping[str, ExportFormat]:
    """All formats by name, found by their files.

    >>> export_formats()["onnx"].label
    'ONNX Runtime'
    """
    from cldrank.export import formats

    modules = [import_module(f"{formats.__name__}.{file.name}") for file in pkgutil.iter_modules(formats.__path__)]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    return {kind.name: kind() for kind in kinds if issubclass(kind, ExportFormat) and kind is not ExportFormat}


def format_named(name: str, parameter: str = "to") -> ExportFormat:
    """The format called `name`; an unknown name is refused as a value of the parameter."""
    known = export_formats()
    if name not in known:
        raise UsageError(f"`{parameter}` takes {listed(known, 'or')}, not {name!r}.")
    return known[name]


def plain_names(names: Sequence[str]) -> dict[str, str]:
    """Names of features that every engine can take, by the name.

    Every character but ASCII letters, digits and _ becomes _. A name that then begins with a digit, or is a reserved
    word of an engine, gets `feature_` in front. Names that would become the same as others get a part of their hash
    behind.

    >>> plain_names(["title bm25", "class", "a b", "a.b", "ok"])
    {'title bm25': 'title_bm25', 'class': 'feature_class', 'a b': 'a_b_c8687a', 'a.b': 'a_b_2e7336', 'ok': 'ok'}
    """
    plain = {name: re.sub(r"[^A-Za-z0-9_]", "_", name) for name in names}
    for name, text in plain.items():
        if not re.match(r"[A-Za-z_]", text) or text in RESERVED:
            plain[name] = f"feature_{text}"
    times = Counter(plain.values())
    for name, text in plain.items():
        if times[text] > 1 and text != name:
            plain[name] = f"{text}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return plain


def written_json(content: Any, indent: int | None = 2) -> bytes:
    """Readable JSON; without an indent, on a single line."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(content, indent=indent, separators=separators, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def placeholder_query(parameter: str, *, zero_elsewhere: bool) -> dict[str, Any]:
    """A query that users complete, whose score is the feature; `zero_elsewhere` has 0 where it does not match."""
    query: dict[str, Any] = {"match": {"TODO": f"{{{{{parameter}}}}}"}}
    return {"bool": {"should": query, "filter": {"match_all": {}}}} if zero_elsewhere else query


def rendered(template: str, **context: Any) -> bytes:
    """A file from its template, or from that of all READMEs if it has none; texts are escaped for Markdown."""
    chosen = markdown_templates("cldrank.export").select_template([f"{template}.jinja", "README.md.jinja"])
    return chosen.render(version=__version__, **context).encode()
