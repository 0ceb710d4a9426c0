"""Finds the commit of a release without tags, because not every copy of the repository carries them.

python -m benchmarks.releases 0.2.0      prints the commit of that release
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
# Releases from before the rule that a release is the commit with the subject `Release X.Y.Z`.
BY_HASH = {"0.1.0": "f74e0e1c62895095050dd9db67261f31328db539"}
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def revision(name: str, repository: Path = ROOT) -> str:
    """The full hash of a version `X.Y.Z` in the history of HEAD, or of anything that git understands."""
    if _VERSION.fullmatch(name) and name not in BY_HASH:
        return _release(name, repository)
    found = git(
        repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{_known(name)}^{{commit}}"
    )
    if found.returncode != 0:
        raise LookupError(f"{_told(name)} is not in {repository}: fetch the whole history, or name another")
    return found.stdout.strip()


def git(repository: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run git in a repository; the caller looks at its exit status."""
    return subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=False)


def _release(version: str, repository: Path) -> str:
    history = git(repository, "log", "--format=%H %s", "HEAD")
    if history.returncode != 0:
        raise LookupError(f"the history of {repository} cannot be read: {history.stderr.strip()}")
    for line in history.stdout.splitlines():
        commit, _, subject = line.partition(" ")
        if subject == f"Release {version}":
            return commit
    raise LookupError(
        f'no commit in the history of HEAD has the subject "Release {version}": '
        "fetch the whole history, or name another version or a git revision"
    )


def _known(name: str) -> str:
    return BY_HASH.get(name, name)


def _told(name: str) -> str:
    if name in BY_HASH:
        return f"release {name}, commit {BY_HASH[name]},"
    return f"git revision {name!r}"


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: python -m benchmarks.releases VERSION|REVISION", file=sys.stderr)
        return 2
    try:
        print(revision(sys.argv[1]))
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
