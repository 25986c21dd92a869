"""Which paths another user may control. Without root, no file can be given to another user: then the trusted
user is another one.
"""

import grp
import os
import pwd
from pathlib import Path

import pytest

from koordpy.lib.trusted_path import problem

OTHER = 4711
IS_ROOT = os.geteuid() == 0


def give_away(path: Path) -> None:
    """Give a file, folder or link to another user."""
    if not IS_ROOT:
        pytest.skip("only root can give files away")
    os.chown(path, OTHER, OTHER, follow_symlinks=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "certs"
    made.mkdir(0o755)
    (made / "tls.crt").write_text("certificate")
    (made / "tls.crt").chmod(0o644)
    return made


def test_what_this_user_made_is_trusted_and_so_is_what_does_not_exist(folder: Path) -> None:
    assert problem(folder) == problem(folder / "tls.crt") == problem(folder / "no" / "file") == ""


def test_a_folder_of_another_user_is_named_with_owner_and_mode(folder: Path) -> None:
    give_away(folder)
    assert problem(folder) == (
        f"{folder} belongs to uid {OTHER}, mode 0755; expected owner root (uid 0) and no write access for "
        "others"
    )
    assert problem(folder / "tls.crt").startswith(f"{folder / 'tls.crt'}: {folder} belongs to uid {OTHER}")
    assert problem(folder, uid=OTHER) == ""


def test_files_and_links_of_another_user_are_not_trusted_even_in_a_folder_of_ours(folder: Path) -> None:
    (folder / "link").symlink_to("tls.crt")
    give_away(folder / "link")
    assert "belongs to" in problem(folder / "link")
    assert problem(folder / "tls.crt") == ""
    give_away(folder / "tls.crt")
    assert "belongs to" in problem(folder / "tls.crt")


def test_a_link_leads_to_what_is_checked(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tls.key").touch(0o644)
    (folder / "tls.key").symlink_to("../elsewhere/tls.key")
    assert problem(folder / "tls.key") == ""
    (elsewhere / "tls.key").chmod(0o666)
    assert f"{elsewhere / 'tls.key'} is writable by other users" in problem(folder / "tls.key")
    elsewhere.chmod(0o777)
    assert f"{elsewhere} is writable by other users" in problem(folder / "tls.key")


def test_links_in_a_circle_end_with_an_error(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many levels of symbolic links"):
        problem(folder / "a")


def test_a_folder_that_others_may_write_to_is_refused_unless_it_is_sticky(folder: Path) -> None:
    folder.chmod(0o777)
    assert f"{folder} is writable by other users (owner " in problem(folder)
    assert ", mode 0777); expected owner root (uid 0)" in problem(folder)
    folder.chmod(0o1777)
    assert problem(folder / "tls.crt") == ""


def test_in_a_sticky_folder_only_files_of_others_are_refused(folder: Path) -> None:
    """Every user can add files to a Secret volume's folder (root:fsGroup, 1777), and replace none."""
    folder.chmod(0o3777)
    (folder / "..data").symlink_to(".")
    assert problem(folder / "..data" / "tls.crt") == ""
    (folder / "ca-cert.pem").touch()
    give_away(folder / "ca-cert.pem")
    assert problem(folder / "ca-cert.pem") != ""


def test_a_volume_that_a_pod_may_write_to_is_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o777)
    monkeypatch.setattr(os.path, "ismount", lambda path: path == folder)
    assert problem(folder / "tls.crt") == ""
    (folder / "tls.crt").chmod(0o666)
    assert problem(folder / "tls.crt") != ""


def test_a_group_without_other_members_may_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o775)
    gid = folder.stat().st_gid
    monkeypatch.setattr(os, "getgroups", lambda: [gid])
    monkeypatch.setattr(pwd, "getpwall", list)
    members: list[str] = []
    group = grp.struct_group(("g", "x", gid, members))
    monkeypatch.setattr(grp, "getgrgid", lambda _: group)
    assert problem(folder) == ""
    members.append("mallory")
    assert problem(folder) != ""
    members.clear()
    monkeypatch.setattr(os, "getgroups", list)
    monkeypatch.setattr(os, "getegid", lambda: gid + 1)
    assert problem(folder) != ""
