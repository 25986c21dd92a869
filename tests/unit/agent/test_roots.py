"""Koordlet's root flags, and its flags about the container runtime."""

import logging
from pathlib import Path

import pytest

from koordpy import settings
from koordpy.agent.engine import container_runtime
from koordpy.agent.engine.agent import declared_flags
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.roots import NodeRoots
from koordpy.agent.engine.settings import AgentSettings
from koordpy.api.config_model import ConfigError


def roots(flags=None, **given):
    return NodeRoots.of(declared_flags(Installed.of(), flags), AgentSettings(**given))


def test_the_nodes_own_paths_are_the_defaults():
    expected = NodeRoots(
        cgroup=Path("/sys/fs/cgroup"),
        proc=Path("/proc"),
        sys=Path("/sys"),
        sys_fs=Path("/sys/fs"),
        kubelet=Path("/var/lib/kubelet"),
    )
    assert roots() == roots(mode="hostMode") == expected


def test_the_mode_of_a_daemon_set_has_koordlets_paths():
    found = roots(mode="dsMode")
    assert (found.cgroup, found.proc) == (Path("/host-cgroup"), Path("/proc"))
    assert (found.sys, found.sys_fs) == (Path("/host-sys"), Path("/host-sys-fs"))


def test_settings_go_before_the_mode_and_flags_before_settings():
    found = roots(mode="dsMode", sys_root="/mine", cgroup_root="/groups")
    assert (found.sys, found.sys_fs, found.cgroup) == (Path("/mine"), Path("/mine/fs"), Path("/groups"))
    flags = {
        "cgroup-root-dir": "/a",
        "proc-root-dir": "/b",
        "sys-root-dir": "/c",
        "sys-fs-root-dir": "/d",
        "var-lib-kubelet-dir": "/e",
    }
    assert roots(flags, mode="dsMode", sys_root="/mine") == NodeRoots(
        *map(Path, ("/a", "/b", "/c", "/d", "/e"))
    )


def test_resctrl_is_below_sysfs_unless_a_flag_says_otherwise():
    assert roots({"sys-root-dir": "/c"}, mode="dsMode").sys_fs == Path("/c/fs")


def test_the_environment_says_the_mode():
    assert settings.load(None, {}, {"agent_mode": "hostMode"}).agent.mode == "hostMode"
    assert settings.load(None, {}, {}).agent.mode is None
    with pytest.raises(ConfigError, match="mode"):
        settings.load(None, {}, {"agent_mode": "both"})


@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("containerd-endpoint", "/run/containerd.sock", "no container runtime is asked"),
        ("runtime-hooks-addr", "/run/koordlet.sock", "koord-runtime-proxy does not call this agent"),
        ("enable-nri-runtime-hook", "true", "not as an NRI plugin"),
        ("runtime-hooks-nri-socket-path", "nri/nri.sock", "not as an NRI plugin"),
        ("run-root-dir", "/host-run/", "nothing that the agent reads is there"),
    ],
)
def test_a_flag_about_the_container_runtime_is_answered_with_the_reason(flag, value, reason, caplog):
    with caplog.at_level(logging.WARNING):
        container_runtime.warn(declared_flags(Installed.of(), {flag: value}))
    [message] = caplog.messages
    assert message.startswith(f"flag --{flag} has no effect: ")
    assert reason in message


def test_switching_nri_off_is_what_happens_anyway(caplog):
    with caplog.at_level(logging.WARNING):
        container_runtime.warn(declared_flags(Installed.of(), {"enable-nri-runtime-hook": "false"}))
    assert caplog.messages == []
