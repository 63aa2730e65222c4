"""`make release-check`: build what would be published, look into it, install it, use it; or say what is wrong.

    python tools/release_check.py                               everything but the lowest versions
    python tools/release_check.py --only build,contents         some checks
    python tools/release_check.py --only install --python 3.12  one Python, with the files that lie in dist/
    python tools/release_check.py --only lowest                 tests with the lowest versions allowed

What was built and checked lies in dist/.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from release import environments
from release.building import build_twice
from release.contents import check_contents
from release.description import check_files, check_metadata, check_version
from release.lowest import check_lowest
from release.steps import Account, Release, ReleaseError

ON_FILES = {
    "version": check_version,
    "files": check_files,
    "build": build_twice,
    "contents": check_contents,
    "metadata": check_metadata,
}
ALL = (*ON_FILES, *environments.CHECKS, "lowest")


def main() -> int:
    """Run the checks that are asked for; the exit code is 0 if all went well."""
    arguments = _arguments()
    account = Account()
    scratch = Path(tempfile.mkdtemp(prefix="cldrank-release-"))
    release = Release(Path(__file__).resolve().parents[1], scratch, arguments.tag)
    try:
        for name, check in ON_FILES.items():
            if name in arguments.only and not account.check(name, partial(check, release)) and name == "build":
                return account.close()  # there is nothing to look into
        if arguments.only.intersection(environments.CHECKS):
            environments.check_environments(account, release, arguments.only, arguments.python, arguments.keep)
        if "lowest" in arguments.only:
            account.check("lowest", partial(check_lowest, release, arguments.keep))
    except ReleaseError as problem:
        account.check("files to install", partial(_refuse, problem))
    finally:
        if not arguments.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    return account.close()


def _refuse(problem: ReleaseError) -> str:
    raise problem


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=_checks, default=set(ALL) - {"lowest"}, help=f"checks, of {', '.join(ALL)}")
    parser.add_argument(
        "--python", action="append", default=[], metavar="VERSION", help="such as 3.12; may be repeated"
    )
    tag = os.environ.get("RELEASE_TAG", "")  # not an argument in a workflow: a tag may hold what a shell would run
    parser.add_argument("--tag", default=tag, help="the tag to publish, which must name the version, such as v0.1.0")
    parser.add_argument("--keep", action="store_true", help="leave the environments where they are, and say where")
    return parser.parse_args()


def _checks(text: str) -> set[str]:
    names = set(text.split(","))
    if unknown := sorted(names - set(ALL)):
        raise argparse.ArgumentTypeError(f"there is no check {', '.join(unknown)}; there are {', '.join(ALL)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
