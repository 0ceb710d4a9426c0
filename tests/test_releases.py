"""A release is found by the subject of its commit; tags are not needed and do not mislead."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.releases import BY_HASH, ROOT, git, revision

# Without the variables of a git hook, which would direct these commands to another repository.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
AUTHOR = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in set(os.environ) - set(ENVIRONMENT):
        monkeypatch.delenv(name)
    _git(tmp_path, "init", "--quiet", "--initial-branch=main")
    return tmp_path


def test_a_release_is_the_commit_with_its_subject_though_nothing_is_tagged(repository: Path) -> None:
    _commit(repository, "Add a task")
    released = _commit(repository, "Release 0.2.0")
    _commit(repository, "Fix a task")
    assert _git(repository, "tag") == ""
    assert revision("0.2.0", repository) == released


def test_a_tag_on_another_commit_does_not_change_what_a_version_is(repository: Path) -> None:
    other = _commit(repository, "Add a task")
    released = _commit(repository, "Release 0.2.0")
    _git(repository, "tag", "0.2.0", other)
    assert revision("0.2.0", repository) == released


@pytest.mark.parametrize(
    "subject", ["Release 0.2.01", "Release 0.2.0 soon", "Revert Release 0.2.0", "Release 0x2.0"]
)
def test_a_subject_that_only_resembles_a_release_is_not_one(repository: Path, subject: str) -> None:
    _commit(repository, subject)
    with pytest.raises(
        LookupError, match=r'no commit in the history of HEAD has the subject "Release 0\.2\.0"'
    ):
        revision("0.2.0", repository)


def test_a_release_that_only_another_branch_has_is_not_found(repository: Path) -> None:
    _commit(repository, "Add a task")
    _git(repository, "switch", "--quiet", "--create", "other")
    _commit(repository, "Release 0.2.0")
    _git(repository, "switch", "--quiet", "main")
    with pytest.raises(LookupError, match="history of HEAD"):
        revision("0.2.0", repository)


def test_anything_but_a_version_is_a_git_revision(repository: Path) -> None:
    first = _commit(repository, "Add a task")
    second = _commit(repository, "Fix a task")
    _git(repository, "tag", "v9", first)
    assert revision("HEAD", repository) == second
    assert revision("HEAD~1", repository) == first
    assert revision(first[:8], repository) == first
    assert revision("v9", repository) == first


@pytest.mark.parametrize("name", ["nowhere", "", "--all", "HEAD~9"])
def test_a_revision_that_is_not_there_is_named(repository: Path, name: str) -> None:
    _commit(repository, "Add a task")
    with pytest.raises(LookupError, match=f"git revision '{name}' is not in"):
        revision(name, repository)


def test_the_first_release_is_known_by_its_hash(repository: Path) -> None:
    _commit(repository, "Release 0.1.0")
    with pytest.raises(LookupError, match=f"release 0.1.0, commit {BY_HASH['0.1.0']}, is not in"):
        revision("0.1.0", repository)
    if git(ROOT, "cat-file", "-e", BY_HASH["0.1.0"]).returncode == 0:
        assert revision("0.1.0") == BY_HASH["0.1.0"]


def test_the_command_prints_the_commit_or_what_is_missing() -> None:
    found, missing = _command("HEAD"), _command("999.0.0")
    assert (found.returncode, found.stdout.strip()) == (0, revision("HEAD"))
    assert missing.returncode == 1
    assert 'the subject "Release 999.0.0"' in missing.stderr


def _command(name: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.releases", name]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *AUTHOR, *arguments],
        cwd=repository,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def _commit(repository: Path, subject: str) -> str:
    _git(repository, "commit", "--quiet", "--allow-empty", "--message", subject)
    return _git(repository, "rev-parse", "HEAD")
