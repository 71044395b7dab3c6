"""The recording APNs: takes requests over HTTP/2 as Apple's servers do, answers as the seed says, and writes down every
byte.

It runs as a process of its own, `python3 -m Oracle.apns CONFIGURATION`, where CONFIGURATION is a file of JSON:

    seed          what its answers depend on, with token, payload and try; never on time, so a replay meets the same
    mood          how it answers: see `Mood`
    ports         [[label, interface], …]: where it listens. A label says whose door it is, and stands in the record;
                  the interface is http2 or binary
    certificate   its certificate and key, PEM
    authority     who has issued the certificates that clients may show, PEM
    record        the file that it writes

It says which ports it has as one line of JSON, and ends with SIGTERM. The record is a JSON object a line; `read_record`
reads it.
"""

import asyncio
import base64
import dataclasses
import hashlib
import json
import math
import random
import signal
import ssl
import sys
import time

from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

STREAMS = 500
LATE = 0.35  # seconds without a look at its connections; less would be noticed every tenth of a second
LINGERING = 10.0  # seconds that a connection stays after GOAWAY, for the client to close it


@dataclasses.dataclass
class Mood:
    """How likely each answer is; the rest is 200. All but `slow` are shares of the requests."""

    dead: float = 0.0  # 410 with the present time: the app is gone
    dead_before: float = 0.0  # 410 with a time before the device registered: it is back
    dead_untimed: float = 0.0  # 410 without a time
    bad: float = 0.0  # 400 BadDeviceToken
    refused: float = 0.0  # 400 with a reason that nobody knows
    busy: float = 0.0  # 429 TooManyRequests, of which half say for how long
    broken: float = 0.0  # 500 InternalServerError or 503 ServiceUnavailable
    reset: float = 0.0  # the connection is reset
    go_away: float = 0.0  # GOAWAY: what came later is not looked at
    refused_stream: float = 0.0  # REFUSED_STREAM: not looked at
    silent: float = 0.0  # no answer
    channel_gone: float = 0.0  # 400 ChannelNotRegistered, to broadcasts alone
    stubborn: float = 0.0  # of recipients: refused for now, four times in a row
    slow: float = 0.02  # seconds: answers take between nothing and this


@dataclasses.dataclass(frozen=True)
class Decision:
    """What is done with a request. `kind` is answer, silent, reset, go-away or refused-stream; over the binary
    interface packet."""

    kind: str
    status: int = 0
    reason: str = ""
    dead_since: str = ""  # now, before or nothing
    delay: float = 0.0
    retry_after: int = 0  # seconds; 0: the answer does not say


def decide(seed, mood, environment, target, payload, attempt, is_broadcast=False):
    """What is done with the so-many-th try of a payload for a token or channel. Depends on nothing else."""
    name = f"{seed}|{environment}|{target}|{hashlib.sha256(payload).hexdigest()}"
    dice = random.Random(f"{name}|{attempt}")
    delay = dice.random() * mood.slow
    # Not for ever, nor all for equally long: what has failed and is sent again by hand would be half of it such pushes,
    # and that is an outage, in which no attempts are spent and a push a minute is tried.
    stubborn = random.Random(f"{name}|stubborn")
    if stubborn.random() < mood.stubborn and attempt <= stubborn.randint(1, 3):
        return Decision("answer", 503, "ServiceUnavailable", delay=delay)
    point = dice.random()

    def falls(share):
        nonlocal point
        point -= share
        return point < 0

    if is_broadcast and dice.random() < mood.channel_gone:
        return Decision("answer", 400, "ChannelNotRegistered", delay=delay)
    if falls(mood.dead):
        return Decision("answer", 410, dice.choice(["Unregistered", "ExpiredToken"]), "now", delay)
    if falls(mood.dead_before):
        return Decision("answer", 410, "Unregistered", "before", delay)
    if falls(mood.dead_untimed):
        return Decision("answer", 410, "Unregistered", "", delay)
    if falls(mood.bad):
        return Decision("answer", 400, dice.choice(["BadDeviceToken", "DeviceTokenNotForTopic"]), delay=delay)
    if falls(mood.refused):
        return Decision("answer", 400, "NobodyKnowsThisReason", delay=delay)
    if falls(mood.busy):
        return Decision("answer", 429, "TooManyRequests", delay=delay, retry_after=dice.choice([0, 1, 2]))
    if falls(mood.broken):
        return Decision(
            "answer", *dice.choice([(500, "InternalServerError"), (503, "ServiceUnavailable")]), delay=delay
        )
    # A push that comes again is treated better, or the fifth loss would make it unknown far too often.
    for kind, share in [
        ("reset", mood.reset),
        ("go-away", mood.go_away),
        ("refused-stream", mood.refused_stream),
        ("silent", mood.silent),
    ]:
        if falls(share) and attempt == 1:
            return Decision(kind, 200 if kind == "go-away" else 0)
    return Decision("answer", 200, delay=delay)


@dataclasses.dataclass
class Arrival:
    """One request that came whole, and what became of it. Times are seconds since 1970."""

    number: int
    at: float
    door: str  # the label of the port: environment and worker
    connection: int
    certificate: str  # the user ID in the subject of the client's certificate, with its serial number; or nothing
    path: str
    headers: list  # of (name, value), in their order
    body: bytes
    decision: Decision = None  # None: behind a GOAWAY, so not looked at
    dead_since: float = None  # the time that a 410 gave
    answered_at: float = None  # when the answer went to the kernel; None: never
    text: bytes = None  # what came, of a message with several texts, whose `body` is the message itself
    share: str = None  # of a campaign that has shares: whose payload came

    def header(self, name):
        """The value of a header; None if it is missing."""
        return next((value for key, value in self.headers if key == name), None)

    def headers_named(self, name):
        return [value for key, value in self.headers if key == name]

    @property
    def environment(self):
        return self.door.split("/")[0]

    @property
    def worker(self):
        return self.door.split("/")[1]

    @property
    def target(self):
        """The token in hexadecimal, or the ID of the channel."""
        return self.header("apns-channel-id") if self.is_broadcast else self.path.rpartition("/")[2]

    @property
    def is_binary(self):
        """It came over the binary interface, which has neither headers nor identifiers."""
        return self.path.startswith("binary/")

    @property
    def is_broadcast(self):
        return "/broadcasts/" in self.path

    @property
    def was_looked_at(self):
        return self.decision is not None and self.decision.kind != "refused-stream"

    @property
    def status(self):
        """What was answered; 0 for nothing."""
        return self.decision.status if self.answered_at is not None else 0

    @property
    def provider(self):
        """Key ID, team and time of the provider token; None without one."""
        value = self.header("authorization")
        if value is None:
            return None
        try:
            parts = value.removeprefix("bearer ").split(".")
            head, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in parts[:2])
            return {"algorithm": head["alg"], "key": head["kid"], "team": claims["iss"], "issued": claims["iat"]}
        except (ValueError, KeyError, IndexError):
            return {"algorithm": "?", "key": value[:12], "team": "?", "issued": 0}


@dataclasses.dataclass
class Record:
    """What the recording APNs saw."""

    arrivals: list
    connection_ends: dict  # connection -> when it was gone
    packets: set  # connections of the binary interface that ended with an error, which speaks for all before it
    errors: list  # what was no HTTP/2, or no request of APNs
    late: list = dataclasses.field(default_factory=list)  # (from, until) in which a busy machine kept it from reading

    def may_have_ended(self, connection):
        """The first moment at which its client may have closed it: where it was kept from reading, it read first what had
        been sent before, and saw the end a round later."""
        end = self.connection_ends.get(connection, math.inf)
        for _ in range(2):
            end = min([since for since, until in self.late if since < end <= until], default=end)
        return end

    def was_late(self, since, until):
        """Whether a busy machine kept it from reading between two times, so that a silence said nothing."""
        return any(began < until and ended > since for began, ended in self.late)


def read_record(path):
    """Reads the record; a last line that is not whole is passed over."""
    arrivals, ends, packets, errors, late = {}, {}, set(), [], []
    with open(path, encoding="utf-8") as file:
        for line in file:
            try:
                event = json.loads(line)
            except ValueError:
                continue
            kind = event.pop("event")
            if kind == "arrived":
                event["body"] = base64.b64decode(event["body"])
                event["headers"] = [tuple(pair) for pair in event["headers"]]
                decision = event.pop("decision")
                event["decision"] = Decision(**decision) if decision else None
                arrivals[event["number"]] = Arrival(**event)
            elif kind == "answered":
                arrivals[event["number"]].answered_at = event["at"]
            elif kind == "ended":
                ends[event["connection"]] = event["at"]
            elif kind == "packet":
                packets.add(event["connection"])
            elif kind == "error":
                errors.append(event["what"])
            elif kind == "late":
                late.append((event["since"], event["until"]))
    return Record(list(arrivals.values()), ends, packets, errors, late)


class Recorder:
    """Writes the record. A line is in the kernel before the answer that it tells of is."""

    def __init__(self, path):
        self.file = open(path, "a", encoding="utf-8", buffering=1 << 20)
        self.arrivals = 0
        self.connections = 0
        self.tries = {}

    def write(self, event, **values):
        self.file.write(json.dumps({"event": event, **values}, ensure_ascii=True) + "\n")

    def take(self, arrival):
        """Writes down a request with what is done with it."""
        values = dataclasses.asdict(arrival)
        values["body"] = base64.b64encode(arrival.body).decode()
        del values["answered_at"]
        self.write("arrived", **values)

    def next_try(self, key):
        self.tries[key] = self.tries.get(key, 0) + 1
        return self.tries[key]


class Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, door, configuration, mood, recorder):
        self.door, self.seed, self.mood, self.recorder = door, configuration["seed"], mood, recorder
        # Fields are taken as they come: the judge looks at them, and not this library.
        self.h2 = H2Connection(
            H2Configuration(
                client_side=False, header_encoding=None, validate_inbound_headers=False, normalize_inbound_headers=False
            )
        )
        self.requests = {}  # stream -> (when, headers, body) while it is being read
        self.open = 0  # requests that were looked at and have no answer yet
        self.last_stream = None  # once GOAWAY has been sent
        self.is_ending = False
        self.is_gone = False

    def connection_made(self, transport):
        self.transport = transport
        session = transport.get_extra_info("ssl_object")
        self.recorder.connections += 1
        self.number = self.recorder.connections
        self.certificate = certificate_name(transport)
        if session.selected_alpn_protocol() != "h2":
            self.recorder.write("error", what="a connection without h2")
            return transport.close()
        self.h2.local_settings = Settings(
            client=False,
            initial_values={SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS, SettingCodes.INITIAL_WINDOW_SIZE: 65535},
        )
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(1 << 24)
        self.flush()

    def connection_lost(self, error):
        self.is_gone = True
        self.recorder.write("ended", connection=self.number, at=time.time())

    def flush(self):
        if not self.is_gone:
            self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        try:
            for event in self.h2.receive_data(data):
                self.handle(event)
        except ProtocolError as error:
            self.recorder.write("error", what=f"{type(error).__name__}: {error}")
        self.flush()

    def handle(self, event):
        if isinstance(event, RequestReceived):
            headers = [(text(name), text(value)) for name, value in event.headers]
            self.requests[event.stream_id] = (headers, bytearray())
        elif isinstance(event, DataReceived):
            if event.stream_id in self.requests:
                self.requests[event.stream_id][1].extend(event.data)
            # Its farewell may have come with the same bytes, behind this.
            if self.h2.state_machine.state is not ConnectionState.CLOSED:
                self.h2.increment_flow_control_window(max(event.flow_controlled_length, 1))
        elif isinstance(event, StreamEnded):
            if event.stream_id in self.requests:
                self.take(event.stream_id, *self.requests.pop(event.stream_id))
        elif isinstance(event, StreamReset):
            self.requests.pop(event.stream_id, None)

    def take(self, stream, headers, body):
        """A request is whole: what is done with it is decided and written down."""
        self.recorder.arrivals += 1
        arrival = Arrival(
            self.recorder.arrivals,
            time.time(),
            self.door,
            self.number,
            self.certificate,
            next((value for name, value in headers if name == ":path"), ""),
            headers,
            bytes(body),
        )
        if self.last_stream is None or stream <= self.last_stream:
            key = (arrival.environment, arrival.target, arrival.body)
            arrival.decision = decide(self.seed, self.mood, *key, self.recorder.next_try(key), arrival.is_broadcast)
            if arrival.decision.dead_since:
                ago = 0 if arrival.decision.dead_since == "now" else 86400
                arrival.dead_since = int((arrival.at - ago) * 1000) / 1000
        self.recorder.take(arrival)
        if arrival.decision is not None:
            self.open += 1
            getattr(self, arrival.decision.kind.replace("-", "_"))(stream, arrival)

    # What may be done with a request.

    def answer(self, stream, arrival):
        asyncio.get_running_loop().call_later(arrival.decision.delay, self.respond, stream, arrival)

    def silent(self, stream, arrival):
        self.open -= 1

    def reset(self, stream, arrival):
        self.recorder.file.flush()
        self.is_gone = True
        self.transport.abort()

    def refused_stream(self, stream, arrival):
        self.open -= 1
        self.h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)

    def go_away(self, stream, arrival):
        """Says that nothing behind this request is looked at, and answers it. The library's own way would let
        nothing be answered."""
        if self.last_stream is None:
            self.last_stream = stream
            self.flush()
            self.transport.write(GoAwayFrame(0, last_stream_id=stream, error_code=0).serialize())
        self.respond(stream, arrival)

    def respond(self, stream, arrival):
        self.open -= 1
        if self.is_gone:
            return
        decision = arrival.decision
        identifier = arrival.header("apns-id") or arrival.header("apns-request-id") or ""
        body = b""
        if decision.reason:
            answer = {"reason": decision.reason}
            if arrival.dead_since is not None:
                answer["timestamp"] = round(arrival.dead_since * 1000)
            body = json.dumps(answer).encode()
        try:
            fields = [
                (":status", str(decision.status)),
                ("apns-request-id" if arrival.is_broadcast else "apns-id", identifier),
            ]
            fields += [("retry-after", str(decision.retry_after))] if decision.retry_after else []
            self.h2.send_headers(stream, fields, end_stream=not body)
            if body:
                self.h2.send_data(stream, body, end_stream=True)
        except ProtocolError:
            return  # the client has given this stream up
        # Written down first: what the client knows has to be in the record.
        self.recorder.write("answered", number=arrival.number, at=time.time())
        self.flush()
        if self.last_stream is not None and self.open == 0 and not self.is_ending:
            # The client closes. Closed from here while requests come, the kernel would reset the connection, and GOAWAY
            # with it be lost.
            self.is_ending = True
            asyncio.get_running_loop().call_later(LINGERING, self.transport.close)


def certificate_name(transport):
    """How the record names the certificate that a client has shown; nothing without one."""
    certificate = transport.get_extra_info("ssl_object").getpeercert() or {}
    subject = {key: value for part in certificate.get("subject", ()) for key, value in part}
    return f"{subject.get('userId', '?')} {certificate['serialNumber']}" if certificate else ""


def text(octets):
    return octets.decode("utf-8", "surrogateescape") if isinstance(octets, (bytes, bytearray)) else octets


def tls(configuration, interface):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(configuration["certificate"])
    context.load_verify_locations(configuration["authority"])
    context.verify_mode = ssl.CERT_OPTIONAL
    if interface == "http2":
        context.set_alpn_protocols(["h2"])
    return context


async def serve(configuration):
    from .binary import BinaryConnection

    interfaces = {"http2": Connection, "binary": BinaryConnection}
    recorder, mood = Recorder(configuration["record"]), Mood(**configuration["mood"])
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    ports = []
    for label, interface in configuration["ports"]:
        server = await loop.create_server(
            lambda label=label, interface=interface: interfaces[interface](label, configuration, mood, recorder),
            *("127.0.0.1", 0),
            ssl=tls(configuration, interface),
            backlog=200,
        )
        ports.append(server.sockets[0].getsockname()[1])
    print(json.dumps(ports), flush=True)
    seen = time.time()
    while not ended.is_set():
        recorder.file.flush()
        now = time.time()
        if now > seen + LATE:
            recorder.write("late", since=seen, until=now)
        seen = now
        try:
            await asyncio.wait_for(ended.wait(), 0.1)
        except asyncio.TimeoutError:
            pass
    recorder.file.close()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        asyncio.run(serve(json.load(file)))
