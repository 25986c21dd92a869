import shutil

import pytest

from koordpy.agent.cgroups.descriptors import OpenFiles


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "group"
    folder.mkdir()
    (folder / "value").write_text("1\n")
    return folder


def test_a_file_is_opened_once_and_its_latest_content_is_read(folder):
    files = OpenFiles()
    assert files.read(str(folder), "value") == b"1\n"
    (folder / "value").write_text("2\n")
    assert files.read(str(folder), "value") == b"2\n"
    assert len(files) == 1


def test_a_file_that_was_replaced_is_opened_again(folder):
    files = OpenFiles()
    files.read(str(folder), "value")
    shutil.rmtree(folder)
    with pytest.raises(FileNotFoundError):
        files.read(str(folder), "value")
    assert len(files) == 0
    folder.mkdir()
    (folder / "value").write_text("3\n")
    assert files.read(str(folder), "value") == b"3\n"


def test_files_of_directories_that_are_gone_are_closed(folder):
    files = OpenFiles()
    files.read(str(folder), "value")
    shutil.rmtree(folder)
    assert files.collect() == 0


def test_no_more_files_are_kept_open_than_allowed(folder):
    files = OpenFiles(most=1)
    (folder / "other").write_text("4\n")
    assert files.read(str(folder), "value") == b"1\n"
    assert files.read(str(folder), "other") == b"4\n"
    assert files.read(str(folder), "other") == b"4\n"
    assert len(files) == 1


def test_long_files_are_read_in_full(folder):
    text = b"".join(b"%d\n" % number for number in range(10_000))
    (folder / "tasks").write_bytes(text)
    files = OpenFiles()
    assert files.read(str(folder), "tasks") == text
    assert files.read(str(folder), "tasks") == text
