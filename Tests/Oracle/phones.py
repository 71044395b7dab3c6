"""An episode of persons with phones whose tokens change, and what each person would notice.

Apps get new tokens, go back to earlier ones, log out and in again as somebody else, while messages wait for them. The
judge asks of each message and each phone: did it arrive once, on the token that the phone had then, for the person whom
it was meant for? It knows no devices and no pointers from one token to the next; a phone here is what it is outside.

Times are seconds since 1970, by the clock of one machine. What a call did took effect between its beginning and its
end."""

import collections
import csv
import dataclasses
import datetime
import io
import json
import random
import threading
import time

from . import scenario as s
from .apns import Mood
from .driver import add_credential
from .judge import Finding

QUEUE = "acme/com.example.Phones/production"
# How long a push may be under way to APNs after it was claimed, on a busy machine.
HOLD = 3.0
# How long after its time a push may be sent, on a busy machine: until then, what happens to its phone may matter.
LATE = 12.0
WAIT = 90.0  # until everything has an outcome
SECONDS = 30.0  # in which phones live and messages are sent
# Some pushes are refused for the moment: what happens to their phones meanwhile matters when they are tried again.
MOOD = Mood(busy=0.03, broken=0.03)
WORKERS = 4  # so many processes follow each other, one at a time


@dataclasses.dataclass
class Step:
    """Something that happened to a phone. `kind`: `newer` (a new token), `again` (the same one), `back` (an earlier one),
    `other` (another user logs in), `out` (the user logs out) or `in` (the user logs in again)."""

    kind: str
    began: float
    ended: float
    token: str
    user: str  # None while nobody is logged in


class Phone:
    def __init__(self, number):
        self.installation = f"phone-{number}"
        # Known from files alone: no app of ours runs on it.
        self.is_imported = number % 4 == 3
        self.steps = []

    @property
    def last(self):
        return self.steps[-1]

    @property
    def tokens(self):
        return [step.token for step in self.steps]

    def between(self, since, until, kinds=("newer", "again", "back", "other", "out", "in")):
        """The steps that may have taken effect in that time."""
        return [step for step in self.steps if step.kind in kinds and step.ended >= since and step.began <= until]

    def possible(self, since, until):
        """The states in which the phone may have been at some time in that time."""
        before = [step for step in self.steps if step.ended < since]
        return before[-1:] + self.between(since, until)


@dataclasses.dataclass
class Message:
    """Something that was sent. `to`: `token`, `tokens`, `user`, `all`, `list` or `users`."""

    number: int
    to: str
    began: float
    ended: float
    due: float
    tokens: tuple = ()
    users: tuple = ()
    raises_badge: bool = False
    root: int = None


class Phones:
    """Carries out an episode and judges it."""

    def __init__(self, stack, seed):
        self.stack, self.seed = stack, seed
        self.dice = random.Random(f"phones {seed}")
        self.phones = [Phone(number) for number in range(self.dice.choice([4, 12, 24]))]
        self.users = [f"user {number}" for number in range(max(2, len(self.phones) // 2))]
        self.messages = []
        self.findings = []
        self.actions = 0
        self.certain = 0  # pairs of a message and a phone of which it is certain that it had to arrive

    def find(self, kind, text):
        self.findings.append(Finding(kind, text))

    # MARK: The episode

    def run(self):
        stack = self.stack
        credential = s.Credential("acme", "signing", "token", team="TEAM123456", key="KEY1234567")
        queue = s.Queue("acme", "com.example.Phones", "production", credential, attempts=3)
        stack.command(stack.admin, "tenant", "create", "acme")
        stack.command(stack.admin, "app", "create", "acme", queue.app)
        stack.command(stack.admin, "queue", "create", queue.name)
        add_credential(stack, credential, [queue])
        stack.start_apns(self.seed, MOOD, ["production"], WORKERS)
        worker = stack.start_worker("production")
        for phone in self.phones:
            self.change(phone, "newer", self.dice.choice(self.users))
        began = time.time()
        end = began + SECONDS
        deploys = sorted(began + self.dice.random() * SECONDS for _ in range(WORKERS - 1))
        replacing = []
        while time.time() < end:
            self.actions += 1
            if self.dice.random() < 0.5:
                self.live(self.dice.choice(self.phones))
            else:
                self.send()
            if deploys and time.time() > deploys[0]:
                deploys.pop(0)
                replacing.append(threading.Thread(target=worker.drain))
                worker = stack.start_worker("production")
                replacing[-1].start()
            time.sleep(self.dice.choice([0, 0, 0.02, 0.1, 0.3]))
        for thread in replacing:
            thread.join()
        self.wait_for_all()
        worker.drain()
        stack.keep_database()
        record = stack.read_record()
        self.judge(record)
        return len(record.arrivals)

    def wait_for_all(self):
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            for message in self.messages:
                state = self.status(message)
                if state is None or state["state"] != "finished":
                    break
            else:
                return
            time.sleep(0.3)
        self.find("stuck", f"{message} is {state} after {WAIT} s")

    def status(self, message):
        rows = self.stack.query("select to_jsonb(s) from pushq.status(%s, %s) s", (QUEUE, message.root))
        return rows[0][0] if rows else None

    # MARK: What phones do

    def live(self, phone):
        """Something happens to a phone."""
        last = phone.last
        if last.user is None and last.kind == "out":
            return self.change(phone, "in" if self.dice.random() < 0.5 else "other", self.dice.choice(self.users))
        kinds = ["newer"] * 6 + ["again"] * 2 + ([] if phone.is_imported else ["back", "other", "out"])
        kind = self.dice.choice(kinds)
        user = self.dice.choice(self.users) if kind == "other" else None if kind == "out" else last.user
        return self.change(phone, kind, user)

    def change(self, phone, kind, user):
        known = phone.tokens
        if kind == "other" and phone.steps and user == phone.last.user:
            kind = "newer"
        if kind == "back" and not set(known) - {known[-1]}:
            kind = "again"
        if kind == "newer" or kind == "other" and self.dice.random() < 0.5:
            token = f"{self.dice.getrandbits(256):064x}"
        elif kind == "back":
            token = self.dice.choice(sorted(set(known) - {known[-1]}))
        else:
            token = known[-1]
        began = time.time()
        if kind == "out":
            self.stack.query("select pushq.unregister_device(%s, %s)", (QUEUE, token))
        elif phone.is_imported:
            self.import_token(token, user, phone.installation)
        else:
            self.stack.query(
                "select pushq.register_device(%s, %s, %s, installation => %s)", (QUEUE, token, user, phone.installation)
            )
        phone.steps.append(Step(kind, began, time.time(), token, user))

    def import_token(self, token, user, installation):
        file = io.StringIO()
        seen = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        csv.writer(file).writerows([["token", "user_key", "installation", "seen_at"], [token, user, installation, seen]])
        self.stack.command(self.stack.admin, "device", "import", QUEUE, "-", stdin=file.getvalue())

    # MARK: What is sent to them

    def send(self):
        dice = self.dice
        number = len(self.messages) + 1
        to = dice.choice(["token"] * 4 + ["tokens", "user", "user", "user", "all", "list", "users"])
        raises = dice.random() < 0.3
        payload = {"aps": {"alert": "x"}, "number": number}
        if raises:
            payload["aps"]["badge"] = {"increment": 1}
        delay = dice.choice([0, 0, 0.2, 1, 2, 4])
        message = Message(number, to, time.time(), 0, 0, raises_badge=raises)
        some = dice.sample(self.phones, min(len(self.phones), 1 if to == "token" else 3))
        if to in ("token", "tokens", "list"):
            # Now and then a producer has not heard of the newest token.
            message.tokens = tuple(
                dice.choice(phone.tokens) if dice.random() < 0.1 else phone.last.token for phone in some
            )
        if to in ("user", "users"):
            message.users = tuple(dice.sample(self.users, 1 if to == "user" else min(3, len(self.users))))
        at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=delay)
        when = at if delay else None
        text = json.dumps(payload)
        if to in ("token", "tokens"):
            sql = "select pushq.send(%s, %s, tokens => %s, run_at => coalesce(%s, now()))"
            values = (QUEUE, text, list(message.tokens), when)
        elif to == "user":
            if not any(phone.last.user == message.users[0] for phone in self.phones):
                return
            sql = "select pushq.send(%s, %s, user_key => %s, run_at => coalesce(%s, now()))"
            values = (QUEUE, text, message.users[0], when)
        elif to == "all":
            sql = "select pushq.start_campaign(%s, %s, %s, start_at => coalesce(%s, now()))"
            values = (QUEUE, f"campaign {number}", text, when)
        elif to == "list":
            sql = "select pushq.start_campaign(%s, %s, %s, tokens => %s, start_at => coalesce(%s, now()))"
            values = (QUEUE, f"campaign {number}", text, list(message.tokens), when)
        else:
            (listed,), = self.stack.query("select pushq.new_list(%s, 'alert')", (QUEUE,))
            self.stack.query("select pushq.add_users_to_list(%s, %s, %s::text[])", (QUEUE, listed, list(message.users)))
            sql = "select pushq.start_campaign(%s, %s, %s, list => %s, start_at => coalesce(%s, now()))"
            values = (QUEUE, f"campaign {number}", text, listed, when)
        (message.root,), = self.stack.query(sql, values)
        message.ended = time.time()
        message.due = max(at.timestamp(), message.ended)
        self.messages.append(message)

    # MARK: The verdict

    def judge(self, record):
        by_number = {message.number: message for message in self.messages}
        owners = {token: phone for phone in self.phones for token in phone.tokens}
        got = collections.defaultdict(list)  # message, phone -> arrivals that APNs took
        refused = collections.defaultdict(list)  # the same of those that it refused for the moment
        for arrival in record.arrivals:
            message = by_number.get(json.loads(arrival.body)["number"])
            phone = owners.get(arrival.path.rsplit("/", 1)[-1])
            if message is None or phone is None:
                self.find("stranger", f"{arrival.path[-64:-56]}… got {arrival.body!r}, and no phone has that token")
                continue
            place = message.number, phone.installation
            known = [a for a in refused[place] if record.may_have_ended(a.connection) > a.answered_at + 0.5]
            self.judge_arrival(arrival, message, phone, max((tried_again_at(a) for a in known), default=0.0))
            if arrival.decision.status == 200:
                got[place].append(arrival)
                continue
            if got[place]:
                self.find("sent twice", f"{self.of(message)} arrived again at {self.story(phone, message)}")
            if arrival.answered_at is not None:
                refused[place].append(arrival)
        for message in self.messages:
            for phone in self.phones:
                place = message.number, phone.installation
                arrivals = got[place]
                if len(arrivals) > 1:
                    self.find("sent twice", f"{self.of(message)} arrived {len(arrivals)} times at {self.story(phone, message)}")
                if self.must_arrive(message, phone, max((tried_again_at(a) for a in refused[place]), default=0.0)):
                    self.certain += 1
                    if not arrivals:
                        self.find("left out", f"{self.of(message)} never came to {self.story(phone, message)}")
            self.judge_status(message, sum(len(got[message.number, phone.installation]) for phone in self.phones))
        self.judge_badges(got, refused)

    def judge_arrival(self, arrival, message, phone, earliest):
        """Whether this phone may get this message on this token at this time. What was refused is looked at anew from
        `earliest` on, before it is tried again."""
        since, token = max(arrival.at - HOLD, earliest), arrival.path.rsplit("/", 1)[-1]
        now = phone.possible(since, arrival.at)
        where = f"{self.of(message)} arrived {arrival.at - message.due:+.2f} s at {self.story(phone, message)}"
        if arrival.at < message.due - 0.05 and message.due > message.ended:
            self.find("too early", where)
        if not any(step.token == token and step.kind != "out" for step in now):
            self.find("old token", f"{where}, on {token[:8]}…, which the phone no longer had")
        if message.to in ("user", "users"):
            if not any(step.user in message.users for step in now):
                self.find("stranger", f"{where}, whose user is {now[-1].user}")
            return
        if message.tokens and not set(message.tokens) & set(phone.tokens):
            self.find("stranger", f"{where}, to which it was not sent")
        # A push to a token goes on to the phone's next ones, but not to those of a person who came after them. Who is
        # meant with all is known when the campaign starts.
        first = set(message.tokens) & set(phone.tokens)
        if message.to == "all":
            first = {step.token for step in phone.possible(message.began, message.due + HOLD)}
        left = [step for step in phone.steps if message.ended < step.began and step.ended < since]
        # From the last time on at which the phone had one of the first: the message was for it again.
        last = max((index for index, step in enumerate(left) if step.token in first and step.kind != "out"), default=-1)
        if token not in first and any(step.kind in ("other", "out") for step in left[last + 1 :] if step.token not in first):
            self.find("passed on", f"{where}, on {token[:8]}…, a token of somebody who came later")

    def must_arrive(self, message, phone, earliest):
        """Whether it is certain that the phone gets the message: its user stayed the same until the message was sent,
        and whatever token it had, it was a new one. `earliest`: when it was tried again for the last time, or 0."""
        last = max(message.due, message.ended, earliest) + LATE
        at_first = phone.possible(message.began, message.ended)
        if any(step.user is None for step in at_first) or phone.between(message.began, last, ("other", "out", "in", "back")):
            return False
        if message.to in ("user", "users"):
            return {step.user for step in at_first} <= set(message.users)
        if message.to == "all":
            return phone.steps[0].ended < message.began
        return len(at_first) == 1 and at_first[0].token in message.tokens

    def judge_status(self, message, arrived):
        status = self.status(message)
        if status is None or status["delivered"] != arrived:
            self.find("sum", f"status of {self.of(message)} says {status}, and {arrived} arrived")
        elif status["delivered"] + status["suppressed"] != status["total"]:
            self.find("sum", f"status of {self.of(message)} says {status}: neither delivered nor suppressed")

    def judge_badges(self, got, refused):
        """The icon of a phone that stayed with its user counts 1, 2, 3 …, whatever its tokens were. A push that is
        refused for the moment counts meanwhile, and then brings a number with those that came before it."""
        for phone in self.phones:
            if any(step.kind in ("other", "out", "in", "back") for step in phone.steps):
                continue
            numbers = sorted(
                json.loads(arrival.body)["aps"]["badge"]
                for message in self.messages
                if message.raises_badge
                for arrival in got[message.number, phone.installation]
            )
            waited = sum(bool(refused[m.number, phone.installation]) for m in self.messages if m.raises_badge)
            is_wrong = numbers != list(range(1, len(numbers) + 1))
            if waited:
                is_wrong = any(not 1 <= number <= len(numbers) + waited for number in numbers)
            if is_wrong:
                self.find("badge", f"the icon of {phone.installation} showed {numbers}")

    @staticmethod
    def of(message):
        whom = [token[:8] + "…" for token in message.tokens] or list(message.users)
        return f"message {message.number} to {message.to} {' '.join(whom)}".rstrip()

    @staticmethod
    def story(phone, message):
        """A phone's life around a message, in seconds from the time at which that was due."""
        steps = [step for step in phone.steps if step.ended < message.began][-1:]
        steps += phone.between(message.began, message.due + LATE)
        lives = [f"{step.began - message.due:+.2f} {step.kind} {step.token[:8]}… {step.user}" for step in steps]
        return f"{phone.installation}, sent {message.began - message.due:+.2f}, {'; '.join(lives)}"


def tried_again_at(refused):
    """The first moment at which a push is tried again that was refused."""
    return refused.answered_at + max(refused.decision.retry_after - 0.05, 0)
