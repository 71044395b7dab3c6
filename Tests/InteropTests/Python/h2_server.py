"""A server on Python's h2 that makes use of what HTTP/2 allows, as its one argument (JSON) says.

    port, certificate    where it listens, and with what
    settings             its first SETTINGS, by number
    changes, every       SETTINGS to announce one after the other, after every so many requests
    padding              octets of padding on each answer's body
    refuse               every Nth request is refused with REFUSED_STREAM the first time it comes
    go_away              GOAWAY at the Nth request of a connection; later requests are ignored
    dead                 every Nth request is answered with 410 and a body of JSON
    body                 how many spaces each request's body has to be

When it is told to end it prints, as JSON, what came.
"""

import asyncio
import json
import signal
import ssl
import sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes, Settings
from hyperframe.frame import GoAwayFrame

INITIAL = {SettingCodes.MAX_CONCURRENT_STREAMS: 100}
DEAD = b'{"reason":"Unregistered","timestamp":1458114061260}'


class Record:
    """What all connections together have seen."""

    def __init__(self):
        self.paths = []
        self.refused = set()
        self.dead = 0
        self.connections = 0
        self.go_aways = 0
        self.errors = []

    def summary(self):
        return {
            "arrived": len(self.paths),
            "distinct": len(set(self.paths)),
            "refused": len(self.refused),
            "dead": self.dead,
            "connections": self.connections,
            "go_aways": self.go_aways,
            "errors": self.errors[:10],
        }


class Connection(asyncio.Protocol):
    def __init__(self, options, record):
        self.options = options
        self.record = record
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.requests = {}
        self.opened = 0
        self.last_stream = None

    def connection_made(self, transport):
        self.transport = transport
        if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
            return transport.close()
        self.record.connections += 1
        settings = {int(k): v for k, v in self.options.get("settings", {}).items()}
        self.h2.local_settings = Settings(client=False, initial_values={**INITIAL, **settings})
        # In force from the beginning, since the gateway says nothing before it has read them.
        self.h2.decoder.max_allowed_table_size = self.h2.local_settings.header_table_size
        self.h2.initiate_connection()
        self.flush()

    def flush(self):
        self.transport.write(self.h2.data_to_send())

    def data_received(self, data):
        try:
            for event in self.h2.receive_data(data):
                self.handle(event)
        except ProtocolError as error:
            self.record.errors.append(f"{type(error).__name__}: {error}")
        self.flush()
        if self.last_stream is not None and not self.requests:
            self.transport.close()

    def handle(self, event):
        if isinstance(event, RequestReceived):
            self.open(event.stream_id, dict(event.headers))
        elif isinstance(event, DataReceived):
            self.give_back(event)
            if event.stream_id in self.requests:
                self.requests[event.stream_id][1].extend(event.data)
        elif isinstance(event, StreamEnded):
            if event.stream_id in self.requests:
                self.answer(event.stream_id, *self.requests.pop(event.stream_id))
        elif isinstance(event, StreamReset):
            self.record.errors.append(f"stream {event.stream_id} was reset: {event.error_code}")
        elif isinstance(event, ConnectionTerminated) and event.error_code != ErrorCodes.NO_ERROR:
            self.record.errors.append(f"GOAWAY: {event.error_code} {event.additional_data}")

    def give_back(self, event):
        """Opens the windows again. h2's own way forgets streams that wait when INITIAL_WINDOW_SIZE has become smaller."""
        octets = event.flow_controlled_length
        if octets > 0:
            self.h2.increment_flow_control_window(octets)
            if event.stream_id in self.requests and event.stream_ended is None:
                self.h2.increment_flow_control_window(octets, event.stream_id)

    def open(self, stream, headers):
        if self.last_stream is not None:
            return
        self.opened += 1
        path = headers[":path"]
        expected = {":method": "POST", "apns-topic": "com.example.App.voip", "apns-push-type": "voip"}
        for name, value in expected.items():
            if headers.get(name) != value:
                self.record.errors.append(f"{name}: {headers.get(name)}")
        refuse = self.options.get("refuse")
        if refuse and self.opened % refuse == 0 and path not in self.record.refused:
            self.record.refused.add(path)
            return self.h2.reset_stream(stream, ErrorCodes.REFUSED_STREAM)
        self.requests[stream] = (path, bytearray())
        self.change(stream)

    def change(self, stream):
        """Applies what is to happen at the Nth request."""
        every, changes = self.options.get("every"), self.options.get("changes", [])
        if every and self.opened % every == 0:
            change = changes[self.opened // every % len(changes)]
            self.h2.update_settings({int(k): v for k, v in change.items()})
        if self.opened == self.options.get("go_away"):
            # h2's own way to send GOAWAY lets nothing be answered afterwards.
            self.last_stream = stream
            self.record.go_aways += 1
            self.flush()
            frame = GoAwayFrame(0, last_stream_id=stream, additional_data=b'{"reason":"Shutdown"}')
            self.transport.write(frame.serialize())

    def answer(self, stream, path, body):
        self.record.paths.append(path)
        if body != b" " * self.options["body"]:
            self.record.errors.append(f"a body of {len(body)} bytes")
        dead = self.options.get("dead")
        is_dead = dead is not None and len(self.record.paths) % dead == 0
        self.record.dead += is_dead
        padding = self.options.get("padding")
        content = DEAD if is_dead else b""
        self.h2.send_headers(
            stream,
            [(":status", "410" if is_dead else "200"), ("apns-id", "A7D2C0F4-7A5E-8E1C-9C77-000000000001")],
            end_stream=not content and padding is None,
        )
        if content or padding is not None:
            self.h2.send_data(stream, content, end_stream=True, pad_length=padding)


async def main():
    options = json.loads(sys.argv[1])
    record = Record()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(options["certificate"])
    context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await loop.create_server(lambda: Connection(options, record), "127.0.0.1", options["port"], ssl=context)
    await ended.wait()
    print(json.dumps(record.summary()), flush=True)


asyncio.run(main())
