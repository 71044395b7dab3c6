"""The real parts of an episode: a private PostgreSQL, certificates and keys, the recording APNs, and `pushq` in
processes of its own.

Everything lies in one temporary folder and ends with this process, whatever ends that (prctl(2), PR_SET_PDEATHSIG)."""

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

import psycopg2

from .apns import read_record

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INTERFACES = ["http2", "binary"]
BINARY_GRACE = 1  # seconds of silence, after which a push over the binary interface counts as delivered
LIBC = ctypes.CDLL("libc.so.6", use_errno=True)


class StackError(Exception):
    """Something of the stack did not start or did not do what was asked, which is no judgement of pushq."""


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
        os.setpgid(0, 0)  # a Ctrl-C at the terminal is for the oracle alone
        LIBC.prctl(1, number)

    return before_exec


def wait_until(condition, seconds, what):
    """The first true value of `condition`, asked over and over; StackError when it takes too long."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise StackError(f"waited {seconds} s for {what}")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)


class Postgres:
    """A server in a folder of its own, reached over a socket in that folder. It asks for no password, and its superuser
    can run programs as its user, so only this user and root may enter the folder."""

    def __init__(self, folder):
        self.folder = folder
        self.process = None
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
        self.binaries = self.find_binaries()
        os.mkdir(folder, mode=0o700)
        if self.user:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)
        self.run(
            "initdb",
            "-D",
            f"{folder}/data",
            "-U",
            "pushq",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C",
            "--no-sync",
        )
        self.start()
        with contextlib.closing(psycopg2.connect(host=folder, user="pushq", dbname="postgres")) as connection:
            connection.autocommit = True
            # The driver calls functions as a superuser, who acts for all tenants only with a role.
            connection.cursor().execute("alter role pushq set role = pushq")

    @staticmethod
    def find_binaries():
        folders = glob.glob("/usr/lib/postgresql/*/bin") + [os.path.dirname(shutil.which("postgres") or "")]
        found = [folder for folder in folders if os.path.exists(f"{folder}/initdb")]
        if not found:
            raise StackError("there is no PostgreSQL server here: scripts/setup installs one")
        return max(found, key=lambda folder: [int(part) for part in folder.split("/") if part.isdigit()])

    def as_user(self, death_signal):
        """How its programs are started: never as root, which PostgreSQL refuses."""
        account = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        return {**account, "cwd": self.folder, "preexec_fn": dies_with_parent(death_signal)}

    def run(self, program, *arguments):
        done = subprocess.run(
            [f"{self.binaries}/{program}", *arguments], capture_output=True, text=True, **self.as_user(signal.SIGKILL)
        )
        if done.returncode != 0:
            raise StackError(f"{program}: {done.stderr.strip()}")

    def start(self):
        settings = [
            "listen_addresses=",
            f"unix_socket_directories={self.folder}",
            "fsync=off",
            "max_connections=100",
            "jit=off",
        ]
        with open(f"{self.folder}/log", "a") as log:
            self.process = subprocess.Popen(
                [f"{self.binaries}/postgres", "-D", f"{self.folder}/data"] + [x for s in settings for x in ("-c", s)],
                stdout=log,
                stderr=log,
                **self.as_user(signal.SIGQUIT),
            )
        wait_until(self.answers, 60, "PostgreSQL to answer")

    def answers(self):
        try:
            psycopg2.connect(self.address("postgres")).close()
            return True
        except psycopg2.OperationalError:
            return False

    def stop(self, crashes=False):
        self.process.send_signal(signal.SIGQUIT if crashes else signal.SIGINT)
        self.process.wait(60)

    def address(self, database, user="pushq"):
        return f"host={self.folder} port=5432 user={user} dbname={database}"


class Authority:
    """Certificates and keys, made by the command openssl."""

    def __init__(self, folder):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        self.certificate = f"{folder}/ca.pem"
        self.serial = 1000
        self.openssl(
            "req", "-x509", *self.new_key("ca.key"), "-subj", "/CN=Oracle", "-days", "365", "-out", self.certificate
        )
        self.server = self.issue(
            "server", "/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth"
        )[0]

    def openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise StackError(f"openssl {arguments[0]}: {done.stderr.strip()}")

    @staticmethod
    def new_key(file):
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", file]

    def issue(self, name, subject, extensions):
        """A certificate with its key in one file. Returns its path and its serial number as Python's ssl writes it."""
        self.serial += 1
        with open(f"{self.folder}/{name}.cnf", "w", encoding="utf-8") as file:
            file.write(f"[e]\n{extensions}\n")
        self.openssl("req", "-new", *self.new_key(f"{name}.key"), "-subj", subject, "-out", f"{name}.csr")
        self.openssl(
            *[
                "x509",
                "-req",
                "-in",
                f"{name}.csr",
                "-CA",
                "ca.pem",
                "-CAkey",
                "ca.key",
                "-set_serial",
                str(self.serial),
            ],
            *["-days", "365", "-extfile", f"{name}.cnf", "-extensions", "e", "-out", f"{name}.crt"],
        )
        path = f"{self.folder}/{name}.pem"
        with open(path, "w", encoding="utf-8") as whole:
            for part in ("crt", "key"):
                with open(f"{self.folder}/{name}.{part}", encoding="utf-8") as file:
                    whole.write(file.read())
        serial = f"{self.serial:X}"
        return path, serial.zfill(len(serial) + len(serial) % 2)

    def provider_certificate(self, name, app, suffixes):
        """As Apple issues them: for both environments, with the app as user ID of the subject and its topics as an
        extension."""
        topics = [app] + [app + suffix for suffix in suffixes]
        lines = [
            "extendedKeyUsage=clientAuth",
            "1.2.840.113635.100.6.3.1=ASN1:NULL",
            "1.2.840.113635.100.6.3.2=ASN1:NULL",
        ]
        lines += ["1.2.840.113635.100.6.3.6=ASN1:SEQUENCE:topics", "[topics]"]
        for number, topic in enumerate(topics):
            lines += [f"t{number}=UTF8:{topic}", f"k{number}=SEQUENCE:kinds"]
        lines += ["[kinds]", "kind=UTF8:app"]
        return self.issue(name, f"/UID={app}/CN=Apple Push Services: {app}", "\n".join(lines))

    def signing_key(self, name):
        """The file of a key, which is made where there is none of this name."""
        path = f"{self.folder}/{name}.p8"
        if not os.path.exists(path):
            self.openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)
        return path


class Worker:
    """`pushq work` for one environment, with a door of its own at the recording APNs."""

    def __init__(self, stack, environment, number, ports):
        self.environment = environment
        self.number = number
        self.door = f"{environment}/{number}"
        self.log = f"{stack.folder}/worker-{environment}-{number}.log"
        self.started_at = time.time()
        self.expected_exit = None  # what it ends with if all is well; None while it runs
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [stack.pushq, "work", "--queues", f"*/*/{environment}", "--gateway", f"127.0.0.1:{ports['http2']}"]
                + ["--binary-gateway", f"127.0.0.1:{ports['binary']}", "--binary-grace", f"{BINARY_GRACE}s"]
                + ["--ca", stack.authority.certificate, "--lease", f"{stack.lease}s", "--name", f"oracle-{self.door}"]
                + ["--webhook-allow", "127.0.0.1/32"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=stack.environment | {"PUSHQ_DATABASE_URL": stack.postgres.address(stack.database, "sender")},
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )

    def signal(self, number):
        self.process.send_signal(number)

    def drain(self):
        """SIGTERM, and its end. Before it has started to work there would be nothing to drain."""
        wait_until(lambda: "started as" in self.text() or self.process.poll() is not None, 60, f"{self.door} to start")
        if self.process.poll() is not None:
            return  # it has ended by itself, which nobody expected
        self.expected_exit = 0
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.kill()
            self.expected_exit = 0  # which it is not: the judge will say so

    def kill(self):
        self.expected_exit = -signal.SIGKILL
        self.signal(signal.SIGKILL)
        self.process.wait(60)

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()


class Stack:
    """What one episode runs on."""

    def __init__(self, folder, postgres, authority, binaries, change=None):
        self.folder = folder
        os.makedirs(folder)
        self.postgres, self.authority = postgres, authority
        self.pushq, self.admin = f"{binaries}/pushq", f"{binaries}/pushq-admin"
        self.database = "oracle_" + os.path.basename(folder).replace("-", "_")
        self.environment = {
            "PATH": os.environ["PATH"],
            "PUSHQ_DATABASE_URL": postgres.address(self.database),
            "PUSHQ_MASTER_KEY": os.urandom(32).hex(),
            "SWIFT_BACKTRACE": "enable=no",
        }
        self.lease = 3
        self.apns = None
        self.doors = {}  # label -> interface -> port
        self.free_doors = {}  # environment -> workers' numbers to come
        self.workers = []
        self.connection = None
        with contextlib.closing(psycopg2.connect(postgres.address("postgres"))) as connection:
            connection.autocommit = True
            connection.cursor().execute(f"create database {self.database}")
        self.command(self.admin, "migrate")
        if change is not None:
            with self.connect().cursor() as cursor:
                cursor.execute(change)
        self.make_worker_login()

    # MARK: The database

    def make_worker_login(self):
        """Workers may do no more than they need. Episodes share the server, and so its logins."""
        self.query(
            "do $$ begin create role sender login; exception when duplicate_object or unique_violation then null; end $$"
        )
        self.command(self.admin, "worker", "grant", "sender")

    def connect(self):
        """The producer's connection; another one when the last was cut off."""
        if self.connection is None or self.connection.closed:
            self.connection = self.new_connection()
            self.connection.autocommit = True
        return self.connection

    def new_connection(self):
        return psycopg2.connect(self.postgres.address(self.database))

    def query(self, sql, parameters=(), connection=None):
        with (connection or self.connect()).cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def keep_database(self):
        """Puts a dump beside the logs: what was wrong has to be looked into when the server is gone."""
        dump = f"{self.folder}/database.dump"
        self.command(f"{self.postgres.binaries}/pg_dump", "-Fc", "-f", dump, self.postgres.address(self.database))

    # MARK: Commands

    def command(self, program, *arguments, stdin=None, may_fail=False):
        """Runs a command to its end. Returns what it printed, or with `may_fail` its exit code, output and errors."""
        done = subprocess.run(
            [program, *arguments], input=stdin, capture_output=True, text=True, env=self.environment, timeout=120
        )
        if may_fail:
            return done.returncode, done.stdout, done.stderr
        if done.returncode != 0:
            raise StackError(
                f"{os.path.basename(program)} {' '.join(arguments[:3])}: exit {done.returncode}: {done.stderr.strip()}"
            )
        return done.stdout

    def admin_json(self, *arguments):
        return json.loads(self.command(self.admin, *arguments, "--json"))

    def file(self, name, text):
        path = f"{self.folder}/{name}"
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return path

    # MARK: APNs and workers

    def start_apns(self, seed, mood, environments, workers_of_each):
        """With a door for each worker that there will be, so that an arrival tells which one sent it."""
        labels = [f"{environment}/{number}" for environment in environments for number in range(1, workers_of_each + 1)]
        configuration = {
            "seed": seed,
            "mood": vars(mood),
            "ports": [[label, interface] for label in labels for interface in INTERFACES],
            "certificate": self.authority.server,
            "authority": self.authority.certificate,
            "record": f"{self.folder}/record.ndjson",
        }
        path = self.file("apns.json", json.dumps(configuration))
        with open(f"{self.folder}/apns.log", "w") as log:
            self.apns = subprocess.Popen(
                [sys.executable, "-m", "Oracle.apns", path],
                cwd=TESTS,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=dies_with_parent(signal.SIGKILL),
            )
        line = self.apns.stdout.readline()
        if not line:
            raise StackError(f"the recording APNs did not start: see {self.folder}/apns.log")
        ports = iter(json.loads(line))
        self.doors = {label: {interface: next(ports) for interface in INTERFACES} for label in labels}
        self.free_doors = {environment: list(range(1, workers_of_each + 1)) for environment in environments}

    def start_worker(self, environment):
        number = self.free_doors[environment].pop(0)
        worker = Worker(self, environment, number, self.doors[f"{environment}/{number}"])
        self.workers.append(worker)
        return worker

    def read_record(self):
        """Ends the recording APNs and reads what it wrote."""
        self.apns.send_signal(signal.SIGTERM)
        self.apns.wait(30)
        return read_record(f"{self.folder}/record.ndjson")

    def end(self):
        """Ends all processes that are left, and the database."""
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.kill()
                worker.process.wait()
        if self.apns and self.apns.poll() is None:
            self.apns.kill()
            self.apns.wait()
        if self.connection:
            self.connection.close()
        with contextlib.suppress(psycopg2.Error):
            with contextlib.closing(psycopg2.connect(self.postgres.address("postgres"))) as connection:
                connection.autocommit = True
                connection.cursor().execute(f"drop database {self.database} with (force)")


@contextlib.contextmanager
def ground(binaries, change=None):
    """A function that makes the stack of an episode, on one server and one authority for all of them. Everything is
    gone afterwards. `change` is SQL that is done in each database when it has its schema."""
    for program in ("pushq", "pushq-admin"):
        if not os.access(f"{binaries}/{program}", os.X_OK):
            raise StackError(f"{binaries}/{program} is not there: swift build makes it")
    end_by_signals()
    folder = tempfile.mkdtemp(prefix="pushq-oracle-")
    if os.geteuid() == 0:
        os.chmod(folder, 0o711)  # so that the server's user can go through
    postgres = None
    try:
        postgres = Postgres(f"{folder}/postgres")
        authority = Authority(f"{folder}/authority")
        yield lambda name: Stack(f"{folder}/{name}", postgres, authority, binaries, change)
    finally:
        if postgres and postgres.process and postgres.process.poll() is None:
            postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)
