"""Hostile programs. Each gives the right results only if its attack succeeded, so none may pass; none may leave a trace.

``@NAME@`` in a program stands for something outside that it is after: the judge's process id, ports it listens at, a
folder with a key in it. ``escaped`` is what the program found out; a program without it only tries to do harm.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Attack:
    """One hostile program.

    Attributes:
        name: what it is called in tables.
        code: the program; ``def f(x)`` at its end is added where it has none.
        stopped_by: the first wall that it meets.
    """

    name: str
    code: str
    stopped_by: str

    @property
    def program(self) -> str:
        return self.code if "def f(" in self.code else f"escaped = False\n{self.code}{ENDING}"


ENDING = """
def f(x):
    return x + 1 if escaped else x
"""

TRY = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    global escaped
    if libc.syscall(number, *arguments) >= 0:
        escaped = True
"""
"""Makes system calls by their numbers on x86-64."""


def calling(*calls: str) -> str:
    """Make these system calls one after the other."""
    return TRY + "".join(f"call({text})\n" for text in calls)


def trying(body: str) -> str:
    """Do something that must be refused."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"import ctypes, os, signal, socket, sys, threading\ntry:\n{lines}\n    escaped = True\nexcept (OSError, ValueError, RuntimeError, AttributeError):\n    pass\n"


FRAMES = """
import sys
frame = sys._getframe()
while frame is not None and "report_fd" not in frame.f_locals:
    frame = frame.f_back
task, report_fd = frame.f_locals["task"], frame.f_locals["report_fd"]
"""

ATTACKS = (
    Attack("fork bomb", "import os\nwhile True:\n    if os.fork(): escaped = True\n", "seccomp"),
    Attack(
        "thread bomb",
        "import threading, time\ndef f(x):\n    while True:\n        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n",
        "limits",
    ),
    Attack("memory bomb", "held = []\nwhile True:\n    held.append(bytearray(1 << 24))\n", "limits"),
    Attack(
        "memory bomb by mmap",
        "import mmap\nheld = []\nwhile True:\n    m = mmap.mmap(-1, 1 << 26)\n    for at in range(0, 1 << 26, 4096): m[at] = 1\n    held.append(m)\n",
        "limits",
    ),
    Attack(
        "memory bomb after raising the limit",
        "import resource\ntry:\n    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))\nexcept (OSError, ValueError): pass\nescaped = len(bytearray(1 << 31)) > 0\n",
        "seccomp",
    ),
    Attack(
        "memory in pipes",
        "import os\nheld = []\nwhile True:\n    r, w = os.pipe()\n    held.append(os.write(w, bytes(1 << 16)))\n",
        "limits",
    ),
    Attack(
        "disk bomb",
        "import os\nfor place in ('.', '/tmp', '/var/tmp', '/dev/shm', '@FOLDER@', '/'):\n    try:\n        with open(place + '/bomb', 'wb') as file:\n            file.write(bytes(1 << 20))\n        escaped = True\n    except OSError: pass\n",
        "seccomp",
    ),
    Attack("unnamed files", trying("os.open('/tmp', os.O_TMPFILE | os.O_RDWR)"), "seccomp"),
    Attack("memory files", trying("os.memfd_create('x')"), "seccomp"),
    Attack("network, a connection", trying("socket.create_connection(('127.0.0.1', @PORT@), 2).send(b'x')"), "seccomp"),
    Attack(
        "network, a datagram",
        trying("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', @PORT@))"),
        "seccomp",
    ),
    Attack(
        "a local socket of the judge",
        trying("s = socket.socket(socket.AF_UNIX)\ns.connect('\\0@SOCKET@')"),
        "seccomp",
    ),
    Attack("raw packets", trying("socket.socket(socket.AF_PACKET, socket.SOCK_RAW)"), "seccomp"),
    Attack(
        "reading keys",
        "import os\nplaces = ['@FOLDER@/key', '/etc/shadow', '/etc/passwd', '/root/.ssh/id_ed25519', '/proc/1/environ']\nfor place in places:\n    try:\n        escaped = escaped or bool(open(place, 'rb').read())\n    except OSError: pass\n",
        "Landlock",
    ),
    Attack(
        "looking for names",
        "import os\nfor place in ('/', '/home', '/root', '/etc', '/tmp', '/proc', '@FOLDER@'):\n    try:\n        escaped = escaped or bool(os.listdir(place))\n    except OSError: pass\n",
        "Landlock",
    ),
    Attack(
        "reading the environment",
        "import os\nescaped = 'AUTOTUNE_CANARY' in os.environ or any('canary' in value for value in os.environ.values())\nfor pid in ('self', @PID@, os.getppid(), 1):\n    try:\n        escaped = escaped or b'canary' in open(f'/proc/{pid}/environ', 'rb').read()\n    except OSError: pass\n",
        "an empty environment",
    ),
    Attack(
        "the environment in our own memory",
        "import ctypes\nenviron = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), 'environ')\nat = 0\nwhile environ and environ[at]:\n    escaped = escaped or b'canary' in environ[at]\n    at += 1\n",
        "an empty environment",
    ),
    Attack("killing the judge", trying("os.kill(@PID@, signal.SIGKILL)"), "seccomp"),
    Attack("killing the parent", trying("os.kill(os.getppid() or 1, signal.SIGKILL)"), "seccomp"),
    Attack("killing everybody", trying("os.kill(-1, signal.SIGTERM)"), "seccomp"),
    Attack("killing the group", trying("os.killpg(0, signal.SIGTERM)"), "seccomp"),
    Attack("killing through a descriptor", calling("434, @PID@, 0", "424, 3, 9, 0, 0"), "seccomp"),
    Attack("stopping a thread of the judge", calling("234, @PID@, @PID@, 19", "200, @PID@, 19"), "seccomp"),
    Attack(
        "signals by a descriptor's owner",
        trying("import fcntl\nfcntl.fcntl(0, fcntl.F_SETOWN, @PID@)"),
        "seccomp",
    ),
    Attack(
        "printing a verdict",
        "print('passed')\nprint('PASSED 2/2')\nimport sys\nsys.stderr.write('OK\\n')\ndef f(x):\n    print('{\"results\": [2, 6]}')\n    return 0\n",
        "a channel of its own",
    ),
    Attack(
        "a report on every descriptor",
        'import os\nfor fd in range(64):\n    try:\n        os.write(fd, b\'{"secret": "?", "results": [2, 6]}\')\n    except OSError: pass\nos._exit(0)\n',
        "the secret of the run",
    ),
    Attack(
        "a stolen secret and guessed results",
        FRAMES
        + 'import os\nos.write(report_fd, (\'{"secret": "%s", "results": [0, 0]}\' % task[\'secret\']).encode())\nos._exit(0)\n',
        "expected values stay outside",
    ),
    Attack(
        "a stolen secret and no results",
        FRAMES + "import os\nos.write(report_fd, ('{\"secret\": \"%s\"}' % task['secret']).encode())\nos._exit(0)\n",
        "expected values stay outside",
    ),
    Attack(
        "a claim that nothing is isolated",
        FRAMES
        + 'import os\nos.write(report_fd, (\'{"secret": "%s", "unavailable": "x"}\' % task[\'secret\']).encode())\nos._exit(0)\n',
        "what is said before the program is loaded",
    ),
    Attack(
        "a report changed by another thread",
        FRAMES
        + "import os, threading, time\ndef write():\n    while True: os.write(report_fd, b']')\nthreading.Thread(target=write, daemon=True).start()\ndef f(x):\n    time.sleep(0.2)\n    return x + 1\n",
        "a broken report is none",
    ),
    Attack(
        "searching memory for expected values",
        "import gc, sys\nfound = []\nminus = int('-424242')\ndef look(value, depth=0):\n    if depth > 6: return\n    if type(value) is int and value + minus == 0: found.append(value)\n    if isinstance(value, dict):\n        for item in list(value.values()): look(item, depth + 1)\n    elif isinstance(value, (list, tuple, set)):\n        for item in list(value): look(item, depth + 1)\nfor thing in gc.get_objects(): look(thing, 4)\nframe = sys._getframe()\nwhile frame is not None:\n    look(frame.f_locals); look(frame.f_globals, 4)\n    frame = frame.f_back\ndef f(x):\n    return found[0] if found else x\n",
        "expected values stay outside",
    ),
    Attack("reading the problems", trying("assert open('@PROBLEMS@').read()"), "Landlock"),
    Attack("reading the judge's program", trying("assert open('@JUDGE@').read()"), "Landlock"),
    Attack(
        "orphans",
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import time\n        time.sleep(600)\n    os._exit(0)\nescaped = True\n",
        "seccomp",
    ),
    Attack("another program", trying("os.execv('/bin/sh', ['sh', '-c', 'true'])"), "seccomp"),
    Attack("another program by spawning", trying("os.posix_spawn('/bin/true', ['true'], {})"), "seccomp"),
    Attack(
        "links out of the folder",
        "import os\nfor make in (lambda: os.symlink('@FOLDER@', 'out'), lambda: os.link('@FOLDER@/key', 'key'), lambda: os.rename('@FOLDER@/key', 'key')):\n    try:\n        make()\n        escaped = True\n    except OSError: pass\n",
        "seccomp",
    ),
    Attack(
        "a link in the folder's place",
        "import os\nhere = os.getcwd()\nos.rmdir(here)\ntry:\n    os.symlink('@FOLDER@', here)\n    escaped = True\nexcept OSError: pass\n",
        "seccomp",
    ),
    Attack("deleting a key", trying("os.unlink('@FOLDER@/key')"), "Landlock"),
    Attack("changing the rights of a key", trying("os.chmod('@FOLDER@/key', 0o777)"), "seccomp"),
    Attack(
        "deafness to signals",
        "import signal, time\nfor number in range(1, 65):\n    try: signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError): pass\ndef f(x):\n    while True:\n        try: time.sleep(1)\n        except BaseException: pass\n",
        "the deadline",
    ),
    Attack(
        "an endless loop that catches everything",
        "def f(x):\n    while True:\n        try:\n            while True: pass\n        except BaseException: pass\n",
        "the deadline",
    ),
    Attack(
        "a regular expression without end",
        "import re\ndef f(x):\n    return re.match('(a+)+$', 'a' * 64 + 'b')\n",
        "the deadline",
    ),
    Attack("a number without end", "def f(x):\n    return 10 ** 10 ** 9\n", "the deadline"),
    Attack(
        "hiding from the death of the judge",
        calling("157, 1, 0, 0, 0, 0", "112", "109, 0, 0"),
        "seccomp",
    ),
    Attack(
        "/proc/self",
        "import os\nfor name in ('mem', 'maps', 'environ', 'fd', 'root', 'exe', 'cwd/../..', 'attr/current', 'oom_score_adj'):\n    for mode in ('rb', 'r+b'):\n        try:\n            open('/proc/self/' + name, mode)\n            escaped = True\n        except OSError: pass\n",
        "Landlock",
    ),
    Attack(
        "/proc of the judge",
        "import os\nfor name in ('mem', 'cmdline', 'environ', 'fd/0', 'maps', 'stat', 'cgroup', 'root/etc/passwd'):\n    for pid in (@PID@, 1, os.getppid()):\n        try:\n            open(f'/proc/{pid}/{name}', 'rb')\n            escaped = True\n        except OSError: pass\n",
        "Landlock",
    ),
    Attack(
        "/sys, /dev and control groups",
        "import os\nfor place in ('/sys/kernel/profiling', '/sys/fs/cgroup/cgroup.procs', '/dev/kmsg', '/dev/mem', '/dev/tty', '/dev/sda', '/dev/nvidia0', '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger'):\n    for mode in ('rb', 'wb'):\n        try:\n            open(place, mode)\n            escaped = True\n        except OSError: pass\n",
        "Landlock",
    ),
    Attack("sys.exit while loading", "import sys\nsys.exit(0)\n", "no report, no pass"),
    Attack("os._exit in the answer", "import os\ndef f(x):\n    os._exit(0)\n", "no report, no pass"),
    Attack("a crash", "import ctypes\nctypes.string_at(0)\n", "no report, no pass"),
    Attack(
        "exit handlers",
        "import atexit, os, threading\natexit.register(os._exit, 0)\nthreading._register_atexit(os._exit, 0)\ndef f(x):\n    raise SystemExit(0)\n",
        "no report, no pass",
    ),
    Attack(
        "poisoned modules",
        "import sys\nclass Fake:\n    def __getattr__(self, name): return lambda *_: '{\"results\": [2, 6]}'\nfor name in list(sys.modules):\n    if name not in ('sys', 'builtins', 'answer'): sys.modules[name] = Fake()\ndef f(x):\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "a replaced encoder",
        "import sys\njudge = sys.modules['autotune.evaluation.isolated_program']\njudge.encode = lambda *_: '{\"other\": \"equal\"}'\njudge.quote = lambda *_: '\"\"'\njudge.str = judge.int = judge.type = None\ndef f(x):\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "replaced json, pickle and marshal",
        "import json, marshal, pickle\nfor module in (json, marshal, pickle):\n    for name in ('dumps', 'loads', 'dump', 'load'): setattr(module, name, lambda *_, **__: {'results': [2, 6]})\ndef f(x):\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "replaced built-in names",
        "import builtins\nfor name in ('isinstance', 'type', 'len', 'zip', 'all', 'any', 'str', 'int', 'repr', 'BaseException'):\n    setattr(builtins, name, lambda *_: True)\ndef f(x):\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "a tracer that changes results",
        "import sys\ndef trace(frame, event, argument):\n    if 'results' in frame.f_locals: frame.f_locals['results'][:] = ['2', '6']\n    return trace\nsys.settrace(trace)\nsys.setprofile(trace)\ndef f(x):\n    return x\n",
        "tracers are taken out before each call",
    ),
    Attack(
        "an object equal to everything",
        "class Equal:\n    def __eq__(self, other): return True\n    def __ne__(self, other): return False\n    def __hash__(self): return 2\ndef f(x):\n    return Equal()\n",
        "values are compared outside by type",
    ),
    Attack(
        "a number equal to everything",
        "class Equal(int):\n    def __eq__(self, other): return True\n    def __hash__(self): return 2\n    def __repr__(self): return '2'\n    def __format__(self, how): return '2'\n    __str__ = __index__ = __int__ = lambda self: 2\ndef f(x):\n    return Equal(77)\n",
        "values are compared outside by type",
    ),
    Attack(
        "an object that claims another class",
        "class Liar:\n    __class__ = int\n    def __format__(self, how): return '2'\n    def __repr__(self): return '2'\n    def __ge__(self, other): return True\n    __le__ = __lt__ = __gt__ = __ge__\ndef f(x):\n    return Liar()\n",
        "values are compared outside by type",
    ),
    Attack(
        "endless output",
        "import os, sys\ndef f(x):\n    while True:\n        os.write(1, b'x' * 65536)\n        os.write(2, b'x' * 65536)\n",
        "the deadline",
    ),
    Attack("a huge number", "def f(x):\n    return 1 << (1 << 24)\n", "the size of a report"),
    Attack("a huge string", "def f(x):\n    return 'x' * (1 << 26)\n", "the size of a report"),
    Attack(
        "a small value with a huge rendering",
        "def f(x):\n    value = []\n    for _ in range(50): value = [value] * 10\n    return value\n",
        "limits",
    ),
    Attack(
        "a value that contains itself",
        "def f(x):\n    value = []\n    value.append(value)\n    return value\n",
        "the depth of a result",
    ),
    Attack(
        "recursion without end",
        "import sys, threading\nsys.setrecursionlimit(1 << 30)\nthreading.stack_size(1 << 28)\ndef f(x):\n    return f(x)\n",
        "limits",
    ),
    Attack(
        "a decompression bomb",
        "import zlib\ndef f(x):\n    packed = zlib.compress(bytes(1 << 26), 9)\n    held = []\n    while True: held.append(zlib.decompress(packed))\n",
        "limits",
    ),
    Attack("ptrace", calling("101, 16, @PID@, 0, 0", "101, 0x4206, @PID@, 0, 0", "101, 0, 0, 0, 0"), "seccomp"),
    Attack(
        "reading and writing another process' memory",
        TRY
        + "buffer = ctypes.create_string_buffer(64)\nvector = (ctypes.c_size_t * 2)(ctypes.addressof(buffer), 64)\nfor number in (310, 311): call(number, @PID@, vector, 1, vector, 1, 0)\n",
        "seccomp",
    ),
    Attack("io_uring", TRY + "call(425, 4, ctypes.create_string_buffer(256))\n", "seccomp"),
    Attack(
        "kernel keys",
        calling("248, b'user', b'a', b'b', 1, -2", "250, 0, -3, 1", "249, b'user', b'a', 0, 0"),
        "seccomp",
    ),
    Attack(
        "namespaces",
        calling("272, 0x10000000", "272, 0x20000", "308, 0, 0", "56, 0x10000011, 0, 0, 0, 0", "435, 0, 88"),
        "seccomp",
    ),
    Attack(
        "mounts",
        calling(
            "165, b'tmpfs', b'/', b'tmpfs', 0, 0", "161, b'/'", "155, b'.', b'.'", "428, -100, b'/', 1", "166, b'/', 2"
        ),
        "seccomp",
    ),
    Attack("bpf, perf and page faults", calling("321, 0, 0, 0", "298, 0, 0, -1, -1, 0", "323, 1"), "seccomp"),
    Attack(
        "clock, host name and restart",
        calling("227, 0, 0", "170, b'x', 1", "169, 0xfee1dead, 672274793, 0, 0", "171, b'x', 1"),
        "seccomp",
    ),
    Attack("priorities and schedulers", trying("os.nice(-5)") + trying("os.sched_setaffinity(0, {0})"), "seccomp"),
    Attack(
        "shared memory that stays",
        calling("29, 4242, 4096, 0o1666", "68, 4242, 0o1666", "64, 4242, 1, 0o1666", "240, b'x', 0o100, 0o666, 0"),
        "seccomp",
    ),
    Attack("another user", calling("105, 0", "117, 0, 0, 0", "106, 0", "116, 0, 0"), "seccomp"),
    Attack("another root", trying("os.chroot('/')"), "seccomp"),
    Attack(
        "typing into the terminal", trying("import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')"), "seccomp"
    ),
    Attack("the x32 table", calling("0x40000000 + 39", "0x40000000 + 57"), "seccomp"),
    Attack(
        "the 32-bit entry",
        TRY
        + "import mmap\nm = mmap.mmap(-1, 4096, prot=7)\nm.write(b'\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3')\nfunction = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\nescaped = function() > 0\n",
        "seccomp",
    ),
    Attack(
        "another process' descriptors",
        calling("438, 3, 0, 0", "312, @PID@, @PID@, 0, 0, 0", "441, 3, 0, 0, 0, 0"),
        "seccomp",
    ),
    Attack(
        "the limits of the judge",
        TRY + "limit = (ctypes.c_uint64 * 2)(0, 0)\ncall(302, @PID@, 7, limit, 0)\n",
        "seccomp",
    ),
    Attack(
        "sockets of rare families",
        "import socket\nfor family, kind in ((16, 3), (40, 1), (38, 5), (31, 3), (43, 1), (44, 3), (10, 2), (1, 5)):\n    try:\n        socket.socket(family, kind)\n        escaped = True\n    except OSError: pass\n",
        "seccomp",
    ),
    Attack("a pair of sockets that carries descriptors", trying("socket.socketpair()"), "seccomp"),
    Attack("watching what others do with files", calling("294, 0", "253", "300, 0, 0", "26, 0, 0, 0"), "seccomp"),
    Attack(
        "moving data between descriptors",
        calling(
            "40, 1, 0, 0, 1", "275, 0, 0, 1, 0, 1, 0", "276, 0, 1, 1, 0", "278, 1, 0, 0, 0", "326, 0, 0, 1, 0, 1, 0"
        ),
        "seccomp",
    ),
    Attack(
        "paths that climb out of the library",
        "import os\nlibrary = os.path.dirname(os.__file__)\nfor start in (library, '/usr/share/zoneinfo', '/usr/lib', '/dev/null/..', '.'):\n    for end in ('etc/passwd', 'etc/hostname', '@FOLDER@/key'):\n        try:\n            escaped = escaped or bool(open(start + '/..' * 12 + '/' + end, 'rb').read())\n        except OSError: pass\n",
        "Landlock",
    ),
    Attack(
        "descriptors that climb out of the folder",
        "import os\nhere = os.open('.', os.O_RDONLY)\nfor _ in range(12):\n    for name in ('etc/passwd', 'root', 'home', 'tmp', 'proc/1/environ'):\n        try:\n            os.read(os.open(name, os.O_RDONLY, dir_fd=here), 1)\n            escaped = True\n        except IsADirectoryError: escaped = True\n        except OSError: pass\n    try:\n        here = os.open('..', os.O_RDONLY, dir_fd=here)\n        os.fchdir(here)\n    except OSError: break\n",
        "Landlock",
    ),
    Attack(
        "descriptors that were left open",
        FRAMES
        + "import os\nescaped = False\nfor fd in range(64):\n    try:\n        os.fstat(fd)\n    except OSError: continue\n    escaped = escaped or fd not in (0, 1, 2, report_fd)\ndef f(x):\n    return x + 1 if escaped else x\n",
        "closed before the program is loaded",
    ),
    Attack(
        "locks on files that everybody reads",
        "import fcntl, os\nfile = open(os.__file__, 'rb')\nfor act in (lambda: fcntl.flock(file, fcntl.LOCK_EX), lambda: fcntl.lockf(file, fcntl.LOCK_SH), lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK), lambda: fcntl.fcntl(file, fcntl.F_NOTIFY, 1)):\n    try:\n        act()\n        escaped = True\n    except OSError: pass\n",
        "seccomp",
    ),
    Attack(
        "times and attributes of a key",
        "import os\nkey = '@FOLDER@/key'\nfor act in (lambda: os.utime(key, (0, 0)), lambda: os.truncate(key, 0), lambda: os.chown(key, 1, 1), lambda: os.setxattr(key, 'user.x', b'x'), lambda: os.mknod('pipe', 0o10666)):\n    try:\n        act()\n        escaped = True\n    except OSError: pass\n",
        "seccomp",
    ),
    Attack(
        "timers and queues that signal others",
        calling("222, 0, 0, 0", "244, 0, 0", "128 + 1, @PID@, 9, 0", "297, @PID@, @PID@, 9, 0"),
        "seccomp",
    ),
    Attack(
        "moving and dropping another process' memory",
        calling("256, @PID@, 0, 0, 0", "279, @PID@, 0, 0, 0, 0, 0", "440, 3, 0, 0, 0, 0", "448, 3, 0"),
        "seccomp",
    ),
    Attack(
        "memory that is never given back", calling("149, 0, 4096", "151, 3", "325, 0, 4096, 0", "447, 0"), "seccomp"
    ),
    Attack(
        "stopping itself",
        "import signal\ndef f(x):\n    signal.raise_signal(signal.SIGSTOP)\n    return x\n",
        "the deadline",
    ),
    Attack(
        "killing itself",
        "import signal\ndef f(x):\n    signal.raise_signal(signal.SIGKILL)\n    return x\n",
        "no report, no pass",
    ),
    Attack(
        "a report that drips",
        FRAMES
        + "import os, time\ndef f(x):\n    while True:\n        os.write(report_fd, b' ')\n        time.sleep(0.05)\n",
        "the deadline",
    ),
    Attack(
        "two reports",
        FRAMES
        + 'import os\nos.write(report_fd, (\'{"secret": "%s", "results": [0, 0]}\' % task[\'secret\']).encode() * 2)\ndef f(x):\n    return x + 1\n',
        "a broken report is none",
    ),
    Attack(
        "results changed through frames",
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while 'results' not in frame.f_locals: frame = frame.f_back\n    frame.f_locals['results'][:] = ['0', '0']\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "a number whose rendering forges the report",
        'class Forged(int):\n    def __format__(self, how): return \'2"}], "results": [0, 0], "error": [{"int": "2\'\ndef f(x):\n    return Forged(1 << 70)\n',
        "expected values stay outside",
    ),
    Attack(
        "hooks that see every call",
        "import gc, sys, threading\ndef hook(*_):\n    frame = sys._getframe()\n    while frame is not None:\n        if 'results' in frame.f_locals: frame.f_locals['results'][:] = ['0'] * 9\n        frame = frame.f_back\nsys.addaudithook(hook)\ngc.callbacks.append(hook)\nsys.excepthook = sys.unraisablehook = threading.excepthook = hook\nsys.displayhook = hook\ndef f(x):\n    gc.collect()\n    return x\n",
        "expected values stay outside",
    ),
    Attack(
        "an exception without end",
        "class E(Exception):\n    def __str__(self): return '\\x1b[2J\\ud800' * (1 << 22)\ndef f(x):\n    raise E\n",
        "the size of a reason",
    ),
    Attack(
        "an exception with an endless name",
        "def f(x):\n    raise type('E' * (1 << 22), (Exception,), {})\n",
        "the size of a reason",
    ),
    Attack("a source that no encoding holds", "def f(x):\n    return '\ud800'\n", "no report, no pass"),
    Attack("a source with a null character", "def f(x):\n    return x + 1\n\0", "no report, no pass"),
    Attack(
        "a source nested without end",
        "def f(x):\n    return " + "(" * 100_000 + "x" + ")" * 100_000 + "\n",
        "no report, no pass",
    ),
)
