"""Which files a source stands for, and which columns have which role."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from cldrank.errors import DataError, FormatError, UsageError
from cldrank.tables import Role, named_paths, resolve_columns, table_files
from cldrank.tables.sources import csv_header, format_of


def touch(*paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


class TestFiles:
    def test_patterns(self, tmp_path: Path) -> None:
        names = ("1/a.csv", "1/b.csv", "2/a.csv", "2/deep/a.csv", "1/_a.csv", "1/.a.csv", "_tmp/a.csv")
        touch(*(tmp_path / name for name in names))

        def matching(pattern: str) -> list[str]:
            return [path.relative_to(tmp_path).as_posix() for path in named_paths(tmp_path / pattern)]

        assert matching("*/*.csv") == ["1/a.csv", "1/b.csv", "2/a.csv"]
        assert matching("**/a.csv") == ["1/a.csv", "2/a.csv", "2/deep/a.csv"]
        assert matching("[12]/b.???") == ["1/b.csv"]
        assert matching("*/_*.csv") == ["1/_a.csv"]  # asked for
        assert matching("*") == ["1", "2"]
        assert matching("2/**") == ["2"]  # the folder, not once more what is in it

    def test_a_file_whose_name_looks_like_a_pattern(self, tmp_path: Path) -> None:
        touch(tmp_path / "star*.csv", tmp_path / "starx.csv")
        assert named_paths(tmp_path / "star*.csv") == [tmp_path / "star*.csv"]

    def test_folders_hold_all_that_is_below_them_but_hidden_files(self, tmp_path: Path) -> None:
        touch(*(tmp_path / name for name in ("b.csv", "day=1/a.csv", "_x.csv", ".y/a.csv", "day=1/_SUCCESS")))
        files = table_files(tmp_path)
        assert [file.path.relative_to(tmp_path).as_posix() for file in files] == ["b.csv", "day=1/a.csv"]
        assert [file.partition for file in files] == [{}, {"day": "1"}]

    def test_other_files_in_a_folder_are_refused_or_left_out(self, tmp_path: Path) -> None:
        touch(tmp_path / "a.parquet", tmp_path / "LICENSE.md")
        with pytest.raises(DataError, match=r"LICENSE\.md"):
            table_files(tmp_path)
        assert [file.path.name for file in table_files(tmp_path, skip_others=True)] == ["a.parquet"]
        with pytest.raises(DataError, match=str(tmp_path)):
            table_files(tmp_path, formats=["json"], skip_others=True)

    def test_a_name_of_the_catalogue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CLDRANK_DATA", str(tmp_path))
        touch(tmp_path / "ranklens/impressions.parquet", tmp_path / "ranklens/items.parquet")
        assert named_paths("ranklens:impressions") == [tmp_path / "ranklens/impressions.parquet"]

    def test_a_file_named_twice(self, tmp_path: Path) -> None:
        file = tmp_path / "log/a.csv"
        touch(file)
        (tmp_path / "link.csv").symlink_to(file)
        for source in ([file, file], [file, tmp_path / "log"], [tmp_path / "log", file], [file, tmp_path / "l*.csv"]):
            with pytest.raises(UsageError, match="named twice"):
                table_files(source)

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.csv")
        for source in (tmp_path / "absent.csv", tmp_path / ("x" * 300), tmp_path / "*.json"):
            with pytest.raises(UsageError, match=r"absent|xxx|\*\.json"):
                named_paths(source)
        for nothing in ([], "", None, [7]):
            with pytest.raises(UsageError):
                named_paths(nothing)  # type: ignore[arg-type]

    def test_formats(self) -> None:
        endings = {"a.csv.gz": "csv", "b.TSV": "csv", "c.pq": "parquet", "d.ndjson.zst": "json"}
        assert {name: format_of(Path(name)) for name in endings} == endings
        assert format_of(Path("fold1/train.txt.xz"), ["letor"]) == "letor"
        for name in ("log.gz", "log.xlsx", "train.txt"):
            with pytest.raises(DataError, match=name):
                format_of(Path(name))


class TestCsvHeader:
    @pytest.mark.parametrize(("letter", "name"), [(",", "a.csv"), ("\t", "a.tsv"), (";", "a.csv"), ("|", "a.csv")])
    def test_delimiters(self, tmp_path: Path, letter: str, name: str) -> None:
        (tmp_path / name).write_text(f'query_id{letter}"title{letter} match"\r\n1{letter}2\r\n')
        assert csv_header(tmp_path / name) == (("query_id", f"title{letter} match"), letter)

    def test_compressed_and_with_a_byte_order_mark(self, tmp_path: Path) -> None:
        content = b"\xef\xbb\xbfa,b\n1,2\n"
        (tmp_path / "a.csv.gz").write_bytes(gzip.compress(content))
        assert csv_header(tmp_path / "a.csv.gz") == (("a", "b"), ",")

    def test_what_is_no_table_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "rho.json").write_text('{"format": "cldrank-propensities", "values": [1, 0.5]}')
        (tmp_path / "array.json").write_text('\n[{"position": 1}]')
        touch(tmp_path / "ranker/ranker.json", tmp_path / "ranker/weights.safetensors", tmp_path / "log.xlsx")
        for name in ("rho.json", "array.json", "ranker", "log.xlsx"):
            with pytest.raises((DataError, UsageError), match=name):
                table_files(tmp_path / name, what="log")


class TestColumns:
    ROLES = (Role("query_id", required=True), Role("doc_id"), Role("segment", by_name=False))

    def test_names_are_roles_unless_others_are_given(self) -> None:
        there = ["query_id", "doc_id", "segment", "sku"]
        assert resolve_columns(there, None, self.ROLES, "a") == {"query_id": "query_id", "doc_id": "doc_id"}
        given = {"doc_id": "sku", "segment": "segment"}
        assert resolve_columns(there, given, self.ROLES, "a") == {"query_id": "query_id", **given}

    def test_a_field_inside_of_a_column(self) -> None:
        given = {"query_id": "event.query.id"}
        assert resolve_columns(["event"], given, self.ROLES, "a") == given

    def test_refusals_name_the_role_the_column_and_the_table(self) -> None:
        with pytest.raises(UsageError, match="'document'"):
            resolve_columns(["query_id"], {"document": "query_id"}, self.ROLES, "a.csv")
        with pytest.raises(FormatError, match=r"a\.csv.*'sku'.*doc_id.*qid"):
            resolve_columns(["qid"], {"doc_id": "sku"}, self.ROLES, "a.csv")
        with pytest.raises(FormatError, match=r"a\.csv.*'query_id'.*qid"):
            resolve_columns(["qid"], {}, self.ROLES, "a.csv")
        with pytest.raises(UsageError, match="doc_id"):
            resolve_columns(["qid"], {"docid": "qid"}, self.ROLES, "a.csv")
        with pytest.raises(UsageError, match="'query_id'.*query_id and doc_id"):
            resolve_columns(["query_id"], {"doc_id": "query_id"}, self.ROLES, "a.csv")
        assert resolve_columns(["query_id"], {"segment": "query_id"}, self.ROLES, "a", shared=["segment"])
