import json
from datetime import UTC, datetime

import pytest

from koordpy.agent.cgroups.writer import Written
from koordpy.agent.interface import FlagSet
from koordpy.agent.interface.gates import GATES
from koordpy.agent.reporting.audit import files
from koordpy.agent.reporting.audit.log import AuditLog
from koordpy.lib.clock import FakeClock
from koordpy.lib.endpoint import Request
from koordpy.lib.feature_gates import FeatureGates


class Log:
    def __init__(self, folder, on=True, **flags):
        self.folder = folder
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        declared = FlagSet()
        AuditLog.init_flags(declared)
        declared.set("audit-log-dir", str(folder))
        for name, value in flags.items():
            declared.set(f"audit-{name.replace('_', '-')}", value)
        gates = FeatureGates(GATES, {"AuditEvents": on, "AuditEventsHTTPHandler": True})
        self.log = AuditLog(declared, gates, self.clock)

    def write(self, *numbers, level=3):
        for number in numbers:
            self.log.log(level, "R", f"m{number}")

    def get(self, size=None, token=None, accept="application/json"):
        query = {"size": [str(size)]} if size is not None else {}
        if token:
            query["pageToken"] = [token]
        answer = self.log.serve(Request(query=query, headers={"accept": accept}))
        if accept != "application/json" or answer.status != 200:
            return answer
        body = json.loads(answer.body)
        return [event["message"] for event in body["Events"]], body["NextPageToken"]


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path / "log")


def test_events_come_newest_first_in_pages(log):
    log.write(1, 2, 3)
    events, token = log.get(2)
    assert events == ["m3", "m2"]
    log.write(4)
    assert log.get(2, token) == (["m1"], "")
    assert log.get() == (["m4", "m3", "m2", "m1"], "")


def test_events_have_koordlets_fields_without_empty_ones(log):
    log.log.log(0, "Evicted", "too much", type="pod", namespace="n", name="p")
    (line,) = log.get(accept="").body.splitlines()
    assert json.loads(line) == {
        "createdAt": "2026-01-01T00:00:00Z",
        "type": "pod",
        "namespace": "n",
        "name": "p",
        "reason": "Evicted",
        "message": "too much",
    }


def test_an_event_of_a_write_says_what_it_is_about(log):
    log.log.about = lambda directory: {"type": "pod", "namespace": "d", "name": directory}
    log.log.written(Written("/c/p/f", "f", "p", "0", "1", "P", "R", "why"))
    (line,) = log.get(accept="").body.splitlines()
    event = json.loads(line)
    assert (event["type"], event["namespace"], event["name"]) == ("pod", "d", "p")
    assert event["message"] == "update /c/p/f to 1 by P: why"


def test_lines_come_with_the_token_in_a_header_until_the_end(log):
    log.write(1, 2)
    first = log.get(1, accept="text/plain")
    assert first.content_type == "text/plain; charset=utf-8"
    token = first.headers["Next-Page-Token"]
    assert log.get(2, token, accept="").headers == {}


def test_sizes_beyond_the_limit_and_unknown_tokens_are_errors(log):
    log.write(*range(300))
    assert (log.get(2049).status, log.get(2049).body) == (400, b"size(2049) exceeds the limit(2048)\n")
    assert log.get(-1).status == 400
    assert len(log.get("many")[0]) == 256
    answer = log.get(1, "x")
    assert (answer.status, answer.body) == (409, b"invalid pageToken x\n")


def test_reads_end_when_nobody_continues_them_and_when_there_are_too_many(log):
    log.write(1, 2)
    tokens = [log.get(1)[1] for _ in range(5)]
    assert log.get(1, tokens[0]).status == 409
    assert log.get(1, tokens[4]) == (["m1"], tokens[4])
    log.clock.advance(601)
    assert log.get(1, tokens[4]).status == 409


def test_levels_above_the_flag_are_dropped(tmp_path):
    log = Log(tmp_path, verbose=1)
    log.write(1, level=3)
    log.write(2, level=1)
    assert log.get()[0] == ["m2"]


def test_files_rotate_and_the_oldest_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FILE_BYTES", 200)
    log = Log(tmp_path, max_disk_space_mb=1)
    log.log._files = files.AuditFiles(tmp_path, 600)
    log.write(*range(10))
    _, token = log.get(1)
    log.write(*range(10, 60))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 3 * 300
    assert len(list(tmp_path.glob("audit-*.log"))) == 2
    assert log.get(1, token) in (([], ""), (["m8"], token))
    events, _ = log.get()
    assert events == [f"m{number}" for number in range(59, 59 - len(events), -1)]
    assert len(events) >= 4


def test_a_read_goes_on_in_a_file_that_was_renamed_meanwhile(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FILE_BYTES", 300)
    log = Log(tmp_path)
    log.log._files = files.AuditFiles(tmp_path, 3000)
    log.write(1, 2)
    _, token = log.get(1)
    log.write(3, 4, 5)
    assert log.get(5, token) == (["m1"], "")


def test_lines_across_chunks_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_CHUNK", 37)
    log = Log(tmp_path)
    log.write(*range(20))
    assert log.get()[0] == [f"m{number}" for number in range(19, -1, -1)]


def test_broken_lines_are_left_out(log):
    log.write(1)
    with (log.folder / "audit.log").open("a") as file:
        file.write("{broken\n")
    log.write(2)
    assert log.get()[0] == ["m2", "m1"]


def test_a_write_to_the_node_is_an_event(log):
    log.log.written(Written("/c/cpu.idle", "cpu.idle", "a", "0", "1", "P", "UpdateCgroups", "BE"))
    assert log.get()[0] == ["update /c/cpu.idle to 1 by P: BE"]


def test_nothing_is_written_without_the_gate(tmp_path):
    log = Log(tmp_path / "log", on=False)
    log.write(1)
    assert not log.folder.exists()
    assert log.get(accept="").body == b""


def test_a_folder_that_cannot_be_written_does_not_disturb(tmp_path):
    (tmp_path / "file").write_text("")
    log = Log(tmp_path / "file" / "log")
    log.write(1, 2)
    assert log.get()[0] == []
