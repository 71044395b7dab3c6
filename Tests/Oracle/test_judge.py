"""What judges others must not misjudge: a clean record passes, and each kind of altered one is found.

`python3 -m unittest Oracle.test_judge`, in Tests; scripts/test runs it, too. There is nothing real here: an episode of
two queues, written down by hand as it should have gone.
"""

import base64
import collections
import copy
import dataclasses
import datetime
import hashlib
import hmac
import json
import types
import unittest
import unittest.mock
from zoneinfo import ZoneInfo

from . import scenario as s
from .apns import Arrival, Decision, Mood, Record, decide
from .badges import Badges
from .books import CAPPED, KINDS, LACKS, QUIET, SHOWN, Books, DeviceRow, Entry, Exit, FeedbackRow, LapsedLease, TraceRow, first_ends
from .caps import day_began
from .clocks import zones_to_send_to
from .driver import Driver, Event, History
from .filters import Profile, holds, text
from .follower import Followed
from .generator import SHORT_SEEDS, generate
from .judge import judge
from .model import IDENTIFIER, Change, Device, Model
from .personal import Personal
from .quiet import Quiet, Setting, in_words, is_quiet, nights
from .receiver import Delivery
from .shares import share_of

START = 1_790_000_000.0
SIGNING = s.Credential("acme", "signing", "token", team="TEAM123456", key="KEY1234567")
CERTIFICATE = s.Credential("beta", "shop", "certificate", app="com.example.shop")
SHOP = s.Queue("acme", "com.example.shop", "production", SIGNING, attempts=3, channels=["Y2hhbm5lbA=="])
TEST = s.Queue("beta", "com.example.shop", "sandbox", CERTIFICATE, rate=5.0, burst=2.0, cap=s.Cap(2, 86_400))
SECRET, NEW_SECRET = ("whsec_" + base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
STAMP = "%Y-%m-%dT%H:%M:%S.%fZ"
TRACE = f"00-{'ab' * 16}-{'cd' * 8}-01"
TOKENS = [f"{n:02x}" * 32 for n in range(1, 9)]
A, B, C, D, E, F, G, H = TOKENS
LAST, OTHER = "e1" * 32, "e2" * 32  # push-to-start tokens


GREETINGS = [(None, '{"aps":{"alert":"Hi {{nick}}"},"n":1,"number":15}'), ("de", '{"aps":{"alert":"Hallo {{nick}}"},"number":15}')]
PERSONAL = s.Message(
    f'{{"default":{GREETINGS[0][1]},"languages":{{"de":{GREETINGS[1][1]}}}}}', personal=Personal(tuple(GREETINGS)), number=15
)


def provider_token(key="KEY1234567", team="TEAM123456", issued=START):
    parts = [{"alg": "ES256", "kid": key}, {"iss": team, "iat": int(issued)}]
    texts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return "bearer " + ".".join(texts) + ".c2lnbmF0dXJl"


class Play:
    """An episode as it should have gone: what was done, what arrived, what the books say."""

    def __init__(self):
        self.events, self.arrivals, self.entries, self.feedback, self.lapsed = [], [], {}, [], []
        self.faults, self.late, self.followed, self.quiet, self.caps = [], [], [], {}, {TEST.name: [(0, 0, TEST.cap)]}
        self.deliveries, self.secrets, self.set_webhooks = [], {}, {}
        self.now = START
        self.roots = 100
        self.ends = {}
        self.lease = 3
        self.exits = [
            Exit("production/1", 0, 0, "started\nstopped after 12 requests\n"),
            Exit("sandbox/1", 0, 0, "started\n"),
        ]
        self.script()

    def script(self):
        self.do(s.Import(SHOP.name, tuple((token, "user" if token == B else None) for token in TOKENS[:6])))
        self.do(s.Register(TEST.name, A))
        self.do(s.Register(SHOP.name, D))
        self.do(s.Deactivate(SHOP.name, (C,)))
        # A phone that changes hands before a push to its user is due: nobody is left whom it is for.
        self.do(s.Register(SHOP.name, F, "seller"))
        self.hands = self.do(s.Send(SHOP.name, message(12), user="seller", run_in=1.0), run_at=self.now + 1)
        self.do(s.Register(SHOP.name, F, "buyer"))
        self.now += 1
        # Neighbours of an inactive device, which is in the list itself.
        self.alert = self.do(s.Send(SHOP.name, message(1), (A, C, E)), traceparent=TRACE)
        self.answer(self.alert, A, 200)
        self.end(self.alert, C, "suppressed")
        self.answer(self.alert, E, 200)
        # A list, with one token that is new, one that dies and one that came back before.
        self.list = self.do(s.Campaign(SHOP.name, "list", message(2, "background"), (B, D, F, G)))
        self.answer(self.list, B, 410, "Unregistered", "now")
        self.answer(self.list, D, 410, "Unregistered", "before")
        self.answer(self.list, F, 429, "TooManyRequests", retry_after=2)
        self.now += 2
        self.answer(self.list, F, 200)
        self.answer(self.list, G, 400, "NobodyKnows")
        # A list of users, one of whom has no device. One phone goes to somebody who is not on the list.
        self.do(s.Register(SHOP.name, G, "lodger"))
        listed = s.Campaign(SHOP.name, "listed", message(60), users=("lodger", "nobody", "buyer"), start_in=1.0)
        self.listed = self.do(listed, run_at=self.now + 1)
        self.do(s.Register(SHOP.name, G, "landlord"))
        self.now += 1
        self.answer(self.listed, F, 200)
        self.end(self.listed, G, "suppressed")
        # One whose attempts are used up, and one that went over a connection that was lost.
        self.strict = self.do(s.Send(SHOP.name, message(3, at_most_once=True), (D, E)))
        for _ in range(SHOP.attempts):
            self.answer(self.strict, D, 429, "TooManyRequests")
        self.answer(self.strict, E, 0, kind="reset")
        self.all = self.do(
            s.Campaign(TEST.name, "all", message(4, collapse_id="same", expires_in=3600)), expiration=int(START + 3600)
        )
        self.answer(self.all, A, 200)
        # Two devices, of which a filter holds for one.
        self.do(s.Register(TEST.name, B, profile=Profile("de-AT", "2.10", ("vip",))))
        self.do(s.Register(TEST.name, C, profile=Profile("de", "2.9")))
        self.now += 1
        wanted = ("and", ("locale", "=", "de"), ("version", ">", "2.9"))
        self.some = self.do(s.Campaign(TEST.name, "some", message(14), filter=wanted))
        self.answer(self.some, B, 200)
        # A text for each, and none for one who lacks what it asks for.
        self.now += 2
        self.do(s.Register(TEST.name, B, profile=Profile("en", None, (), (("nick", 'Ann "A"'),), "Europe/Vienna")))
        self.do(s.Register(TEST.name, C, profile=Profile("de-AT", None, (), (("nick", "{{x}}"),), "Asia/Tokyo")))
        self.now += 1
        self.personal = self.do(s.Campaign(TEST.name, "personal", PERSONAL))
        self.answer(self.personal, B, 200, body=b'{"n":1, "aps":{"alert":"Hi Ann \\"A\\""},"number":15}')
        self.answer(self.personal, C, 200, body=b'{"aps":{"alert":"Hallo {{x}}"},"number":15}')
        self.end(self.personal, A, "suppressed", LACKS)
        # One that has had as many as it may; what is urgent gets through.
        self.more = self.do(s.Campaign(TEST.name, "more", message(16)))
        self.answer(self.more, A, 200)
        self.end(self.more, B, "suppressed", CAPPED)
        self.answer(self.more, C, 200)
        self.now += 1
        self.urgent = self.do(s.Campaign(TEST.name, "urgent", message(17), (B,), urgent=True))
        self.answer(self.urgent, B, 200)
        # Three that raise the number on the icon, one of them refused for the moment until the third has arrived; and one
        # after its app was opened.
        self.badges = [self.do(s.Send(SHOP.name, raising(50 + n, 1 + n), (A,))) for n in range(2)]
        self.answer(self.badges[0], A, 200, body=with_figure(50, 1))
        self.answer(self.badges[1], A, 429, "TooManyRequests", body=with_figure(51, 3))
        self.now += 1
        self.badges.append(self.do(s.Send(SHOP.name, raising(52, 1), (A,))))
        self.answer(self.badges[2], A, 200, body=with_figure(52, 4))
        self.now += 1
        self.answer(self.badges[1], A, 429, "TooManyRequests", body=with_figure(51, 4))
        self.now += 1
        self.answer(self.badges[1], A, 200, body=with_figure(51, 4))
        self.now += 1
        self.do(s.SetBadge(SHOP.name, A))
        self.badges.append(self.do(s.Send(SHOP.name, raising(53, 1), (A,))))
        self.answer(self.badges[3], A, 200, body=with_figure(53, 1))
        # A time that clocks have just shown in Vienna, and hours ago in Tokyo; where A is, nobody knows.
        minute = datetime.datetime.fromtimestamp(self.now - 60, ZoneInfo("Europe/Vienna")).strftime("%Y-%m-%dT%H:%M")
        local = s.Campaign(TEST.name, "local", message(20, "background"), local_zone="Europe/Vienna")
        self.local = self.do(local, local_time=minute)
        self.answer(self.local, B, 200)
        # The key puts A into the share of the payload, D into that of the variant, and E into the holdout.
        variants = (s.Variant("b", "0.4", message(19)),)
        self.split = self.do(s.Campaign(SHOP.name, "split-27", message(18), (A, D, E), variants=variants, holdout="0.3"))
        self.answer(self.split, A, 200)
        self.answer(self.split, D, 200, body=message(19).payload.encode())
        self.sleep()
        self.come_back()
        # A start, at a token for what it starts.
        self.do(s.Register(SHOP.name, H, None, Profile(), "liveactivity-start", "Match"))
        # B's user has a token for these, too; C is inactive, and the users of the others have none.
        self.do(s.Register(SHOP.name, LAST, "buyer", Profile(), "liveactivity-start", "Match"))
        self.do(s.Register(SHOP.name, OTHER, "user", Profile(), "liveactivity-start", "Race"))
        self.do(s.PreviewStarts(SHOP.name, "Match"), previewed=(5, 4))
        wrong = message(41, "liveactivity", starts="Match", input_channel="bm9ib2R5J3M=")
        self.no_channel = self.do(s.Campaign(SHOP.name, "no channel", wrong), error="PQ400")
        self.kick_off = self.do(s.Campaign(SHOP.name, "kick-off", message(40, "liveactivity", starts="Match")))
        self.answer(self.kick_off, H, 200)
        self.answer(self.kick_off, LAST, 200)
        # A channel that is gone.
        self.gone = self.do(
            s.Broadcast(TEST.name, "Z29uZQ==", message(13, "liveactivity", never_stored=True)), expiration=0
        )
        self.answer(self.gone, "Z29uZQ==", 400, "ChannelNotRegistered")
        # The first update's place is taken by the second.
        self.old = self.do(s.Send(SHOP.name, message(5, "liveactivity"), (A,), replaces_waiting=True))
        self.new = self.do(s.Send(SHOP.name, message(6, "liveactivity"), (A,), replaces_waiting=True))
        self.answer(self.new, A, 200)
        self.now += 5
        self.end(self.old, A, "suppressed")
        self.broadcast = self.do(
            s.Broadcast(SHOP.name, SHOP.channels[0], message(7, "liveactivity", never_stored=True)), expiration=0
        )
        self.answer(self.broadcast, SHOP.channels[0], 200)
        self.do(s.Transaction((s.Send(SHOP.name, message(8), (A,)),), commits=False))
        self.events.append(
            Event(s.Send(SHOP.name, message(8), (A,)), self.now, self.now + 0.01, root=999, committed=False)
        )
        self.do(s.PauseQueue(SHOP.name))
        self.now += 20
        self.expired = self.do(s.Send(SHOP.name, message(9), (A,), send_within=2), send_by=self.now + 2)
        self.stopped = self.do(s.Campaign(SHOP.name, "stopped", message(10), (A,)))
        self.do(s.CancelCampaign(SHOP.name, "stopped"))
        self.now += 5
        self.do(s.ResumeQueue(SHOP.name))
        self.end(self.expired, A, "expired")
        self.end(self.stopped, A, "cancelled")
        # Both updates were there before any could be sent.
        self.do(s.PauseQueue(SHOP.name))
        self.older = self.do(s.Send(SHOP.name, message(42, "liveactivity"), (A,), replaces_waiting=True))
        self.newer = self.do(s.Send(SHOP.name, message(43, "liveactivity"), (A,), replaces_waiting=True))
        self.do(s.ResumeQueue(SHOP.name))
        self.now += 0.1
        self.answer(self.newer, A, 200)
        self.now += 5
        self.end(self.older, A, "suppressed")
        self.ahead = self.do(s.Send(SHOP.name, message(11), (A,), run_in=86400), run_at=self.now + 86400)
        self.entries[self.ahead.root, A] = [Entry("waiting", "", 0, 1, run_at=self.ahead.run_at)]
        # One that is cancelled before its time.
        called_off = s.Send(SHOP.name, message(70, "background"), (A,), key="called off", run_in=1.0)
        self.called_off = self.do(called_off, run_at=self.now + 1)
        self.do(s.CancelSend(SHOP.name, "called off"), root=self.called_off.root)
        self.end(self.called_off, A, "cancelled")
        self.do(s.Settle())

    def sleep(self):
        """Quiet hours that are over in five seconds where D is, and in half an hour where H is. Where E is, it is
        morning."""
        for token, zone in ((D, "Asia/Kolkata"), (E, "America/Los_Angeles"), (H, "Asia/Karachi")):
            self.do(s.Register(TEST.name, token, profile=Profile(zone=zone)))
        self.now += 20
        over = int(self.now) + 5
        self.quiet[TEST.name] = [(0, 0, Setting(in_words("Asia/Kolkata", -3600, 0, over)))]
        # Of the time that is left, the release takes half: those ten seconds.
        self.night = self.do(s.Campaign(TEST.name, "night", message(21), (D, E), send_within=25), send_by=over + 20)
        self.end(self.night, D, "postponed", QUIET)
        self.answer(self.night, E, 200)
        # One that would come too late, and those who still sleep when the episode is over.
        self.dusk = self.do(s.Campaign(TEST.name, "dusk", message(22), (H,), send_within=600), send_by=self.now + 600)
        self.end(self.dusk, H, "suppressed", QUIET)
        self.asleep = [self.do(s.Campaign(TEST.name, f"asleep {n}", message(23 + n), (H,))) for n in range(7)]
        self.dawn = over + 1800
        # What waits for one device comes at one time.
        for event in self.asleep:
            self.end(event, H, "postponed", QUIET)
            self.entries[event.root, H].append(Entry("waiting", "", 0, 1, run_at=self.dawn + 120))
        self.now = over + 8
        self.answer(self.night, D, 200)

    def come_back(self):
        """A device that is dead, until an operator undoes what was reported in the last ten seconds."""
        self.do(s.Settle())
        self.now += 20
        self.dead = self.do(s.Send(SHOP.name, message(31, "background"), (G,)))
        self.answer(self.dead, G, 410, "Unregistered", "now")
        self.now += 1
        self.do(s.Settle())
        self.now += 1
        self.undoing = self.do(s.UndoDeactivations(SHOP.name, reason="Unregistered", seconds=10), since=self.now - 10)
        self.feedback[-1].verdict = "undone"
        self.followed.append(dataclasses.replace(self.followed[-1], verdict="undone", cursor=len(self.followed) + 1))
        self.tell()

    def tell(self):
        """The server of a tenant does not take the first of three messages at once; and in the end its secret is new."""
        for cursor, row in ((1, self.feedback[0]), (3, self.feedback[-1])):
            row.cursor = cursor
        self.secrets["acme"] = [(START - 9, START - 8, SECRET)]
        one, other, undone = (self.report(row) for row in self.followed)
        self.post("feedback_0_1", [one], answer="refuse")
        self.post("feedback_0_1", [one])
        self.post("feedback_1_2", [other])
        self.secrets["acme"].append((self.now, self.now + 0.1, NEW_SECRET))
        self.now += 5
        self.post("feedback_2_3", [undone], [SECRET, NEW_SECRET])

    def report(self, row):
        """As a message has what a producer has read."""
        known = next(one for one in self.feedback if (one.token, one.root) == (row.token, row.root))
        times = {"reported_at": known.reported_at, "recorded_at": known.recorded_at}
        return {
            "cursor": str(row.cursor),
            "queue": SHOP.name,
            "verdict": row.verdict,
            "reason": row.reason,
            **{name: datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime(STAMP) for name, at in times.items()},
            "token": row.token,
            "root": str(row.root),
            **({} if row.key is None else {"campaign": row.key}),
            "apns_id": row.identifier,
        }

    def post(self, identifier, entries, secrets=None, answer="take", tenant="acme", place=None):
        """A message, as it should be but for what is in it."""
        body = json.dumps({"type": "feedback", "data": {"tenant": tenant, "entries": entries}}).encode()
        signed = f"{identifier}.{int(self.now)}.".encode() + body
        keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in secrets or [SECRET]]
        codes = [base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys]
        headers = {
            "content-type": "application/json",
            "webhook-id": identifier,
            "webhook-timestamp": str(int(self.now)),
            "webhook-signature": " ".join("v1," + code for code in codes),
        }
        delivery = Delivery(self.now, f"/{tenant}", headers, body, answer, self.now + 0.2)
        self.deliveries.insert(len(self.deliveries) if place is None else place, delivery)
        self.now += 1

    def do(self, operation, **values):
        event = Event(operation, self.now, self.now + 0.01, **values)
        if isinstance(operation, (s.Send, s.Campaign, s.Broadcast)):
            self.roots += 1
            event.root = self.roots
        self.events.append(event)
        self.now += 0.1
        return event

    def answer(self, event, target, status, reason="", dead_since="", kind="answer", retry_after=0, body=None):
        """A request that came as it should, its answer, and the entry that follows from it."""
        operation = event.operation
        queue = SHOP if operation.queue == SHOP.name else TEST
        connection = 1 if queue is SHOP else 2
        identifier = f"00000000-0000-8{event.root:03x}-8000-0000000000{target[:2] if target in TOKENS else 'cc'}"
        sending = type(
            "Sending",
            (),
            {
                "queue": queue,
                "message": operation.message,
                "event": event,
                "root": event.root,
                "is_broadcast": isinstance(operation, s.Broadcast),
                "topic": queue.app + {"liveactivity": ".push-type.liveactivity"}.get(operation.message.push_type, ""),
            },
        )
        expected = Model.headers(None, sending, target)
        headers = [(name, identifier if value is IDENTIFIER else value) for name, value in expected.items()]
        headers += [
            (":authority", "127.0.0.1:1"),
            ("apns-request-id" if sending.is_broadcast else "apns-id", identifier),
        ]
        headers += [("authorization", provider_token())] if queue is SHOP else []
        number = len(self.arrivals) + 1
        arrival = Arrival(
            number,
            self.now,
            f"{queue.environment}/1",
            connection,
            "" if queue is SHOP else "com.example.shop 03E9",
            expected[":path"],
            headers,
            body or operation.message.payload.encode(),
            Decision(kind, status, reason, dead_since, 0.0, retry_after),
        )
        if dead_since:
            arrival.dead_since = self.now - (0 if dead_since == "now" else 86400)
        arrival.answered_at = self.now + 0.001 if kind == "answer" else None
        self.arrivals.append(arrival)
        if kind == "answer":
            self.settle(event, queue, target, arrival)
        else:
            self.end(event, target, "unknown")
        self.now += 0.1

    def settle(self, event, queue, target, arrival):
        retried = sum(e.kind == "retried" for e in self.entries.get((event.root, target), ()))
        status, reason = arrival.decision.status, arrival.decision.reason
        if status == 200:
            self.end(event, target, "delivered")
        elif status in (429, 503):
            self.end(event, target, "retried" if retried + 1 < queue.attempts else "failed", reason)
        elif status == 410:
            self.end(event, target, "rejected", reason)
            verdict = "deactivated" if arrival.decision.dead_since == "now" else "kept"
            row = (queue.name, target, reason, arrival.dead_since, self.now + 0.05, verdict, event.root)
            self.feedback.append(FeedbackRow(*row))
            if verdict == "deactivated":
                key, identifier = getattr(event.operation, "key", None), arrival.header("apns-id")
                row = (len(self.followed) + 1, verdict, reason, arrival.dead_since, target, event.root, key, identifier)
                self.followed.append(Followed(*row))
        else:
            known = reason == "ChannelNotRegistered"
            self.end(event, target, "rejected", reason if known else "Other")
            self.entries[event.root, target][-1].note = None if known else reason

    def end(self, event, target, kind, reason=""):
        self.entries.setdefault((event.root, target), []).append(Entry(kind, reason, self.now + 0.05, event.root))

    # MARK: As the judge gets it

    def trace(self):
        """Of one device, and of the send itself."""
        root, identifier = self.alert.root, arrival(self, self.alert, A).header("apns-id")
        return [TraceRow(root, A[:8] + "…", identifier, TRACE), TraceRow(root, None, None, None)]

    def devices(self):
        rows = {(SHOP.name, token): DeviceRow(True, None, "user" if token == B else None) for token in (*TOKENS[:7], H)}
        rows.update({(TEST.name, token): DeviceRow(True, None, None) for token in (A, B, C, D, E, H)})
        rows |= {(SHOP.name, F): DeviceRow(True, None, "buyer"), (SHOP.name, G): DeviceRow(True, None, "landlord")}
        rows |= {(SHOP.name, LAST): DeviceRow(True, None, "buyer"), (SHOP.name, OTHER): DeviceRow(True, None, "user")}
        rows[SHOP.name, C] = DeviceRow(False, None, None)
        rows[SHOP.name, B] = DeviceRow(False, "Unregistered", "user")
        return {place: dataclasses.replace(row, number=[*TOKENS, LAST, OTHER].index(place[1]) + 1) for place, row in rows.items()}

    def counts(self, entries):
        row = {kind: 0 for kind in KINDS}
        for entry in entries:
            if entry.kind in row:
                row[entry.kind] += 1
        return row

    def books(self):
        devices = self.devices()
        campaigns, stats = {}, {}
        shown = {}
        made = (self.list, self.all, self.some, self.personal, self.more, self.urgent, self.local, self.split, self.stopped)
        for event in (*made, self.kick_off, self.night, self.dusk, *self.asleep):
            entries = [e for (root, _), list_ in self.entries.items() if root == event.root for e in list_]
            recipients = len({t for root, t in self.entries if root == event.root})
            campaigns[event.operation.queue, event.operation.key] = {
                **self.counts(entries),
                "campaign_id": event.root,
                "total": recipients,
                "waiting": (waiting := sum(entry.kind == "waiting" for entry in entries)),
                "finished": waiting == 0,
                "fanned_out_at": event.ended,
            }
            reasons = collections.Counter(SHOWN[e.reason] for e in entries if e.kind == "suppressed" and e.reason in SHOWN)
            shown[event.operation.queue, event.operation.key] = {**campaigns[event.operation.queue, event.operation.key], **reasons}
            if waiting:
                shown[event.operation.queue, event.operation.key]["in_quiet_hours"] = waiting
        of_one = {**self.counts([Entry("delivered", "", 0, 0)]), "waiting": 0}
        shares = [{**of_one, "share": "payload", "total": 1}, {**of_one, "share": "b", "total": 1}]
        held_out = {**of_one, "share": "holdout", "total": 1, "delivered": 0}
        shown[SHOP.name, "split-27"] |= {"held_out": 1, "shares": [*shares, held_out]}
        queues = {event.root: event.operation.queue for event in self.events if event.root}
        for queue in (SHOP, TEST):
            mine = [row for (name, _), row in devices.items() if name == queue.name]
            entries = [e for (root, _), list_ in self.entries.items() if queues[root] == queue.name for e in list_]
            stats[queue.name] = {
                "devices": sum(r.active for r in mine),
                "inactive": sum(not r.active for r in mine),
                **self.counts(entries),
            }
        exported = {
            q.name: [t for (name, t), r in devices.items() if name == q.name and r.active] for q in (SHOP, TEST)
        }
        return Books(
            self.entries,
            [(1, {"delivered": 3}, {"delivered": 3})],
            campaigns,
            shown,
            stats,
            devices,
            {(SHOP.name, SHOP.channels[0]): False, (TEST.name, "Z29uZQ=="): True},
            exported,
            self.feedback,
            {SHOP.name: collections.Counter((row.reason, row.verdict) for row in self.feedback)},
            self.lapsed,
            {},
            self.exits,
            TOKENS + ["PRIVATE KEY"],
            {self.alert.root: self.trace()},
        )


def message(number, push_type="alert", **values):
    payload = {"alert": '{"aps":{"alert":"Grüße %d"}}', "background": '{"aps":{"content-available":1},"n":%d}'}
    return s.Message(payload.get(push_type, '{"aps":{"timestamp":%d}}') % number, push_type, **values)


def raising(number, increment):
    words = '{ "increment": %d }' % increment
    return s.Message('{"number":%d,"aps":{"alert":"x","badge":%s}}' % (number, words), badge=words, number=number)


def with_figure(number, figure):
    return b'{"number":%d,"aps":{"alert":"x","badge":%d}}' % (number, figure)


def set_figure(place, figure, attempt=0):
    """The push of a message that raises the badge brings another number."""

    def alter(play, books):
        number = 50 + place
        mine = [one for one in play.arrivals if one.body.startswith(b'{"number":%d,' % number)]
        mine[attempt].body = figure if isinstance(figure, bytes) else with_figure(number, figure)

    return alter


def set_event(which, **values):
    """An operation of a kind, or a campaign with a key, comes out differently."""

    def alter(play, books):
        for event in play.events:
            if event.operation.__class__ is which or getattr(event.operation, "key", None) == which:
                for name, value in values.items():
                    setattr(event, name, value)

    return alter


def findings(play, alter=None):
    """The verdict on a play, of which `alter` changes arrivals and books before."""
    books = play.books()
    if alter:
        alter(play, books)
    record = Record(play.arrivals, play.ends, set(), [], play.late)
    episode = s.Episode(1, [SHOP, TEST], 1, Mood(), [e.operation for e in play.events if e.committed])
    fanned_out = {place: row["fanned_out_at"] for place, row in books.campaigns.items()}
    certificates, ends = {TEST.name: "com.example.shop 03E9"}, first_ends(books.entries)
    numbers = {place: row.number for place, row in books.devices.items()}
    history = History(play.events, play.faults, followed={SHOP.name: play.followed}, quiet=play.quiet, caps=play.caps)
    history.deliveries, history.secrets, history.set_webhooks = play.deliveries, play.secrets, play.set_webhooks
    model = Model(episode, history, record, certificates, fanned_out, ends, numbers)
    return judge(model, record, books, play.lease)


def arrival(play, event, target, number=0):
    payload = event.operation.message.payload.encode()
    return [a for a in play.arrivals if a.body == payload and a.target == target][number]


def personal(play, target):
    return next(a for a in play.arrivals if a.target == target and b'"number":15' in a.body)


def swap_texts(play, books):
    one, other = personal(play, B), personal(play, C)
    one.body, other.body = other.body, one.body


def set_text(target, old, new):
    def alter(play, books):
        one = personal(play, target)
        assert old in one.body
        one.body = one.body.replace(old, new)

    return alter


def leave_out(play, books):
    """As one who lacks what its text asks for."""
    play.arrivals.remove(personal(play, B))
    books.entries[play.personal.root, B] = [Entry("suppressed", LACKS, play.now, 1)]


def hold_back(event, target):
    """As one of whom a frequency cap says that it has had enough."""

    def alter(play, books):
        drop(event, target)(play, books)
        set_entry(event, target, kind="suppressed", reason=CAPPED)(play, books)

    return alter


def brings_too_many(after=0.5):
    """What a cap has held back arrives, so long after its campaign."""

    def alter(play, books):
        arrives("more", B)(play, books)
        one = arrival(play, play.more, B)
        one.at = play.more.began + after
        one.answered_at = one.at + 0.001

    return alter


def wait_outside(play, books):
    books.entries[play.night.root, E].insert(0, Entry("postponed", QUIET, play.night.ended, 1))


def wait_too_long(play, books):
    """As one that could still be sent to when its quiet hours are over."""
    books.entries[play.dusk.root, H] = [
        Entry("postponed", QUIET, play.now, 1),
        Entry("waiting", "", 0, 2, run_at=play.dawn + 1),
    ]


def wait_until(seconds):
    def alter(play, books):
        books.entries[play.asleep[0].root, H][-1].run_at = play.dawn + seconds

    return alter


def release_at_once(play, books):
    for event in play.asleep:
        books.entries[event.root, H][-1].run_at = play.dawn


def wake(play, books):
    """One that still sleeps is sent to."""
    now, play.now = play.now, play.asleep[0].ended + 3
    del play.entries[play.asleep[0].root, H][-1]
    play.answer(play.asleep[0], H, 200)
    play.now = now


def posts(number, change=None, at=None, **other):
    """A message comes once more, like one but for its reports and this; at another time than at the end."""

    def alter(play, books):
        one = play.deliveries[number]
        entries = json.loads(one.body)["data"]["entries"]
        secrets = [SECRET, NEW_SECRET]
        play.now = play.now if at is None else play.deliveries[at[0]].at + at[1]
        play.post(other.pop("identifier", one.identifier), (change or list)(entries), secrets, **other)

    return alter


def reposts(number, change=None, **other):
    """A message comes in another form."""

    def alter(play, books):
        posts(number, change, at=(number, 0), **other)(play, books)
        del play.deliveries[number]

    return alter


def changed(**values):
    return lambda entries: [{**entry, **values} for entry in entries]


def starts_other(play, books):
    event = next(e for e in play.events if getattr(e.operation, "kind", None) is not None)
    event.operation = dataclasses.replace(event.operation, activity_type="Race")


def drops_start(play, books):
    lost = dataclasses.replace(play.kick_off.operation.message, never_stored=True)
    play.kick_off.operation = dataclasses.replace(play.kick_off.operation, message=lost)


def swap_shares(play, books):
    one, other = [a for a in play.arrivals if a.body in (message(18).payload.encode(), message(19).payload.encode())]
    one.body, other.body = other.body, one.body


def refuse_first(play, books):
    """Of the two that were enough, one was refused."""
    arrival(play, play.some, B).decision = Decision("answer", 410, "Unregistered", "now")
    set_entry("some", B, kind="rejected", reason="Unregistered")(play, books)


def set_header(name, value, event="alert", target=A):
    """Gives one request another header; None drops it."""

    def alter(play, books):
        one = arrival(play, getattr(play, event), target)
        one.headers = [(n, v) for n, v in one.headers if n != name]
        if value is not None:
            one.headers.append((name, value))

    return alter


def swap_tokens(play, books):
    one, other = arrival(play, play.alert, A), arrival(play, play.list, G)
    one.path, other.path = other.path, one.path


def to_neighbour(play, books):
    arrival(play, play.alert, E).path = f"/3/device/{D}"


def share_connection(play, books):
    one, other = arrival(play, play.all, A), arrival(play, play.alert, A)
    one.connection, one.door = other.connection, other.door


def change_payload(play, books):
    one = arrival(play, play.alert, A)
    one.body = one.body.replace(b"G", b"g", 1)


def duplicate(event, target, at=1.0):
    def alter(play, books):
        one = copy.copy(arrival(play, getattr(play, event), target, -1))
        one.number, one.at = len(play.arrivals) + 1, one.at + at
        one.answered_at = one.answered_at and one.answered_at + at
        play.arrivals.append(one)

    return alter


def drop(event, target, number=0):
    def alter(play, books):
        play.arrivals.remove(arrival(play, getattr(play, event), target, number))

    return alter


def set_entry(event, target, **values):
    def alter(play, books):
        for name, value in values.items():
            setattr(books.entries[getattr(play, event).root, target][-1], name, value)

    return alter


def set_book(path, value):
    """Puts another value into the books, by attribute and keys."""

    def alter(play, books):
        place = getattr(books, path[0])
        for key in path[1:-1]:
            place = place[key]
        if isinstance(place, dict):
            place[path[-1]] = value
        elif isinstance(path[-1], int):
            place[path[-1]] = value
        else:
            setattr(place, path[-1], value)

    return alter


def move(event, target, seconds):
    def alter(play, books):
        one = arrival(play, getattr(play, event), target)
        one.at += seconds
        one.answered_at += seconds

    return alter


def arrives(event, target, at=None):
    """Something arrives that should not."""

    def alter(play, books):
        entry = play.entries.pop((getattr(play, event).root, target), None)
        before = play.now
        play.now = before if at is None else getattr(play, event).began + at
        play.answer(getattr(play, event), target, 200)
        play.now = before
        if entry:
            play.entries[getattr(play, event).root, target] = entry

    return alter


def remove_entry(event, target):
    def alter(play, books):
        del books.entries[getattr(play, event).root, target]

    return alter


def use_identifier_of(event, target):
    def alter(play, books):
        other = arrival(play, getattr(play, event), target)
        set_header("apns-id", other.header("apns-id"))(play, books)

    return alter


def copy_from_queue(play, books):
    """What one queue's campaign sends comes through the other's worker, too."""
    one = copy.copy(arrival(play, play.all, A))
    one.number, one.door = len(play.arrivals) + 1, "production/1"
    play.arrivals.append(one)


def another_broadcast_channel(play, books):
    one = arrival(play, play.broadcast, SHOP.channels[0])
    one.headers = [(n, "b3RoZXI=" if n == "apns-channel-id" else v) for n, v in one.headers]


def rolled_back(play, books):
    one = copy.copy(arrival(play, play.alert, A))
    one.number, one.body = len(play.arrivals) + 1, message(8).payload.encode()
    play.arrivals.append(one)


def second_end(play, books):
    play.entries[play.alert.root, A].append(Entry("delivered", "", play.now, 7))


def forget_feedback(play, books):
    books.feedback.pop(0)


def reactivate_dead(play, books):
    """The device is brought back by its token, and its producer is not told."""
    play.events.append(Event(s.Reactivate(SHOP.name, (B,)), play.now, play.now + 0.01))
    books.devices[SHOP.name, B] = dataclasses.replace(books.devices[SHOP.name, B], active=True, reason=None)


def list_registered(play, books):
    """The app registers the device, and only then is it listed as dead."""
    play.events.append(Event(s.Register(SHOP.name, B), play.now, play.now + 0.01))
    books.devices[SHOP.name, B] = dataclasses.replace(books.devices[SHOP.name, B], active=True, reason=None)
    books.feedback[0].listed_at = play.now + 5


def follow(other):
    """A producer reads one more, like the first but for this."""

    def alter(play, books):
        cursor = play.followed[-1].cursor + 1
        play.followed.append(dataclasses.replace(play.followed[0], **{"cursor": cursor, **other}))

    return alter


def set_followed(**values):
    def alter(play, books):
        play.followed[0] = dataclasses.replace(play.followed[0], **values)

    return alter


def flood(play, books):
    """Many at once, of a queue with a rate."""
    for number in range(40):
        duplicate("all", A, at=number / 1000)(play, books)


def unreported_feedback(play, books):
    books.feedback.append(FeedbackRow(SHOP.name, E, "Unregistered", play.now, play.now, "deactivated"))


def set_exit(**values):
    def alter(play, books):
        books.exits[0] = dataclasses.replace(books.exits[0], **values)

    return alter


def leave_unanswered(times, ends="unknown"):
    """A push that may be sent again stays unanswered so often."""

    def alter(play, books):
        set_entry("alert", A, kind=ends)(play, books)
        for number in range(times - 1):
            duplicate("alert", A, at=31.0 * (number + 1))(play, books)
        for one in play.arrivals:
            if one.body == play.alert.operation.message.payload.encode() and one.target == A:
                one.decision, one.answered_at = Decision("silent"), None

    return alter


def retry_inactive(seconds):
    """A push that was refused is tried again, and its device was deactivated so long after the refusal."""

    def alter(play, books):
        refused = arrival(play, play.list, F)
        at = refused.answered_at + seconds
        play.events.append(Event(s.Deactivate(SHOP.name, (F,)), at, at + 0.01))
        play.events.append(Event(s.Reactivate(SHOP.name, (F,)), play.now, play.now + 0.01))

    return alter


def retry_nothing(play, books):
    """A command that sends nothing again to who had failed."""
    root = play.strict.root
    play.events.append(Event(s.RetryFailed(SHOP.name), play.now, play.now + 0.1, root=root, job=root))


def lapse_undisturbed(play, books):
    play.lease = 15
    books.lapsed.append(LapsedLease(play.now, set()))


# What is altered, and the kind under which it has to be found.
ALTERATIONS = {
    "two tokens swapped": (swap_tokens, "stranger"),
    "a push at the neighbour of its device": (to_neighbour, "stranger"),
    "a byte of a payload": (change_payload, "payload"),
    "a push that arrived again after 200": (duplicate("alert", A), "sent twice"),
    "a push that arrived again after 410": (duplicate("list", B), "sent twice"),
    "a push at most once that arrived again without an answer": (duplicate("strict", E), "sent twice"),
    "a push that never arrived": (drop("alert", A), "outcome"),
    "a recipient who is nowhere": (lambda p, b: (drop("alert", A)(p, b), remove_entry("alert", A)(p, b)), "left out"),
    "a push to a device that the filter does not hold for": (arrives("some", C), "stranger"),
    "a device that a filter holds for, and that is nowhere": (
        lambda p, b: (drop("some", B)(p, b), remove_entry("some", B)(p, b)),
        "left out",
    ),
    "a recipient who is not in the books": (remove_entry("alert", A), "outcome"),
    "an attempt that was never made": (drop("strict", D), "outcome"),
    "another environment": (copy_from_queue, "environment"),
    "another topic": (set_header("apns-topic", "com.example.shop.voip"), "topic"),
    "no topic": (set_header("apns-topic", None), "topic"),
    "another push type": (set_header("apns-push-type", "background"), "header"),
    "a priority too many": (set_header("apns-priority", "10"), "header"),
    "a priority too few": (set_header("apns-priority", None, "list", B), "header"),
    "another expiration": (set_header("apns-expiration", "1", "all"), "header"),
    "no expiration": (set_header("apns-expiration", None, "all"), "header"),
    "the collapse ID of another recipient": (
        set_header("apns-collapse-id", "00000000-0000-8065-8000-000000000005"),
        "collapse ID",
    ),
    "no collapse ID": (set_header("apns-collapse-id", None), "collapse ID"),
    "another collapse ID": (set_header("apns-collapse-id", "other", "all"), "collapse ID"),
    "a header that nobody asked for": (set_header("x-debug", "1"), "header"),
    "another method": (set_header(":method", "PUT"), "header"),
    "no provider token": (set_header("authorization", None), "credential"),
    "the provider token of another key": (set_header("authorization", provider_token(key="OTHER12345")), "credential"),
    "the provider token of another team": (
        set_header("authorization", provider_token(team="OTHER12345")),
        "credential",
    ),
    "an old provider token": (set_header("authorization", provider_token(issued=START - 4000)), "credential"),
    "a connection of another tenant": (share_connection, "connection"),
    "no certificate": (lambda p, b: setattr(arrival(p, p.all, A), "certificate", ""), "credential"),
    "another certificate": (
        lambda p, b: setattr(arrival(p, p.all, A), "certificate", "com.example.shop 03EA"),
        "credential",
    ),
    "the identifier of another recipient": (use_identifier_of("alert", E), "identifier"),
    "another identifier on the second try": (
        set_header("apns-id", "00000000-0000-8065-8000-0000000000ff", "list", F),
        "identifier",
    ),
    "an identifier in upper case": (set_header("apns-id", "00000000-0000-8065-8000-0000000000FF"), "identifier"),
    "no identifier": (set_header("apns-id", None), "identifier"),
    "a broadcast to another channel": (another_broadcast_channel, "stranger"),
    "what was rolled back": (rolled_back, "sent, though not accepted"),
    "a push before its time": (arrives("ahead", A, at=1), "too early"),
    "a push after its end": (arrives("expired", A, at=20), "too late"),
    "a push after its campaign was cancelled": (arrives("stopped", A), "cancelled"),
    "a push that was cancelled before its time": (arrives("called_off", A, at=1.2), "cancelled"),
    "a cancelled recipient who is nowhere": (remove_entry("called_off", A), "left out"),
    "a push tried again though its device is inactive by then": (retry_inactive(0.5), "not to be sent"),
    "given up after one loss": (leave_unanswered(1), "outcome"),
    "failed recipients who are not sent to again": (retry_nothing, "not sent again"),
    "a push while its queue was paused": (arrives("expired", A, at=1), "paused"),
    "a push to an inactive device": (arrives("alert", C, at=0.5), "not to be sent"),
    "a push to a user whose device is another's by now": (arrives("hands", F, at=2), "stranger"),
    "a push to a listed user whose device is another's by now": (arrives("listed", G, at=2), "not to be sent"),
    "a push to a user who is not on the list": (arrives("listed", E, at=2), "stranger"),
    "a device of a listed user that is nowhere": (
        lambda p, b: (drop("listed", F)(p, b), remove_entry("listed", F)(p, b)),
        "left out",
    ),
    "an older update behind a newer one": (arrives("old", A, at=40), "not to be sent"),
    "an older update before a newer one that was there": (arrives("older", A, at=0.25), "not to be sent"),
    "delivered instead of suppressed": (set_entry("alert", C, kind="delivered"), "outcome"),
    "suppressed instead of delivered": (set_entry("alert", A, kind="suppressed"), "outcome"),
    "rejected instead of delivered": (set_entry("alert", A, kind="rejected", reason="Unregistered"), "outcome"),
    "delivered instead of rejected": (set_entry("list", B, kind="delivered", reason=""), "outcome"),
    "another reason": (set_entry("list", B, reason="ExpiredToken"), "outcome"),
    "other words": (set_entry("list", G, note="Nobody"), "outcome"),
    "unknown instead of delivered": (set_entry("alert", A, kind="unknown"), "outcome"),
    "suppressed instead of unknown": (set_entry("strict", E, kind="suppressed"), "outcome"),
    "expired before its time": (set_entry("expired", A, ended_at=START), "outcome"),
    "expired without a reason": (set_entry("alert", C, kind="expired"), "outcome"),
    "cancelled without a reason": (set_entry("alert", C, kind="cancelled"), "outcome"),
    "failed with another reason": (set_entry("strict", D, reason="ServiceUnavailable"), "outcome"),
    "failed at the first attempt": (set_entry("list", F, kind="failed", reason="TooManyRequests"), "outcome"),
    "two outcomes": (second_end, "outcome"),
    "an outcome of one that waits": (set_entry("ahead", A, run_at=START), "outcome"),
    "the text of another": (swap_texts, "text"),
    "a text in another language": (set_text(C, b"Hallo", b"Hi"), "text"),
    "a value that was read as a placeholder": (set_text(C, b"{{x}}", b""), "text"),
    "a value whose marks were lost": (set_text(B, b'\\"A\\"', b"A"), "text"),
    "one who lacks nothing, left out": (leave_out, "outcome"),
    "more than a frequency cap allows": (brings_too_many(), "cap"),
    "more than it allows, at the end of its period": (brings_too_many(86_400 - 15), "cap"),
    "one held back that had not had enough": (hold_back("more", C), "outcome"),
    "one held back by a cap that is not for what is urgent": (hold_back("urgent", B), "outcome"),
    "one held back without a cap": (hold_back("alert", A), "outcome"),
    "one held back because of what was refused": (refuse_first, "outcome"),
    "how many a cap held back": (set_book(["shown", (TEST.name, "more"), "frequency_cap"], 0), "sum"),
    "a push where clocks show another time": (arrives("local", C), "stranger"),
    "a push where nobody knows what clocks show": (arrives("local", A), "stranger"),
    "one whose clocks show the time, and who is nowhere": (
        lambda p, b: (drop("local", B)(p, b), remove_entry("local", B)(p, b)),
        "left out",
    ),
    "the payload of another share": (swap_shares, "share"),
    "one of a holdout who gets something": (arrives("split", E), "stranger"),
    "one of a holdout who is a recipient": (
        lambda p, b: b.entries.update({(p.split.root, E): [Entry("suppressed", "", START, 1)]}),
        "stranger",
    ),
    "one of a variant who is nowhere": (
        lambda p, b: (p.arrivals.remove(next(a for a in p.arrivals if a.body == message(19).payload.encode())), remove_entry("split", D)(p, b)),
        "left out",
    ),
    "the count of a share": (set_book(["shown", (SHOP.name, "split-27"), "shares", 1, "delivered"], 0), "sum"),
    "the size of a holdout": (set_book(["shown", (SHOP.name, "split-27"), "shares", 2, "total"], 2), "sum"),
    "a start at a token for what is started otherwise": (starts_other, "stranger"),
    "a start at a token for alerts": (arrives("kick_off", A), "stranger"),
    "a start without a collapse ID": (set_header("apns-collapse-id", None, "kick_off", H), "collapse ID"),
    "a start that would be dropped": (drops_start, "call"),
    "a push in quiet hours": (wake, "quiet hours"),
    "a push right before the end of quiet hours": (move("night", D, -8.5), "quiet hours"),
    "one that waits, though it has no quiet hours": (wait_outside, "waited"),
    "one that waits until after its time": (wait_too_long, "waited"),
    "one that waits until before the end of its quiet hours": (wait_until(-2), "waited"),
    "one that waits for longer than the release": (wait_until(960), "waited"),
    "one that is due and waits": (wait_until(-1790), "outcome"),
    "many that wait until the same moment": (release_at_once, "release"),
    "quiet hours that are no longer than the time for a push": (set_entry("night", E, kind="suppressed", reason=QUIET), "outcome"),
    "the number of those who wait": (set_book(["shown", (TEST.name, "asleep 0"), "in_quiet_hours"], 2), "sum"),
    "the number of those held back for too long": (set_book(["shown", (TEST.name, "dusk"), "quiet_hours"], 0), "sum"),
    "another try sooner than was asked for": (move("list", F, 1.95), "too soon"),
    "more than the rate of a queue": (flood, "rate"),
    "a channel that is gone, and not retired": (set_book(["retired", (TEST.name, "Z29uZQ==")], False), "channel"),
    "a channel that is there, and retired": (set_book(["retired", (SHOP.name, SHOP.channels[0])], True), "channel"),
    "a recipient of nothing": (lambda p, b: b.entries.update({(7, A): [Entry("delivered", "", START, 1)]}), "stranger"),
    "a recipient too many": (
        lambda p, b: b.entries.update({(p.alert.root, H): [Entry("suppressed", "", START, 1)]}),
        "stranger",
    ),
    "a count of a job": (set_book(["tallies", 0], (1, {"delivered": 2}, {"delivered": 3})), "sum"),
    "a count of a campaign": (set_book(["campaigns", (SHOP.name, "list"), "delivered"], 2), "sum"),
    "the total of a campaign": (set_book(["campaigns", (SHOP.name, "list"), "total"], 5), "sum"),
    "what a command shows of a campaign": (set_book(["shown", (SHOP.name, "list"), "rejected"], 1), "sum"),
    "a count of a queue": (set_book(["stats", SHOP.name, "suppressed"], 1), "sum"),
    "the devices of a queue": (set_book(["stats", SHOP.name, "inactive"], 1), "sum"),
    "a dead device that stays active": (set_book(["devices", (SHOP.name, B)], DeviceRow(True, None, "user")), "device"),
    "one that came back, deactivated": (
        set_book(["devices", (SHOP.name, E)], DeviceRow(False, "Unregistered", None)),
        "device",
    ),
    "a reason that APNs never gave": (
        set_book(["devices", (SHOP.name, B)], DeviceRow(False, "ExpiredToken", "user")),
        "device",
    ),
    "another user": (set_book(["devices", (SHOP.name, A)], DeviceRow(True, None, "user")), "device"),
    "a device that is gone": (lambda p, b: b.devices.pop((SHOP.name, A)), "device"),
    "a device that nobody made": (set_book(["devices", (TEST.name, G)], DeviceRow(True, None, None)), "device"),
    "an inactive device in the export": (lambda p, b: b.exported[SHOP.name].append(C), "device"),
    "a refusal without feedback": (forget_feedback, "feedback"),
    "feedback that APNs never gave": (unreported_feedback, "feedback"),
    "another time of death": (lambda p, b: setattr(b.feedback[0], "reported_at", START - 3600), "feedback"),
    "a dead device that was kept": (lambda p, b: setattr(b.feedback[0], "verdict", "kept"), "feedback"),
    "feedback that a command does not list": (lambda p, b: b.listed[SHOP.name].popitem(), "feedback"),
    "a deactivation that its producer missed": (lambda p, b: p.followed.clear(), "followed"),
    "a deactivation that its producer read twice": (follow({}), "followed"),
    "a device that was brought back, and is inactive": (
        set_book(["devices", (SHOP.name, G)], DeviceRow(False, "Unregistered", None)),
        "device",
    ),
    "a deactivation that was undone, and stays": (lambda p, b: setattr(b.feedback[-1], "verdict", "deactivated"), "feedback"),
    "a deactivation that was undone by token, and stays": (reactivate_dead, "feedback"),
    "a deactivation that was listed when the app had registered again": (list_registered, "feedback"),
    "a deactivation that nobody had undone": (lambda p, b: setattr(b.feedback[0], "verdict", "undone"), "feedback"),
    "a deactivation that was undone, and should not have been": (
        lambda p, b: setattr(p.undoing, "since", p.now + 10),
        "feedback",
    ),
    "an undoing that its producer missed": (lambda p, b: p.followed.pop(), "followed"),
    "an undoing that its producer read twice": (follow(dict(token=G, verdict="undone")), "followed"),
    "a message whose bytes are others": (lambda p, b: setattr(p.deliveries[1], "body", p.deliveries[1].body + b" "), "webhook"),
    "a message with an old time": (lambda p, b: p.deliveries[1].headers.update({"webhook-timestamp": "1"}), "webhook"),
    "a message without the signature of the new secret": (
        lambda p, b: p.deliveries[3].headers.update({"webhook-signature": p.deliveries[3].headers["webhook-signature"].split()[0]}),
        "webhook",
    ),
    "a message without the signature of the former secret": (
        lambda p, b: p.deliveries[3].headers.update({"webhook-signature": p.deliveries[3].headers["webhook-signature"].split()[1]}),
        "webhook",
    ),
    "a message of another type": (lambda p, b: p.deliveries[1].headers.pop("content-type"), "webhook"),
    "a message to one who has no webhook": (posts(1, tenant="beta"), "webhook"),
    "a message with another tenant's reports": (reposts(2, changed(queue=TEST.name)), "webhook"),
    "a message without a report": (posts(3, lambda entries: [], identifier="feedback_3_4"), "webhook"),
    "a message with too many reports": (
        posts(3, lambda entries: [{**entries[0], "cursor": str(n)} for n in range(4, 300)], identifier="feedback_3_299"),
        "webhook",
    ),
    "a message that came again under another identifier": (posts(3, identifier="feedback_3_9"), "webhook"),
    "a message that came again after it was accepted": (posts(3), "webhook"),
    "a message that came again after others": (posts(1), "webhook"),
    "a message that came again with other reports": (reposts(1, changed(cursor="2")), "webhook"),
    "a message that came when the last one was not accepted": (lambda p, b: setattr(p.deliveries[1], "answer", "drop"), "webhook"),
    "two messages at a time": (lambda p, b: setattr(p.deliveries[1], "ended_at", p.deliveries[2].at + 0.6), "webhook"),
    "a report from before the last message": (posts(3, changed(cursor="0"), identifier="feedback_3_0"), "webhook"),
    "a deactivation that its tenant was not told of": (lambda p, b: p.deliveries.__delitem__(slice(2)), "webhook"),
    "an undoing that its tenant was not told of": (lambda p, b: p.deliveries.pop(), "webhook"),
    "a deactivation that only a server heard of that did not take it": (
        lambda p, b: (setattr(p.deliveries[3], "answer", "drop")),
        "webhook",
    ),
    "a report of another device": (reposts(3, changed(token=A)), "webhook"),
    "a report of another time": (reposts(3, changed(reported_at="2026-01-01T00:00:00.000000Z")), "webhook"),
    "a report of another campaign": (reposts(1, changed(campaign="all")), "followed"),
    "a report with another apns-id": (reposts(1, changed(apns_id="00000000-0000-8066-8000-0000000000ff")), "followed"),
    "a cursor that was given to two": (lambda p, b: p.followed.append(dataclasses.replace(p.followed[0], token=D)), "followed"),
    "a deactivation that never was": (follow(dict(token=A)), "followed"),
    "one that was only kept": (follow(dict(token=D)), "followed"),
    "a deactivation by another push": (set_followed(root=101), "followed"),
    "a deactivation by another campaign": (set_followed(key="all"), "followed"),
    "a deactivation with another apns-id": (set_followed(identifier="00000000-0000-8066-8000-0000000000ff"), "followed"),
    "a number that is too small": (set_figure(2, 3), "badge"),
    "a number that is too large": (set_figure(2, 5), "badge"),
    "a number that was not reset": (set_figure(3, 5), "badge"),
    "a number of another device": (set_figure(0, 7), "badge"),
    "a number that grew when it was sent again": (set_figure(1, 5, 1), "badge"),
    "a number that was taken when it was sent again": (set_figure(1, 2, 1), "badge"),
    "a number of before another push when it was sent again": (set_figure(1, 3, 2), "badge"),
    "no number": (set_figure(2, raising(52, 1).payload.encode()), "badge"),
    "a number in another spelling": (set_figure(2, with_figure(52, 4).replace(b":4", b": 4")), "badge"),
    "a number with a zero before it": (set_figure(2, with_figure(52, 4).replace(b":4", b":04")), "payload"),
    "a preview with too many devices": (set_event(s.PreviewStarts, previewed=(6, 4)), "preview"),
    "a preview with too few devices": (set_event(s.PreviewStarts, previewed=(4, 4)), "preview"),
    "a preview that counts tokens of another type": (set_event(s.PreviewStarts, previewed=(5, 3)), "preview"),
    "a preview that knows of no token": (set_event(s.PreviewStarts, previewed=(5, 5)), "preview"),
    "a start with a channel that nobody knows": (set_event("no channel", error=None), "call"),
    "a traceparent that is not shown": (lambda p, b: setattr(b.traced[p.alert.root][0], "traceparent", None), "trace"),
    "a trace with another apns-id": (
        lambda p, b: setattr(b.traced[p.alert.root][0], "identifier", "00000000-0000-8066-8000-0000000000ff"),
        "trace",
    ),
    "a worker that crashed": (set_exit(code=-5), "worker"),
    "a worker that reports a crash": (set_exit(log="x.swift:1: Fatal error: Index out of range"), "worker"),
    "a token in a log": (set_exit(log=f"cannot send to {A}"), "secret"),
    "a key in a log": (set_exit(log="-----BEGIN PRIVATE KEY-----"), "secret"),
    "a lease that ran out by itself": (lapse_undisturbed, "lease"),
    "a queue that is paused at the end": (set_book(["paused", SHOP.name], "too many bad tokens"), "queue"),
}


class TheJudge(unittest.TestCase):
    def test_finds_nothing_where_all_is_right(self):
        self.assertEqual([str(finding) for finding in findings(Play())], [])

    def test_finds_each_kind_of_altered_record(self):
        for name, (alter, kind) in ALTERATIONS.items():
            with self.subTest(name):
                found = findings(Play(), alter)
                self.assertIn(kind, {finding.kind for finding in found}, [str(finding) for finding in found])

    def test_takes_a_repeat_where_a_lease_ran_out_or_a_connection_was_lost(self):
        def lapse(play, books):
            duplicate("alert", A)(play, books)
            answered = arrival(play, play.alert, A).answered_at
            books.lapsed.append(LapsedLease(answered + play.lease, {(play.alert.root, A)}))

        def lose(play, books):
            duplicate("alert", A)(play, books)
            play.arrivals[-1].connection = 9
            play.ends[1] = arrival(play, play.alert, A).answered_at + 0.1

        def lose_late(play, books):
            """Its end is seen two rounds of ten seconds behind it."""
            lose(play, books)
            play.ends[1] += 15
            answered = arrival(play, play.alert, A).answered_at
            play.late = [(answered - 2, answered + 8), (answered + 8, answered + 18)]

        def answer_late(play, books):
            """The client waits for no longer than half a minute."""
            duplicate("alert", A, at=40)(play, books)
            arrival(play, play.alert, A).answered_at += 35

        for alter in (lapse, lose, lose_late, answer_late):
            self.assertNotIn("sent twice", {finding.kind for finding in findings(Play(), alter)})

    def test_takes_only_the_last_answers_of_a_killed_worker_for_forgotten(self):
        def kill(seconds):
            def alter(play, books):
                killed_at = arrival(play, play.list, B).answered_at + seconds
                play.faults.append(("killed", "production/1", killed_at, killed_at + 0.01))
                set_entry("list", B, kind="unknown", reason="")(play, books)
                forget_feedback(play, books)
                del play.followed[0], play.deliveries[:2]
                del books.listed[SHOP.name]["Unregistered", "deactivated"]
                books.devices[SHOP.name, B] = DeviceRow(True, None, "user")
                books.exported[SHOP.name].append(B)

            return alter

        # The play's counts are not of interest: they still include the answer.
        self.assertEqual({finding.kind for finding in findings(Play(), kill(2))} - {"sum"}, set())
        self.assertEqual({finding.kind for finding in findings(Play(), kill(4))} - {"sum"}, {"outcome", "device"})

    def test_takes_a_repeat_of_what_stayed_unanswered_though_its_device_is_inactive_by_now(self):
        def repeat(is_answered):
            def alter(play, books):
                play.events.append(Event(s.Deactivate(SHOP.name, (E,)), play.now, play.now + 0.01))
                duplicate("alert", E, at=play.now + 25 - arrival(play, play.alert, E).at)(play, books)
                if not is_answered:
                    one = arrival(play, play.alert, E)
                    one.decision, one.answered_at = Decision("silent"), None

            return alter

        self.assertIn("not to be sent", {finding.kind for finding in findings(Play(), repeat(True))})
        self.assertNotIn("not to be sent", {finding.kind for finding in findings(Play(), repeat(False))})

    def test_takes_a_retry_that_may_have_been_taken_up_before_its_device_was_inactive(self):
        # It was due two seconds after it was refused, and came a moment later.
        self.assertNotIn("not to be sent", {finding.kind for finding in findings(Play(), retry_inactive(2.0))})

    def test_takes_more_attempts_only_in_an_outage_of_their_time(self):
        def texts(alter):
            play = Play()
            with unittest.mock.patch.object(SHOP, "attempts", 2):
                return [str(finding) for finding in findings(play, alter)]

        # Of its worker's ten latest answers, four were refusals; without the one, three.
        self.assertFalse([text for text in texts(None) if "tried more than" in text])
        self.assertTrue([text for text in texts(drop("list", F)) if "tried more than" in text])
        with unittest.mock.patch("Oracle.judge.LATEST", 0):
            self.assertTrue([text for text in texts(None) if "tried more than" in text])

    def test_takes_what_was_lost_too_often_for_unknown(self):
        for times, is_found in ((4, True), (5, False)):
            kinds = {finding.kind for finding in findings(Play(), leave_unanswered(times))}
            self.assertEqual("outcome" in kinds, is_found, times)

    def test_takes_another_alert_when_the_period_of_a_cap_is_over(self):
        # The last that it had came shortly before.
        kinds = {finding.kind for finding in findings(Play(), brings_too_many(86_400 + 1))}
        self.assertNotIn("cap", kinds)

    def test_lets_a_cap_hold_back_at_a_turn_long_before_the_job_ended(self):
        def end_late(play, books):
            (entry,) = books.entries[play.more.root, B]
            entry.ended_at = play.more.began + 86_400 + 60

        texts = [str(finding) for finding in findings(Play(), end_late)]
        self.assertFalse([text for text in texts if "had not had so many" in text])

    def test_does_not_say_which_of_two_calls_at_once_came_first(self):
        def state(began, ended):
            device = Device()
            device.changes = [Change(1, 2, True), Change(90, 104.405, False), Change(began, ended, True, "yes")]
            return device.states_by_hand(200)

        self.assertEqual(state(92, 104.407), {True, False})
        self.assertEqual(state(92, 104.5), {True})
        self.assertEqual(state(104.406, 104.407), {True})

    def test_counts_under_a_cap_what_the_binary_interface_was_too_late_to_read(self):
        def unread(is_late):
            def alter(play, books):
                unread = arrival(play, play.some, B)
                play.arrivals.remove(unread)
                play.late = [(unread.at - 1, unread.at + 9)] if is_late else []

            return alter

        for is_late in (True, False):
            play = Play()
            with unittest.mock.patch.object(TEST, "is_binary", True):
                texts = [str(finding) for finding in findings(play, unread(is_late))]
            self.assertEqual(any("had not had so many" in text for text in texts), not is_late, texts)

    def test_counts_those_of_a_cancelled_list_who_were_in_no_job_yet(self):
        def never_made(counted):
            def alter(play, books):
                del books.entries[play.stopped.root, A]
                books.stats[SHOP.name]["cancelled"] += counted - 1

            return alter

        self.assertEqual([str(finding) for finding in findings(Play(), never_made(1))], [])
        self.assertEqual({finding.kind for finding in findings(Play(), never_made(0))}, {"sum"})

    def test_gives_workers_time_to_learn_of_quiet_hours(self):
        def set_before(seconds):
            def alter(play, books):
                ((_, _, setting),) = play.quiet[TEST.name]
                at = arrival(play, play.night, D).at - 8.5 - seconds
                play.quiet[TEST.name] = [(at - 1, at, setting)]
                move("night", D, -8.5)(play, books)

            return alter

        for seconds, is_found in ((1, False), (15, False), (25, True)):
            kinds = {finding.kind for finding in findings(Play(), set_before(seconds))}
            self.assertEqual("quiet hours" in kinds, is_found, seconds)

    def test_takes_a_push_in_quiet_hours_that_do_not_hold_it(self):
        def urgent(play, books):
            wake(play, books)
            play.asleep[0].operation = dataclasses.replace(play.asleep[0].operation, urgent=True)

        def none(play, books):
            wake(play, books)
            play.asleep[0].quiet_hours = "none"

        for alter in (urgent, none):
            self.assertNotIn("quiet hours", {finding.kind for finding in findings(Play(), alter)})

    def test_knows_when_clocks_show_quiet_hours(self):
        def at(text):
            return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()

        for clock, hours, answer in [
            ("21:59:59", "22:00-08:00", False),
            ("22:00:00", "22:00-08:00", True),
            ("07:59:59", "22:00-08:00", True),
            ("08:00:00", "22:00-08:00", False),
            ("12:00:06", "11:00-12:00:07", True),
            ("12:00:07", "11:00-12:00:07", False),
        ]:
            self.assertEqual(is_quiet(datetime.time.fromisoformat(clock), hours), answer, (clock, hours))
        for zone, hours, since, began, ended in [
            ("Asia/Kolkata", "22:00-08:00:30", "2026-11-23T12:00Z", "2026-11-23T16:30Z", "2026-11-24T02:30:30Z"),
            # Clocks show 03:00 after 01:59:59, and what is from 02:00 to 03:00 twice.
            ("Europe/Vienna", "22:00-02:30", "2026-03-28T12:00Z", "2026-03-28T21:00Z", "2026-03-29T01:00Z"),
            ("Europe/Vienna", "22:00-03:00", "2026-10-24T12:00Z", "2026-10-24T20:00Z", "2026-10-25T02:00Z"),
        ]:
            self.assertEqual(nights(hours, zone, at(since), at(since) + 86_400)[0], (at(began), at(ended)), zone)
        # An hour that clocks show twice is quiet twice.
        twice = nights("02:10-02:50", "Europe/Vienna", at("2026-10-24T12:00Z"), at("2026-10-25T12:00Z"))
        self.assertEqual([ended - began for began, ended in twice], [2400, 2400])

    def test_knows_when_many_are_released_at_once(self):
        quiet = Quiet(Model(s.Episode(1, [], 1, Mood(), []), History(), Record([], {}, set(), []), {}), Record([], {}, set(), []))
        quiet.crowds[7, START] = collections.Counter({START + 3: 99})
        self.assertEqual(list(quiet.unspread()), [])
        quiet.crowds[7, START][START + 3] += 1
        self.assertEqual(len(list(quiet.unspread())), 1)
        quiet.crowds[7, START][START + 4] += 1
        self.assertEqual(list(quiet.unspread()), [])
        # Six sends to one device come at one time. Those to six devices do not all come early, late, or at once.
        for offsets, is_wrong in [
            ([0.02] * 6, False),
            ([0.02 * number for number in range(5)], False),
            ([0.015 * number for number in range(6)], True),
            ([1 - 0.015 * number for number in range(1, 7)], True),
            ([0.0] * 5, False),
            ([0.0] * 6, True),
        ]:
            quiet.parts = {(root, START, START + 900 * offset, offset) for root, offset in enumerate(offsets)}
            self.assertEqual(len(list(quiet.unspread())), is_wrong, offsets)

    def test_counts_no_message_that_waits_for_its_paused_campaign_or_for_the_end_of_quiet_hours(self):
        def complaints(begins, arrived, waits, is_paused):
            """Of messages that raise the badge by one, each with its arrivals: a time, a status and a number."""
            sendings, arrivals = [], {}
            for root, began in enumerate(begins):
                event = types.SimpleNamespace(operation=s.Campaign(SHOP.name, str(root), raising(root, 1)))
                sending = types.SimpleNamespace(
                    event=event, queue=SHOP, message=raising(root, 1), root=root, begins=began, may={A}
                )
                sending.is_broadcast, sending.retried = False, 0
                sendings.append(sending)
                arrivals[root, A] = [
                    types.SimpleNamespace(at=at, status=status, text=with_figure(root, number))
                    for at, status, number in arrived[root]
                ]
            pauses = [types.SimpleNamespace(operation=s.PauseCampaign(SHOP.name, str(root))) for root in waits if is_paused]
            model = types.SimpleNamespace(
                sendings=sendings,
                resets=collections.defaultdict(list),
                history=types.SimpleNamespace(events=pauses),
                message=lambda sending, target: sending.message,
                given=lambda sending, target: sending.message.payload,
            )
            quiet = types.SimpleNamespace(is_for=lambda sending: sending.root in waits and not is_paused)
            return list(Badges(model, arrivals, {}, quiet).complaints())

        # The second one was refused with a number that counts the first one, which then waited.
        lower = [0, 1], [[(20, 200, 2)], [(2, 503, 2), (10, 200, 1)]]
        # The first one was refused and waited, and the second one does not count it.
        uncounted = [0, 5], [[(2, 503, 1), (20, 200, 2)], [(6, 200, 1)]]
        # The first one had arrived.
        arrived = [0, 1], [[(1.5, 200, 1)], [(2, 503, 2), (10, 200, 1)]]
        for begins, arrivals in (lower, uncounted, arrived):
            for is_paused in (True, False):
                found = complaints(begins, arrivals, {0}, is_paused)
                self.assertEqual(bool(found), arrivals is arrived[1], found)
            self.assertTrue(complaints(begins, arrivals, set(), False))

    def test_takes_a_message_again_where_its_worker_was_lost_or_its_webhook_was_set(self):
        def kill(play, books):
            posts(3)(play, books)
            play.faults.append(("killed", "production/1", play.deliveries[3].at, play.deliveries[3].at + 0.1))

        def set_again(play, books):
            posts(3, at=(3, 0.1))(play, books)
            play.set_webhooks["acme"] = [(play.deliveries[3].at, play.deliveries[3].at + 0.05, None)]

        for alter in (kill, set_again):
            self.assertEqual([f for f in findings(Play(), alter) if f.kind == "webhook"], [])

    def test_knows_of_changes_of_a_cap(self):
        def change(cap, seconds, alter):
            def do(play, books):
                at = play.more.began - seconds
                play.caps[TEST.name].append((at, at + 0.1, cap))
                alter(play, books)

            return do

        urgent = dataclasses.replace(TEST.cap, includes_urgent=True)
        for name, alter, kind, is_found in [
            ("lifted, and one more comes", change(None, 1, brings_too_many()), "cap", False),
            ("raised, and one more comes", change(s.Cap(3, 86_400), 30, brings_too_many()), "cap", False),
            ("raised, and another comes", change(s.Cap(3, 86_400), 30, hold_back("more", C)), "outcome", True),
            ("lifted, and one is held back", change(None, 1, lambda p, b: None), "outcome", False),
            ("lifted for long, and one is held back", change(None, 30, lambda p, b: None), "outcome", True),
            ("another one after it was lifted", change(TEST.cap, 1, change(None, 40, brings_too_many())), "cap", False),
            ("now for urgent ones, too", change(urgent, 40, lambda p, b: None), "cap", True),
        ]:
            with self.subTest(name):
                self.assertEqual(kind in {finding.kind for finding in findings(Play(), alter)}, is_found)

    def test_knows_when_a_day_began_where_a_device_is(self):
        for zone, time, began in [
            ("Europe/Vienna", "2026-11-23T22:59Z", "2026-11-22T23:00Z"),
            ("Europe/Vienna", "2026-11-23T23:00Z", "2026-11-23T23:00Z"),
            ("Asia/Kolkata", "2026-11-23T18:29Z", "2026-11-22T18:30Z"),
            # A day that has 25 hours, and one that begins at one o'clock.
            ("Europe/Vienna", "2026-10-25T22:30Z", "2026-10-24T22:00Z"),
            ("Africa/Cairo", "2026-04-24T00:30Z", "2026-04-23T22:00Z"),
        ]:
            time, began = (datetime.datetime.fromisoformat(x.replace("Z", "+00:00")).timestamp() for x in (time, began))
            self.assertEqual(day_began(zone, time), began, zone)

    def test_does_not_take_a_repeat_over_a_connection_that_lasted(self):
        def lose(play, books):
            duplicate("alert", A)(play, books)
            answered = arrival(play, play.alert, A).answered_at
            play.ends[1] = answered + 15
            play.late = [(answered + 1, answered + 8), (answered + 8, answered + 18)]

        self.assertIn("sent twice", {finding.kind for finding in findings(Play(), lose)})

    def test_does_not_take_a_repeat_of_what_a_flush_before_had_known(self):
        def lapse(play, books):
            duplicate("alert", A)(play, books)
            answered = arrival(play, play.alert, A).answered_at
            books.lapsed.append(LapsedLease(answered + play.lease + 60, {(play.alert.root, A)}))

        self.assertIn("sent twice", {finding.kind for finding in findings(Play(), lapse)})


class Episodes(unittest.TestCase):
    def test_are_the_same_for_the_same_seed(self):
        for size in ("short", "long"):
            self.assertEqual(generate(7, size), generate(7, size))
            self.assertNotEqual(generate(7, size), generate(8, size))

    def test_of_the_short_form_have_every_kind_of_operation_but_one_that_takes_long(self):
        episodes = [generate(seed) for seed in SHORT_SEEDS]
        done = {type(operation) for episode in episodes for operation in episode.operations}
        done |= {s.Send for operation in done if operation is s.Transaction}
        kinds = {kind for kind in vars(s).values() if isinstance(kind, type) and hasattr(Driver, kind.__name__.lower())}
        self.assertEqual(kinds - done, {s.StopWorker})
        queues = [queue for episode in episodes for queue in episode.queues]
        self.assertEqual({queue.is_binary for queue in queues}, {True, False})
        self.assertEqual({queue.credential.kind for queue in queues}, {"token", "certificate"})
        filtered = [o for e in episodes for o in e.messages if getattr(o, "filter", None)]
        self.assertGreater(len(filtered), 1)
        self.assertTrue(any(getattr(o, "local_zone", None) for e in episodes for o in e.messages))
        caps = [queue.cap for queue in queues if queue.cap is not None]
        self.assertEqual({cap.includes_urgent for cap in caps}, {True, False})
        self.assertEqual({cap.seconds is None for cap in caps}, {True, False})
        self.assertTrue(any(episode.webhooks for episode in episodes))
        self.assertTrue(any(o.message.starts for e in episodes for o in e.messages if isinstance(o, s.Campaign)))
        quiet = [queue.quiet for queue in queues if queue.quiet is not None]
        self.assertTrue(any(hours.begins < 0 < hours.ends < 60 for hours in quiet), "none end soon")
        self.assertEqual({hours.includes_urgent for hours in quiet}, {True, False})
        own = [o.quiet for e in episodes for o in e.messages if getattr(o, "quiet", None)]
        self.assertEqual({hours == "none" for hours in own}, {True, False})
        for share in ("dead", "bad", "busy", "stubborn", "reset", "go_away", "channel_gone"):
            self.assertTrue(any(getattr(episode.mood, share) for episode in episodes), share)

    def test_have_no_two_messages_with_one_payload(self):
        for seed in range(20):
            messages = {operation.message for operation in generate(seed).messages}
            messages |= {v.message for o in generate(seed).messages for v in getattr(o, "variants", ())}
            self.assertEqual(len({message.payload.strip() for message in messages}), len(messages))

    def test_have_filters_that_mean_what_they_say(self):
        device = Profile("de-AT", "2.10", ("vip",), (("plan", "pro"), ("visits", 7)))
        for tree, written, answer, of_nobody in [
            (("locale", "=", "de"), "locale = 'de'", True, False),
            (("locale", "!=", "de-AT"), "locale != 'de-AT'", False, True),
            (("version", ">", "2.9"), "app_version > 2.9", True, False),
            (("version", "!=", "2.10"), "app_version != 2.10", False, True),
            (("not", ("version", "<", "2.10")), "not app_version < 2.10", True, True),
            (("plan in", ("pro", "Team")), "attribute plan in ('pro', 'Team')", True, False),
            (("visits", ">=", 7), "attribute visits >= 7", True, False),
            (("visits", "=", "7"), "attribute visits = '7'", False, False),
            (("or", ("tag", "o'neil; --"), ("missing", "tag")), "(tag 'o''neil; --' or tag is missing)", False, True),
        ]:
            with self.subTest(written):
                self.assertEqual(text(tree), written)
                self.assertEqual((holds(tree, device), holds(tree, Profile())), (answer, of_nobody))

    def test_are_sent_where_clocks_show_a_time(self):
        zones = {"UTC", "Europe/Vienna", "America/Los_Angeles", "Asia/Kolkata"}
        at = datetime.datetime(2026, 11, 23, 15, 0, 59, tzinfo=datetime.timezone.utc).timestamp()
        for local, if_passed, wanted in [
            ("2026-11-23T15:00", None, {"UTC"}),
            ("2026-11-23T15:01", None, {"Europe/Vienna"}),
            ("2026-11-23T20:30", None, {"Asia/Kolkata"}),
            ("2026-11-23T20:31", "now", set()),
            ("2026-11-23T07:00", "never", {"America/Los_Angeles"}),
            ("2026-11-23T07:00", "now", zones),
        ]:
            self.assertEqual(zones_to_send_to(zones, local, at, if_passed), wanted, local)

    def test_have_campaigns_with_shares_as_the_documentation_divides_them(self):
        campaigns = [o for seed in SHORT_SEEDS for o in generate(seed).messages if getattr(o, "has_shares", False)]
        self.assertTrue(any(campaign.variants for campaign in campaigns))
        self.assertTrue(any(campaign.holdout for campaign in campaigns))
        autumn = s.Campaign("", "autumn", message(1), variants=(s.Variant("b", "0.45", message(2)),), holdout="0.1")
        for device in range(1, 1000):
            digest = hashlib.sha256(b"autumn\0" + device.to_bytes(8, "big")).digest()
            point = int.from_bytes(digest[:4], "big") / 2**32
            self.assertEqual(share_of(autumn, device), "holdout" if point < 0.1 else "payload" if point < 0.55 else "b")

    def test_are_answered_alike_whatever_the_time(self):
        mood = Mood(dead=0.3, busy=0.3, reset=0.3)
        one = [decide(1, mood, "production", A, b"{}", n) for n in range(1, 20)]
        self.assertEqual(one, [decide(1, mood, "production", A, b"{}", n) for n in range(1, 20)])
        self.assertNotEqual(one, [decide(2, mood, "production", A, b"{}", n) for n in range(1, 20)])


if __name__ == "__main__":
    unittest.main()
