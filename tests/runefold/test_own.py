"""Rules about packages of the host application that stand in the way of ours."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import runefold
from runefold import _own

HOME = Path(runefold.__file__).parent.parent

BY_FINDER = f"""
import sys, importlib.machinery, importlib.util, os
sys.path = [entry for entry in sys.path if os.path.abspath(entry or ".") != {str(HOME)!r}]

class Finder:
    '''Maps names to directories, as an editable installation may do it, behind sys.path.'''

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("runefold", "runelog", "actors", "supervisors"):
            return importlib.util.spec_from_file_location(
                name, os.path.join({str(HOME)!r}, name, "__init__.py")
            )

sys.meta_path.append(Finder)
"""


def python(program: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python of its own, with these directories in front on its path."""
    front = [str(entry) for entry in path]
    return subprocess.run(
        [sys.executable, "-c", f"import sys\nsys.path[:0] = {front!r}\n{program}"],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def intrude(directory: Path, name: str, form: str) -> Path:
    """Put something of the host's under one of our names, and return where it lies."""
    if form == "module":
        place = directory / f"{name}.py"
        place.write_text("")
        return place
    place = directory / name
    place.mkdir()
    if form == "package":
        (place / "__init__.py").write_text("raise SystemExit('the intruder was imported')")
    return place


@pytest.mark.parametrize("name", _own.OWN)
@pytest.mark.parametrize("form", ["package", "module"])
def test_an_intruder_is_named_before_it_is_imported(tmp_path: Path, name: str, form: str) -> None:
    """The error says what is in the way, where ours is, and what to do."""
    place = intrude(tmp_path, name, form)
    run = python("import runefold", tmp_path, HOME, cwd=tmp_path)

    assert run.returncode == 1
    message = run.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: runefold needs its own package `{name}`")
    assert f"finds {place} under that name" in message
    assert f"lies in {HOME}" in message
    assert "Rename" in message
    assert f"take {tmp_path} off sys.path" in message


def test_an_intruder_that_was_imported_first_is_named(tmp_path: Path) -> None:
    """It makes no difference whether the host got there before us."""
    place = intrude(tmp_path, "actors", "module")
    run = python("import actors, runefold", tmp_path, HOME, cwd=tmp_path)

    assert f"finds {place} under that name" in run.stderr


def test_an_intruder_made_by_hand_is_named(tmp_path: Path) -> None:
    """A module without file and spec is described as well as can be."""
    program = "import types; sys.modules['actors'] = types.ModuleType('actors'); import runefold"
    run = python(program, HOME, cwd=tmp_path)

    assert "ImportError: runefold needs its own package `actors`" in run.stderr
    assert "<module 'actors'>" in run.stderr


def test_a_bare_directory_is_not_in_the_way_on_the_path(tmp_path: Path) -> None:
    """Python prefers a package to a directory without `__init__`, so there is nothing to mend."""
    intrude(tmp_path, "actors", "directory")
    run = python("import runefold, actors; print(actors.__file__)", tmp_path, HOME, cwd=tmp_path)

    assert run.stdout.strip() == str(HOME / "actors" / "__init__.py")


def test_a_bare_directory_is_named_where_it_does_stand_in_the_way(tmp_path: Path) -> None:
    """With an editable installation that maps names, a directory on the path comes first."""
    place = intrude(tmp_path, "actors", "directory")
    run = python(f"{BY_FINDER}\nimport runefold", tmp_path, cwd=tmp_path)

    assert f"finds {place} under that name" in run.stderr


def test_an_installation_that_maps_names_is_ours(tmp_path: Path) -> None:
    """Packages found by a finder rather than on the path are accepted where they lie together."""
    run = python(f"{BY_FINDER}\nimport runefold; print('in')", cwd=tmp_path)

    assert (run.stdout, run.stderr) == ("in\n", "")


def test_packages_in_a_zip_file_are_ours(tmp_path: Path) -> None:
    """An application packed into one file brings its own."""
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for package in ("runefold", *_own.OWN):
            for file in (HOME / package).rglob("*.py"):
                packed.write(file, file.relative_to(HOME))
    run = python("import runefold; print(runefold.__file__)", archive, cwd=tmp_path)

    assert run.stdout.strip() == str(archive / "runefold" / "__init__.py"), run.stderr


def test_packages_linked_one_by_one_are_ours(tmp_path: Path) -> None:
    """An environment made of links is as good as one made of copies."""
    for package in ("runefold", *_own.OWN):
        (tmp_path / package).symlink_to(HOME / package)
    run = python("import runefold; print('in')", tmp_path, cwd=tmp_path)

    assert (run.stdout, run.stderr) == ("in\n", "")


def test_one_place_under_two_names_is_one_place(tmp_path: Path) -> None:
    """What was imported by one way to our directory is ours by another way, too."""
    link = tmp_path / "link"
    link.symlink_to(HOME)
    program = f"import runelog; sys.path.insert(0, {str(link)!r}); import runefold; print('in')"
    run = python(program, HOME, cwd=tmp_path)

    assert (run.stdout, run.stderr) == ("in\n", "")


def test_an_incomplete_installation_says_so(tmp_path: Path) -> None:
    """If one of ours is nowhere at all, the advice is to install again."""
    (tmp_path / "runefold").symlink_to(HOME / "runefold")
    (tmp_path / "runelog").symlink_to(HOME / "runelog")
    program = f"sys.path = [e for e in sys.path if e != {str(HOME)!r}]\nimport runefold"
    run = python(program, tmp_path, cwd=tmp_path)

    assert "package `actors` is missing" in run.stderr
    assert "install runefold again" in run.stderr
