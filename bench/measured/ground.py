"""What is measured on: a private PostgreSQL, and processes that end with this one (prctl(2), PR_SET_PDEATHSIG)."""

import contextlib
import ctypes
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIBC = ctypes.CDLL("libc.so.6", use_errno=True)
TICKS = os.sysconf("SC_CLK_TCK")


class Trouble(Exception):
    """Something did not start, or did not do what was asked."""


def as_program(main):
    """Runs `main`, and says in a line why it could not do what was asked."""
    try:
        main()
    except (Trouble, subprocess.SubprocessError) as trouble:
        sys.exit(f"bench: {trouble}")
    except KeyboardInterrupt:
        sys.exit("bench: interrupted; all that it had started is gone")


def end_by_signals():
    """From now on, SIGTERM and SIGHUP end this program by an exception, so that `finally` removes what it wrote."""

    def end(number, _):
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_IGN)  # another one would interrupt the removal
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup(1) sets it
            signal.signal(number, end)


def dies_with_parent(number):
    def before_exec():
        os.setpgid(0, 0)  # a Ctrl-C at the terminal is for this program alone
        LIBC.prctl(1, number)

    return before_exec


def wait_until(condition, seconds, what, pause=0.05):
    """The first true value of `condition`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Trouble(f"waited {seconds} s for {what}")
        time.sleep(pause)
    return value


def run(arguments, environment=None, seconds=900, stdin=None):
    """Runs a command to its end. Returns its output and the CPU time that it used, in seconds."""
    before = os.times()
    done = subprocess.run(
        arguments, env=environment, input=stdin, capture_output=True, text=True, timeout=seconds, check=False,
        preexec_fn=dies_with_parent(signal.SIGKILL),
    )
    if done.returncode != 0:
        raise Trouble(f"{' '.join(arguments[:3])}: exit {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return done.stdout, used


def cpu_of(process_id):
    """CPU seconds of a process so far, and of its children that have ended (proc(5), stat)."""
    with open(f"/proc/{process_id}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[1]), sum(map(int, fields[11:13])) / TICKS, sum(map(int, fields[13:15])) / TICKS


def status_of(process_id, name):
    """A value in kB of /proc/PID/status."""
    with open(f"/proc/{process_id}/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) for line in file if line.startswith(name + ":")), 0)


class Postgres:
    """A server in a folder of its own, set as that of `pushq demo` (LocalStack/PrivatePostgres/ServerSettings.swift). It
    asks for no password, and its superuser can run programs as its user, so only this user and root may enter the
    folder."""

    SETTINGS = {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": "256MB",
        "max_wal_size": "4GB",
        "min_wal_size": "512MB",
        "checkpoint_timeout": "15min",
        "work_mem": "64MB",
        "maintenance_work_mem": "128MB",
        "jit": "off",
        "random_page_cost": "1.1",
        "autovacuum_naptime": "10s",
        "max_connections": "200",
        "timezone": "UTC",
        "track_commit_timestamp": "on",
        "listen_addresses": "",
    }

    def __init__(self, folder):
        self.folder = folder
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self.binaries = self.find_binaries()
        os.mkdir(folder, mode=0o700)
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        account = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        initdb = [f"{self.binaries}/initdb", "-D", f"{folder}/data", "-U", "pushq", "--auth=trust", "--encoding=UTF8"]
        done = subprocess.run(
            [*initdb, "--locale=C", "--no-sync"], cwd=folder, capture_output=True, text=True, check=False, **account
        )
        if done.returncode != 0:
            raise Trouble(f"initdb: {done.stderr.strip()}")
        settings = [f"{name}={value}" for name, value in self.SETTINGS.items()] + [f"unix_socket_directories={folder}"]
        with open(f"{folder}/log", "a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [f"{self.binaries}/postgres", "-D", f"{folder}/data", *(x for s in settings for x in ("-c", s))],
                cwd=folder, stdout=log, stderr=log, preexec_fn=dies_with_parent(signal.SIGQUIT), **account,
            )
        ready = [f"{self.binaries}/pg_isready", "-q", "-h", folder]
        wait_until(lambda: subprocess.run(ready, check=False).returncode == 0, 60, "PostgreSQL to answer")
        # The benchmarks call functions as a superuser, who acts for all tenants only with a role.
        role = [f"{self.binaries}/psql", "-qXh", folder, "-U", "pushq", "-d", "postgres"]
        subprocess.run([*role, "-c", "alter role pushq set role = pushq"], check=True)

    @staticmethod
    def find_binaries():
        if "PUSHQ_POSTGRES" in os.environ:
            return os.environ["PUSHQ_POSTGRES"]
        found = [folder for folder in glob.glob("/usr/lib/postgresql/*/bin") if os.path.exists(f"{folder}/initdb")]
        if not found and shutil.which("initdb"):
            found = [os.path.dirname(shutil.which("initdb"))]
        if not found:
            raise Trouble("there is no PostgreSQL server here: scripts/setup installs one")
        return max(found, key=lambda folder: [int(part) for part in folder.split("/") if part.isdigit()])

    def address(self, database):
        return f"host={self.folder} port=5432 user=pushq dbname={database}"

    def children(self):
        for path in glob.glob("/proc/[0-9]*"):
            with contextlib.suppress(OSError):
                if cpu_of(os.path.basename(path))[0] == self.process.pid:
                    yield int(os.path.basename(path))

    def cpu(self):
        """CPU seconds of all its processes so far, also of those that have ended."""
        while True:
            _, own, ended = cpu_of(self.process.pid)
            running = 0
            for child in self.children():
                with contextlib.suppress(OSError):
                    running += cpu_of(child)[1]
            # One that ended meanwhile was counted with neither, or with both.
            if cpu_of(self.process.pid)[2] == ended:
                return own + ended + running

    def largest_session(self):
        """Megabytes that its largest session has for itself, without shared buffers."""
        return max((status_of(child, "RssAnon") for child in self.children()), default=0) / 1024

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(120)


@contextlib.contextmanager
def private_postgres():
    """A server, and a folder for all that a measurement writes, both of which are gone in the end."""
    end_by_signals()
    folder = tempfile.mkdtemp(prefix="pushq-bench-", dir="/tmp")
    if os.geteuid() == 0:
        os.chmod(folder, 0o711)  # so that the server's user can go through
    postgres = None
    try:
        postgres = Postgres(f"{folder}/postgres")
        yield postgres, folder
    finally:
        if postgres:
            postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


class Session:
    """One psql that stays connected, so that asking costs a statement and no connection."""

    END = "-- that was all --"

    def __init__(self, postgres, database):
        self.process = subprocess.Popen(
            [f"{postgres.binaries}/psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-d", postgres.address(database)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            preexec_fn=dies_with_parent(signal.SIGKILL),
        )

    def rows(self, sql):
        """The rows of the statements, each a list of texts."""
        self.process.stdin.write(f"{sql};\n\\echo '{self.END}'\n")
        self.process.stdin.flush()
        rows = []
        while (line := self.process.stdout.readline().rstrip("\n")) != self.END:
            if not line and self.process.poll() is not None:
                raise Trouble(f"psql: {self.process.stderr.read().strip()[-600:]}")
            rows.append(line.split("|"))
        return rows

    def value(self, sql):
        return self.rows(sql)[0][0]

    def close(self):
        self.process.stdin.close()
        self.process.wait(10)


class Child:
    """A process of pushq that runs until it is stopped."""

    def __init__(self, arguments, environment, log):
        self.log = log
        with open(log, "a", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=file, text=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )

    def first_json(self):
        line = self.process.stdout.readline()
        if not line:
            with open(self.log, encoding="utf-8") as file:
                raise Trouble(f"it did not start: {file.read()[-600:]}")
        return json.loads(line)

    def cpu(self):
        return cpu_of(self.process.pid)[1]

    def peak(self):
        """Megabytes."""
        return status_of(self.process.pid, "VmHWM") / 1024

    def stop(self):
        """Returns the last line that it printed."""
        self.process.send_signal(signal.SIGTERM)
        output = self.process.communicate(timeout=60)[0]
        return output.strip().splitlines()[-1] if output.strip() else ""
