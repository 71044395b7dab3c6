"""The recording APNs' other door: Apple's old binary interface, over which success is silence.

Source: Apple archive, "Binary Provider API". Only the framed form is spoken, command 2. A refusal is a packet of six
bytes that names one push, and ends the connection: what came before it was taken, what comes behind it is not looked
at.
"""

import asyncio
import struct
import time

from .apns import Arrival, Decision, certificate_name, decide

TOKEN, PAYLOAD, IDENTIFIER, EXPIRATION, PRIORITY = range(1, 6)
STATUS = {"BadDeviceToken": 8, "InternalServerError": 1, "Shutdown": 10}


class BinaryConnection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, door, configuration, mood, recorder):
        self.door, self.seed, self.mood, self.recorder = door, configuration["seed"], mood, recorder
        self.held = b""
        self.has_refused = False
        self.is_gone = False

    def connection_made(self, transport):
        self.transport = transport
        self.recorder.connections += 1
        self.number = self.recorder.connections
        self.certificate = certificate_name(transport)

    def connection_lost(self, error):
        self.is_gone = True
        self.recorder.write("ended", connection=self.number, at=time.time())

    def data_received(self, data):
        self.held += data
        while len(self.held) >= 5 and not self.is_gone:
            command, length = struct.unpack(">BI", self.held[:5])
            if command != 2:
                self.recorder.write("error", what=f"command {command} of the binary interface")
                return self.transport.abort()
            if len(self.held) < 5 + length:
                return None
            frame, self.held = self.held[5 : 5 + length], self.held[5 + length :]
            self.take(frame)
        return None

    def take(self, frame):
        items = {}
        while frame:
            number, length = struct.unpack(">BH", frame[:3])
            items[number], frame = frame[3 : 3 + length], frame[3 + length :]
        numbers = {
            name: int.from_bytes(items[key], "big")
            for name, key in (("expiration", EXPIRATION), ("priority", PRIORITY))
            if key in items
        }
        self.recorder.arrivals += 1
        arrival = Arrival(
            self.recorder.arrivals,
            time.time(),
            self.door,
            self.number,
            self.certificate,
            "binary/" + items.get(TOKEN, b"").hex(),
            [(name, str(value)) for name, value in numbers.items()],
            items.get(PAYLOAD, b""),
        )
        if not self.has_refused:
            arrival.decision = self.decide(arrival)
        self.recorder.take(arrival)
        if arrival.decision is not None:
            self.follow(arrival, items.get(IDENTIFIER, bytes(4)))

    def decide(self, arrival):
        """The answers of HTTP/2 that this interface has, and silence for all others."""
        key = (arrival.environment, arrival.target, arrival.body)
        decision = decide(self.seed, self.mood, *key, self.recorder.next_try(key))
        if decision.kind == "reset":
            return decision
        if decision.kind == "go-away":
            return Decision("packet", 200, "Shutdown")
        if decision.reason in ("BadDeviceToken", "InternalServerError"):
            return Decision("packet", decision.status, decision.reason)
        return Decision("answer", 200)

    def follow(self, arrival, identifier):
        if arrival.decision.kind == "reset":
            self.recorder.file.flush()
            self.is_gone = True
            return self.transport.abort()
        # Written down first: what the client knows has to be in the record.
        self.recorder.write("answered", number=arrival.number, at=time.time())
        if arrival.decision.kind == "packet":
            self.has_refused = True
            self.recorder.write("packet", connection=self.number)
            self.transport.write(bytes([8, STATUS[arrival.decision.reason]]) + identifier)
            # Closed while pushes come, the connection would be reset and the packet be lost.
            asyncio.get_running_loop().call_later(0.3, self.transport.close)
        return None
