import pytest

from jsem_pyg._journal import Journal, check_same_settings, read_journal, write_journal


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "journal.json"
    write_journal(path, 2, {"t": "5.0", "name": "ä"}, {"rows": 3})
    assert read_journal(path, 2, "begin anew") == Journal({"t": "5.0", "name": "ä"}, {"rows": 3})
    assert [each.name for each in tmp_path.iterdir()] == ["journal.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b'{"version": 2}', b"\xff\xfe", b'{"settings": 3}']
)
def test_a_damaged_journal_is_refused(tmp_path, content):
    path = tmp_path / "journal.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"journal of a run .*damaged.* To fix this, begin anew"):
        read_journal(path, 2, "begin anew")


def test_a_damaged_number_is_refused(tmp_path):
    path = tmp_path / "journal.json"
    write_journal(path, 2, {"t": 5.0}, {"rows": 3})
    for right, wrong in ((b'"rows": 3', b'"rows": 7'), (b"5.0", b"4.0"), (b"hash", b"hasi")):
        whole = path.read_bytes()
        path.write_bytes(whole.replace(right, wrong))
        with pytest.raises(ValueError, match=r"journal of a run .*damaged.* To fix this, begin"):
            read_journal(path, 2, "begin anew")
        path.write_bytes(whole)


def test_another_version_and_a_missing_file_are_refused(tmp_path):
    path = tmp_path / "journal.json"
    write_journal(path, 1, {}, {})
    with pytest.raises(ValueError, match="of another release"):
        read_journal(path, 2, "begin anew")
    with pytest.raises(FileNotFoundError):
        read_journal(tmp_path / "none.json", 2, "begin anew")


def test_differences_are_named():
    same = {"t": "5.0", "k": 3}
    check_same_settings("run", same, dict(reversed(same.items())), "begin anew")
    with pytest.raises(ValueError, match=r"'k' to be 3, as .*'run' was .*\(got 4\).*begin anew"):
        check_same_settings("run", same, same | {"k": 4}, "begin anew")
    with pytest.raises(ValueError, match=r"'new' to be left out, .*got 1"):
        check_same_settings("run", same, same | {"new": 1}, "begin anew")
    with pytest.raises(ValueError, match=r"'k' to be 3, .*got left out"):
        check_same_settings("run", same, {"t": "5.0"}, "begin anew")
    other = dict.fromkeys("abcde", 1)
    with pytest.raises(ValueError, match=r"'c' to be 1 and 2 more, "):
        check_same_settings("run", other, dict.fromkeys(other, 2), "begin anew")
