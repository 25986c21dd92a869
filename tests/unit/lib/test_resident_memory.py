import subprocess
import sys

from koordpy.lib.resident_memory import clean_mappings

SMAPS = b"""\
55d0c0000000-55d0c0004000 r-xp 00001000 fe:00 42    /usr/bin/tool
Rss:                  16 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000002000 r--p 00000000 fe:00 43    /usr/lib/lib.so
Anonymous:             0 kB
7f0000002000-7f0000003000 r--p 00002000 fe:00 43    /usr/lib/lib.so
Anonymous:             4 kB
7f0000003000-7f0000004000 rw-p 00003000 fe:00 43    /usr/lib/lib.so
Anonymous:             0 kB
7f0000004000-7f0000005000 rw-s 00000000 fe:00 44    /metric-data/points
Anonymous:             0 kB
7f0000005000-7f0000006000 r--p 00000000 00:00 0
Anonymous:             0 kB
7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0     [vdso]
Anonymous:             0 kB
7f0000006000-7f0000007000 r--s 00000000 fe:00 45    /usr/share/shared
Anonymous:             0 kB
"""


def test_only_unchanged_read_only_private_mappings_of_files_are_given_back():
    assert list(clean_mappings(SMAPS.splitlines())) == [
        (0x55D0C0000000, 0x55D0C0004000),
        (0x7F0000000000, 0x7F0000002000),
    ]


def test_a_process_works_on_with_less_memory():
    program = (
        "import asyncio, json, re, ssl\n"
        "from koordpy.lib.resident_memory import return_clean_pages\n"
        "def files():\n"
        "    text = open('/proc/self/status').read()\n"
        "    return int(re.search(r'RssFile:\\s+(\\d+)', text)[1])\n"
        "before = files()\n"
        "return_clean_pages()\n"
        "after = files()\n"
        "ssl.create_default_context()\n"
        "asyncio.run(asyncio.sleep(0))\n"
        "print(json.dumps([before, after]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    before, after = (int(number) for number in done.stdout.strip("[]\n").split(","))
    assert after < before
