"""Queries known by a hash of their id: what rankers remember them by, and what decides which are held out.

The hash of a query is BLAKE2b, with a digest of 8 bytes, of its id as text in UTF-8, read as a little-endian number. It
depends on nothing else, so a query has the same hash in every file, and in tomorrow's log.
"""

from __future__ import annotations

import sys
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cldrank.arguments import check_number, check_whole
from cldrank.data.checks import flat_ids
from cldrank.errors import DataError

if TYPE_CHECKING:
    from cldrank.data.dataset import RankingDataset

Hashes = NDArray[np.uint64]
_BYTES = 8


def hashes_of(query_ids: ArrayLike) -> Hashes:
    """A hash per id; a whole number and its text have the same hash, since files differ in how they write ids.

    >>> hashes_of([7]) == hashes_of(["7"])
    array([ True])
    """
    return _hashed(query_ids, 0)


def held_out(queries: ArrayLike | RankingDataset, share: float, seed: int = 0) -> NDArray[np.bool_]:
    """Which queries to keep out of training, about a share of them, so that a ranker can be judged on them.

    queries   a dataset, or the ids of queries

    The hash of a query alone decides, whatever else the data hold: a query that is held out today is held out in
    tomorrow's log as well, and with any larger share. Another seed holds out others. `cldrank train --hold-out` has
    seed 0.

    >>> import cldrank as cr
    >>> data = cr.RankingDataset.from_arrays([[float(row)] for row in range(20)], range(20))
    >>> held = held_out(data, 0.2)
    >>> data[~held], data[held].query_ids
    (RankingDataset(16 queries, 16 rows, 1 feature, no labels), array([ 3,  9, 14, 16]))

    A `ClickTable` is divided alike: train on `data[~held], clicks[~held]`, judge on `data[held], clicks[held]`.
    """
    check_number("share", share, above=0, below=1)
    check_whole("seed", seed, least=0, most=2**64 - 1)
    query_ids = getattr(queries, "query_ids", queries)
    mask: NDArray[np.bool_] = _hashed(query_ids, seed) < np.uint64(int(float(share) * 2.0**64))
    return mask


def check_hashes(values: Any) -> Hashes:
    """Hashes as `Ranker.trained_on` keeps them, each once and in order; refused where they are anything else."""
    hashes = np.asarray(values)
    if hashes.dtype != np.uint64 or hashes.ndim != 1:
        raise DataError(f"hashes of queries are a flat array of uint64, not {hashes.dtype} of shape {hashes.shape}.")
    if (hashes[1:] <= hashes[:-1]).any():
        raise DataError("hashes of queries must be sorted, each of them once.")
    return hashes


def _hashed(query_ids: ArrayLike, seed: int) -> Hashes:
    salt = seed.to_bytes(_BYTES, "little")  # that of seed 0 is as good as none
    ids: list[Any] = flat_ids(query_ids, "query_ids").tolist()
    texts = (str(query_id).encode("utf-8", "surrogatepass") for query_id in ids)
    digests = b"".join([blake2b(text, digest_size=_BYTES, salt=salt).digest() for text in texts])
    hashes = np.frombuffer(digests, dtype="<u8")
    return hashes if sys.byteorder == "little" else hashes.astype(np.uint64)
