"""The binding of NVIDIA's library, with a small library of the same interface that a C compiler makes."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from koordpy_plugins.collectors.gpu.library import (
    GPUError,
    Identity,
    NoGPULibrary,
    ProcessUsage,
    UnsupportedByGPU,
    XidEvent,
)
from koordpy_plugins.collectors.gpu.nvml import NVML

ADDRESS = "0000:3b:00.0"
UUID = "GPU-8e3a6d58-0e4a-4ee4-b1f5-6f2f3c7d9a10"
SOURCE = Path(__file__).with_name("nvml.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")

needs_a_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def compiled(folder: Path, *options: str) -> str:
    library = folder / "libnvidia-ml.so.1"
    command = [
        str(COMPILER),
        "-shared",
        "-fPIC",
        "-Wall",
        "-Werror",
        *options,
        "-o",
        str(library),
        str(SOURCE),
    ]
    subprocess.run(command, check=True)
    return str(library)


@pytest.fixture
def path(tmp_path):
    return compiled(tmp_path)


@pytest.fixture
def library(path):
    library = NVML(path)
    library.open()
    yield library
    library.close()
    assert ctypes.CDLL(path).is_open() == 0


@needs_a_compiler
def test_a_device(library):
    assert library.identity(ADDRESS) == Identity(5, 3, UUID, "NVIDIA H100", 80 << 30)
    assert library.driver_version() == "550.54.15"


@needs_a_compiler
def test_processes_with_their_newest_sample_unless_their_memory_is_unknown(library):
    assert library.processes(ADDRESS) == {100: ProcessUsage(42, 1 << 32), 101: ProcessUsage(7, 2 << 32)}


@needs_a_compiler
def test_a_device_without_processes(library, path):
    ctypes.CDLL(path).set_processes(0)
    assert library.processes(ADDRESS) == {}


@needs_a_compiler
def test_a_critical_error(library):
    library.subscribe(ADDRESS)
    assert library.wait(5000) == XidEvent(79, ADDRESS, UUID)
    assert library.wait(5000) is None


@needs_a_compiler
def test_errors_name_the_call(library):
    with pytest.raises(GPUError, match="nvmlDeviceGetHandleByPciBusId_v2: Failed"):
        library.identity("0000:00:00.0")


@needs_a_compiler
def test_an_older_driver(tmp_path):
    library = NVML(compiled(tmp_path, "-DOLD"))
    library.open()
    assert library.processes(ADDRESS) == {100: ProcessUsage(42, 1 << 32), 101: ProcessUsage(7, 2 << 32)}
    with pytest.raises(UnsupportedByGPU, match="nvmlDeviceRegisterEvents: Not Supported"):
        library.subscribe(ADDRESS)


def test_without_the_library(tmp_path):
    with pytest.raises(NoGPULibrary, match=r"NVIDIA's library .*missing\.so cannot be loaded"):
        NVML(str(tmp_path / "missing.so"))
