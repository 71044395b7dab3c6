"""The reference model: what had to follow from what was done, in the plainest words that are right.

It knows the episode, what the driver did when, and what the recording APNs answered. It knows nothing of jobs, leases
and cursors. Where two things raced, it allows whatever a person would call right, and no more: a device that was
deactivated while a campaign went on may have got it or not; one that was deactivated before the campaign's start may
not.

Times are seconds since 1970, all by the clock of one machine. What was done by a command took effect somewhere between
its beginning and its end.
"""

import collections
import dataclasses
import math

from . import scenario as s
from .badges import Reset
from .changes import HEEDING
from .clocks import zones_to_send_to
from .filters import Profile, holds
from .personal import number_of, pushed
from .shares import HOLDOUT, PAYLOAD, share_of

SUFFIXES = {
    "voip": ".voip",
    "complication": ".complication",
    "fileprovider": ".pushkit.fileprovider",
    "liveactivity": ".push-type.liveactivity",
    "location": ".location-query",
    "pushtotalk": ".voip-ptt",
    "widgets": ".push-type.widgets",
    "controls": ".push-type.controls",
}
TRANSIENT = {429, 500, 503}
# How long after its claim a push may still be on its way. A worker holds little at a time; a busy machine is slow.
HOLD = 20.0
# A step that finds a campaign's recipients may see what was done so long after the time that it notes for itself.
SNAPSHOT = 1.0
# How long a request may take from its sender until it is read, on a busy machine; and how far the time of sending may be
# off where the books have no other: it is counted back from when they are written.
UNDER_WAY = 5.0
# The same where the recording APNs is kept busy: it reads some three thousand a second, and each worker may have ten thousand under way.
UNDER_WAY_OF_MANY = 15.0
MANY = 100_000
# How long an answer may wait until it is written down: by itself, and where the database was busy or away.
UNWRITTEN = 1.0
UNWRITTEN_AT_MOST = 3.0
# How long silence over the binary interface has to last until it is believed: the grace, and until the peer was heard
# of again.
SILENCE = 4.0
# An answer that a busy machine wrote so long after its time may have met a client that had given its connection up.
LATE_ANSWER = 5.0
LONGEST_EXPIRATION = 2**31 - 1  # what stands for none over the binary interface: the year 2038
DEAD = {"Unregistered", "ExpiredToken"}
SUSPECT = {"BadDeviceToken", "DeviceTokenNotForTopic"}
GONE = "ChannelNotRegistered"


def concerns_device(reason, push_type):
    """Whether a refusal surely says something of the device. A push type with a topic of its own has tokens of its own:
    of another token it says nothing, because that may be good for alerts."""
    return reason in DEAD or reason in SUSPECT and push_type not in SUFFIXES


def may_concern_device(reason, push_type):
    """The same, if the token may be one of that push type."""
    return reason in DEAD or reason in SUSPECT and not (reason == "DeviceTokenNotForTopic" and push_type in SUFFIXES)


# Of two calls at once, a busy machine's clients may hear in another order than they happened.
AT_ONCE = 0.05


@dataclasses.dataclass
class Change:
    """Something that was done to a device. `registers`: yes, no, or perhaps, where the documentation leaves it open; or as
    if, where it is none, and reports from before count no more."""

    began: float
    ended: float
    active: bool
    registers: str = "no"
    is_certain: bool = True  # nobody can say whether it was for this device

    def is_at_once_with(self, change):
        """Whether this one, whose client heard of its end earlier, may have waited for the other one and come after it."""
        return max(change.began, change.ended - AT_ONCE) < self.ended < change.ended


@dataclasses.dataclass
class Report:
    """APNs called a token dead or bad."""

    answered_at: float
    reason: str
    earliest: float  # it is of the time that APNs gave, and of that of sending at the latest; who sent it knows when.
    # Where a worker was lost, nobody does: then it is of the time at which the message was made
    since: float  # and of this at the latest: what APNs gave, or when the request arrived
    is_certain: bool  # the worker must have learned of it
    key: str = None  # of the campaign that was answered so


class Device:
    """One token in one queue."""

    def __init__(self):
        self.changes = []
        self.reports = []
        self.users = []  # (from, until, user): whose it is since a moment between the two
        self.profiles = []  # (from, until, profile): what is known of it, in the same way

    def exists_at(self, time):
        return any(change.began <= time for change in self.changes)

    def states_by_hand(self, time):
        """Whether it is active by what was done to it: one state, or two while something is being done. None: not
        there."""
        states = {None}
        for change in self.changes:
            if change.ended <= time and change.is_certain:
                states = {change.active} | {other.active for other in self.changes if other.is_at_once_with(change)}
            elif change.began <= time:
                states |= {change.active}
        return states

    def registered_after(self, report, time):
        """Whether it registered after what a report is of, as known at `time`: yes, no or perhaps."""
        answer = "no"
        for change in self.changes:
            if change.began > time or not change.active or change.registers == "no":
                continue
            is_registration = change.registers in ("yes", "as if") and change.is_certain
            if change.began > report.since and change.ended <= time and is_registration:
                return "yes"
            if change.ended > report.earliest:
                answer = "perhaps"
        return answer

    def states(self, time, settled=()):
        """Whether it may be active, and inactive, at a time: a set of True, False and None."""
        states = self.states_by_hand(time)
        for report in self.reports:
            if report.answered_at > time or report.reason not in DEAD | SUSPECT or True not in states:
                continue
            later = self.registered_after(report, time)
            if later == "yes":
                continue
            states = states | {False}
            is_over = any(report.answered_at + 0.001 <= moment <= time for moment in settled)
            if is_over and report.is_certain and report.reason in DEAD and later == "no":
                states = states - {True}
        return states

    def moments(self, since, until):
        """Times within which its state does not change: looking at these is looking at all."""
        points = {since, until}
        for change in self.changes:
            points |= {change.began, change.ended}
        for began, ended, _ in self.users + self.profiles:
            points |= {began, ended}
        points |= {report.answered_at for report in self.reports}
        return sorted(point for point in points if since <= point <= until)

    def fits(self, time, users, settled=(), filter=None):
        """Whether it may be one to send to, and one not to: active, of one of the users if the message is for some, and
        as the filter wants it."""
        states = {state is True for state in self.states(time, settled)}
        if filter is not None:
            answers = {holds(filter, profile) for profile in self.current(self.profiles, time, Profile())}
            states = {state and answer for state in states for answer in answers}
        if users is None:
            return states
        owners = self.users_at(time)
        if not owners & users:
            return {False}
        return states if owners <= users else states | {False}

    def may_fit(self, answer, since, until, users=None, settled=(), filter=None):
        return any(answer in self.fits(moment, users, settled, filter) for moment in self.moments(since, until))

    def must_fit(self, since, until, users=None, settled=(), filter=None):
        return all(self.fits(moment, users, settled, filter) == {True} for moment in self.moments(since, until))

    def users_at(self, time):
        """Whose it may be: one user, or two while it changes hands."""
        return self.current(self.users, time, None)

    def users_between(self, since, until):
        return {user for moment in self.moments(since, until) for user in self.users_at(moment)}

    @staticmethod
    def current(changes, time, first):
        """What may be so at a time: one thing, or several while it is being changed."""
        values = {first}
        for began, ended, value in changes:
            if ended <= time:
                values = {value}
            elif began <= time:
                values |= {value}
        return values


@dataclasses.dataclass
class Sending:
    """A message that was accepted, and all that follows for its recipients."""

    event: object
    queue: s.Queue
    message: s.Message
    payload: bytes
    is_broadcast: bool
    begins: float  # not sent before
    ends: float  # not sent after; inf: a day later
    must: set = None  # tokens, or the channel, that have to have an outcome
    may: set = None  # those that may have one
    cancelled: tuple = None  # (from, until) of the call that cancelled it
    unclaimed: list = dataclasses.field(default_factory=list)  # (from, until) in which nothing of it can be claimed
    paused: list = dataclasses.field(default_factory=list)  # the same, in which nothing of it arrives either
    retried: int = 0  # times that its failed recipients were sent to again, for which they have another day
    others: set = None  # tokens of another kind, when it was called
    held_out: tuple = None  # of a campaign with shares: how many devices its holdout has at least, and at most
    listed: tuple = None  # of a list of users: how many devices they have at least, and at most

    @property
    def root(self):
        return self.event.root

    @property
    def users(self):
        """The users it is for: if the device belongs to another user by then, nothing is sent. None: any user."""
        user = getattr(self.event.operation, "user", None)
        users = getattr(self.event.operation, "users", None)
        return frozenset(users) if users is not None else None if user is None else frozenset([user])

    @property
    def topic(self):
        return self.queue.app + SUFFIXES.get(self.message.push_type, "")

    @property
    def last_end(self):
        """Not sent after, retries by hand included."""
        return (self.event.expiration or math.inf) if self.retried else self.ends

    @property
    def is_far_ahead(self):
        return self.begins > self.event.ended + 3600


class Model:
    """What had to follow."""

    def __init__(self, episode, history, record, certificates, fanned_out=None, first_ends=None, numbers=None):
        self.episode, self.history, self.record = episode, history, record
        self.certificates = certificates  # queue -> what its connections show
        self.fanned_out = fanned_out or {}  # (queue, key) -> when a campaign had made all its jobs
        self.first_ends = first_ends or {}  # root -> when the first of its recipients had an outcome
        self.numbers = numbers or {}  # (queue, token) -> the device's number
        self.other_kinds = {}  # (queue, token) -> push type with a topic of its own, if a send of it named it first
        self.were_of_other_kinds = {}  # the same, whatever became of it later
        self.devices = collections.defaultdict(Device)
        self.sendings = []
        self.refused = {}  # payload -> why it was not accepted
        self.refusals = []  # sendings that were not accepted, though no rule of the model says why
        self.resets = collections.defaultdict(list)  # (queue, token) -> numbers that its app showed from then on
        self.previews = []  # calls of a preview with what it may say
        self.undone = []  # pairs of a call that undid deactivations and a token of which it surely undid them
        self.findings = []  # calls that did not return what they had to
        self.by_payload = {}
        self.gone = {}  # (queue, channel) -> when APNs said that there is no such channel
        self.newest = collections.defaultdict(list)  # (queue, target) -> sendings that take others' places, in order
        self.keys = {}
        self.suspended = set()  # tenants, at the operation that is looked at
        self.end = max((event.ended for event in history.events), default=0.0)
        self.settled = [event.ended for event in history.events if isinstance(event.operation, s.Settle)]
        self.recognise()
        self.note_answers()
        for event in history.events:
            self.apply(event)
        for sending in self.sendings + self.refusals:
            self.resolve(sending)
        for sending in self.refusals:
            # A user without an active device is nobody to send to, and a channel that is gone is refused.
            event = sending.event
            is_for_nobody = isinstance(event.operation, s.Send) and sending.users is not None and not sending.must
            is_gone = (
                sending.is_broadcast
                and self.is_gone(sending, event.operation.channel, event.ended)
                and event.error == "PQ409"
            )
            if not is_for_nobody and not is_gone:
                self.expect(event, None)
        self.note_pauses()

    # MARK: Devices

    def recognise(self):
        """Gives the arrivals of a message with several texts its payload as the producer gave it: those of variants have
        one of their own, and each text of a personal message carries its number. What arrived is kept as `text`."""
        personal, plain = {}, {}  # number, or payload -> the operation's payload, and the share that it is for
        for operation in self.episode.messages:
            payload = self.payload_of(operation)
            shares = [(PAYLOAD if getattr(operation, "has_shares", False) else None, operation.message, payload)]
            for variant in getattr(operation, "variants", ()):
                shares.append((variant.name, variant.message, variant.message.payload.strip().encode()))
            for share, message, own in shares:
                if message.number is not None:
                    personal[message.number] = payload, share
                else:
                    plain[own] = payload, share
        for arrival in self.record.arrivals:
            known = plain.get(arrival.body)
            if known is None and personal:
                known = personal.get(number_of(arrival.body))
            arrival.text = arrival.body
            arrival.body, arrival.share = known or (arrival.body, None)

    def share(self, sending, target):
        """The share of a campaign that a device is in; None for what has no shares, or no such device."""
        operation, number = sending.event.operation, self.numbers.get((sending.queue.name, target))
        has_shares = getattr(operation, "has_shares", False) and number is not None
        return share_of(operation, number) if has_shares else None

    def message(self, sending, target):
        """The message that a recipient gets: that of its share."""
        share = self.share(sending, target)
        variants = {variant.name: variant.message for variant in getattr(sending.event.operation, "variants", ())}
        return variants.get(share, sending.message)

    def given(self, sending, target):
        """Its payload as its producer gives it."""
        message = self.message(sending, target)
        return sending.payload.decode() if message is sending.message else message.payload.strip()

    def personal(self, sending, target):
        """The texts of the message that a recipient gets, if it has several."""
        return self.message(sending, target).personal

    def texts(self, sending, target, since, until):
        """What a recipient of a personal message may get if it is claimed in that time; None among it: nothing, since it
        may lack an attribute."""
        device = self.device(sending, target)
        profiles = set()
        for moment in device.moments(since, until):
            profiles |= device.current(device.profiles, moment, Profile())
        return {pushed(self.personal(sending, target), profile) for profile in profiles}

    def may_get(self, sending, target, moment):
        """The same for what arrived at `moment`."""
        spans = [(max(since, moment - HOLD), until) for since, until in self.claimable(sending, moment)]
        return {text for since, until in spans if since <= until for text in self.texts(sending, target, since, until)}

    def may_lack(self, sending, target, ended_at):
        """Whether it may have lacked an attribute when its turn came."""
        spans = self.claimable(sending, ended_at)
        return any(None in self.texts(sending, target, since, until) for since, until in spans)

    def note_answers(self):
        """What the recording APNs said of tokens is part of what happened to devices."""
        by_payload = {self.payload_of(operation): operation.queue for operation in self.episode.messages}
        keys = {self.payload_of(o): o.key for o in self.episode.messages if isinstance(o, s.Campaign)}
        # Those of schedules have no key before they are started.
        keys |= {self.payload_of(e.operation): e.operation.key for e in self.history.events if isinstance(e.operation, s.Campaign)}
        types = {self.payload_of(operation): operation.message.push_type for operation in self.episode.messages}
        made = {}
        for event in self.history.events if self.history.faults else ():
            if getattr(event.operation, "message", None) is not None:
                made.setdefault(self.payload_of(event.operation), (event.began, event.ended))
        counts = collections.Counter((a.body, a.target) for a in self.record.arrivals if a.was_looked_at)
        under_way = UNDER_WAY if len(self.record.arrivals) < MANY else UNDER_WAY_OF_MANY
        for arrival in self.record.arrivals:
            if arrival.status not in (400, 410) or arrival.body not in by_payload:
                continue
            if arrival.is_broadcast:
                if arrival.decision.reason == GONE:
                    self.gone.setdefault((by_payload[arrival.body], arrival.target), arrival.answered_at)
                continue
            if not may_concern_device(arrival.decision.reason, types[arrival.body]):
                continue
            given = arrival.dead_since if arrival.dead_since is not None else arrival.at
            # What is known of an answer after its worker was lost is of the time at which the message was made.
            first, last = made.get(arrival.body, (given, given))
            report = Report(
                arrival.answered_at,
                arrival.decision.reason,
                min(given, arrival.at - under_way, first),
                max(given, last) if arrival.dead_since is not None else given + under_way,
                counts[arrival.body, arrival.target] == 1
                and concerns_device(arrival.decision.reason, types[arrival.body])
                and not self.may_be_unread(arrival),
                keys.get(arrival.body),
            )
            self.devices[by_payload[arrival.body], arrival.target].reports.append(report)

    def may_be_unread(self, arrival):
        """Its connection ended so soon after its answer that the worker may not have read it, or not have trusted in
        silence yet; or the worker was killed before it had written the answer down; or it was stopped for longer than its
        leases last before it had, and what it knows then nobody takes from it; or the answer came so late that nobody
        may have waited for it."""
        unwritten = {"killed": UNWRITTEN_AT_MOST, "stopped": UNWRITTEN}
        for kind, door, since, until in self.history.faults:
            if kind in unwritten and door == arrival.door and since - unwritten[kind] <= arrival.answered_at <= until:
                return True
        if arrival.connection in self.record.packets:
            return False
        if arrival.answered_at > arrival.at + arrival.decision.delay + LATE_ANSWER:
            return True
        end = self.record.may_have_ended(arrival.connection)
        return end < arrival.answered_at + (SILENCE if arrival.is_binary else 0.5)

    def change(self, event, queue, token, active, registers="no", user=None):
        device = self.devices[queue, token]
        device.changes.append(Change(event.began, event.ended, active, registers))
        if user is not None:
            device.users.append((event.began, event.ended, user))
        if registers == "yes":
            self.other_kinds.pop((queue, token), None)

    # MARK: Operations, one after the other

    def apply(self, event):
        operation = event.operation
        match operation:
            case s.PreviewStarts():
                self.previews.append((event, self.starts(event, operation)))
            case s.SetBadge():
                self.note_reset(event, operation)
                self.expect(event, None)
            case s.Register():
                self.note_change_of_hands(event, operation.queue, operation.token, operation.user)
                self.note_profile(event, operation)
                self.change(event, operation.queue, operation.token, True, "yes", operation.user)
                if operation.kind is not None:
                    self.other_kinds[operation.queue, operation.token] = operation.kind
                    self.were_of_other_kinds[operation.queue, operation.token] = operation.kind
                self.expect(event, None)
            case s.Unregister():
                self.log_out(event, operation)
                self.expect(event, None)
            case s.Import():
                for token, user in operation.devices:
                    self.import_one(event, operation, token, user)
                for token, profile in operation.profiles:
                    self.devices[operation.queue, token].profiles.append((event.began, event.ended, profile))
                self.expect(event, None)
            case s.Deactivate():
                for token in operation.tokens:
                    self.change(event, operation.queue, token, False)
                self.expect(event, None)
            case s.Reactivate():
                for token in operation.tokens:
                    self.note_reactivation(event, token)
                    self.change(event, operation.queue, token, True, "perhaps")
                self.expect(event, None)
            case s.UndoDeactivations():
                self.undo(event, operation)
            case s.Send() | s.Campaign() | s.Broadcast():
                self.accept(event, operation)
            case s.CancelCampaign():
                self.note_cancellation(event, self.campaign(operation))
            case s.CancelSend():
                self.note_cancellation(event, [sending for sending in self.sendings if sending.root == event.root])
                self.expect(event, None)
            case s.SuspendTenant():
                self.suspended.add(operation.tenant)
                self.expect(event, None)
            case s.ResumeTenant():
                self.suspended.discard(operation.tenant)
                self.expect(event, None)
            case s.OpenTransaction() | s.ResumeCampaign() | s.Schedule() | s.ChangeCap() | s.ChangeQuietHours() | s.RenewSecret():
                self.expect(event, None)
            case s.RetryFailed():
                for sending in self.sendings:
                    sending.retried += sending.root == event.root
                for sending in self.campaign(operation) if operation.key is not None else ():
                    sending.retried += 1

    def note_reactivation(self, event, token):
        """A report that is surely the only one, and keeps the device inactive, is undone with it."""
        device = self.devices.get((event.operation.queue, token))
        reports = [r for r in device.reports if r.answered_at <= event.ended] if device else []
        if (
            len(reports) == 1
            and reports[0].is_certain
            and reports[0].reason in DEAD
            and any(reports[0].answered_at + 0.001 <= moment <= event.began for moment in self.settled)
            and device.registered_after(reports[0], event.ended) == "no"
        ):
            self.undone.append((event, token))

    def undo(self, event, operation):
        """Brings devices back that are inactive because of what is meant. Which of several reports has deactivated one, the
        documentation leaves open."""
        is_known = operation.key is None or any(True for _ in self.campaign(operation))
        if not is_known:
            return
        self.expect(event, None)
        for (queue, token), device in self.devices.items():
            reports = [r for r in device.reports if r.answered_at <= event.ended and r.reason in DEAD | SUSPECT]
            meant = {self.is_meant(report, event) for report in reports} if queue == operation.queue else set()
            if not meant & {"yes", "perhaps"}:
                continue
            is_dead = device.states(event.began, self.settled) == {False}
            is_by_hand = device.states_by_hand(event.began) != {True}
            if len(reports) == 1 and meant == {"yes"} and is_dead and not is_by_hand:
                device.changes.append(Change(event.began, event.ended, True, "as if"))
                self.undone.append((event, token))
            else:
                device.changes.append(Change(event.began, event.ended, True, "perhaps", is_certain=False))

    def is_meant(self, report, event):
        """Whether a report is among those of which the deactivation is undone: yes, no or perhaps."""
        operation = event.operation
        if operation.key not in (None, report.key) or operation.reason not in (None, report.reason):
            return "no"

        def is_written_by(time):
            return any(report.answered_at + 0.001 <= moment <= time for moment in self.settled)

        if event.since is not None and report.answered_at < event.since:
            return "no" if is_written_by(event.since) else "perhaps"
        return "yes" if report.is_certain and report.reason in DEAD and is_written_by(event.began) else "perhaps"

    def note_profile(self, event, operation):
        """What is known of a device once its app has registered it. Tags and attributes are a user's, and go with
        him."""
        device = self.devices[operation.queue, operation.token]
        said = operation.profile or self.passed_on(device, operation.user)
        if said is not None and operation.activity_type is not None:
            said = dataclasses.replace(said, activity_type=operation.activity_type)
        if said is not None:
            device.profiles.append((event.began, event.ended, said))

    @staticmethod
    def passed_on(device, user):
        """What is still known of a device that goes from one user to another; None if it does not, or if nothing was."""
        had = device.users[-1][2] if device.users else None
        if user is None or had in (None, user) or not device.profiles:
            return None
        return dataclasses.replace(device.profiles[-1][2], tags=(), attributes=())

    def log_out(self, event, operation):
        """The device is nobody's, and nothing is known of it that was its user's."""
        device = self.devices[operation.queue, operation.token]
        if not device.exists_at(event.began):
            return
        self.change(event, operation.queue, operation.token, False)
        device.users.append((event.began, event.ended, None))
        if device.profiles:
            left = dataclasses.replace(device.profiles[-1][2], tags=(), attributes=())
            device.profiles.append((event.began, event.ended, left))
        self.resets[operation.queue, operation.token].append(Reset(event.began, event.ended, 0, True))

    def starts(self, event, operation):
        """How many devices a preview of starts may count, and how many of them may be without a token for these: from the
        fewest to the most of each."""
        kinds, were = self.other_kinds, self.were_of_other_kinds
        devices = {token: device for (queue, token), device in self.devices.items() if queue == operation.queue}
        since, until, kind = event.began, event.ended, "liveactivity-start"

        def fits(device, filter=None):
            answers = set()
            for moment in device.moments(since, until):
                answers |= device.fits(moment, None, self.settled, filter)
            return answers

        def users(device):
            return device.users_between(since, until)

        sure, possible = set(), set()  # users with a token for what is started
        for token, device in devices.items():
            answers = fits(device, ("starts", operation.type))
            if (operation.queue, token) in were and True in answers:
                possible |= users(device)
                is_sure = kinds.get((operation.queue, token)) == kind and answers == {True}
                sure |= users(device) if is_sure and len(users(device)) == 1 else set()
        counts = [0, 0, 0, 0]
        for token, device in devices.items():
            answers = fits(device, operation.filter)
            may = True in answers and (operation.queue, token) not in kinds
            must = answers == {True} and (operation.queue, token) not in were
            lacks = {user is None or user not in sure for user in users(device)}
            surely_lacks = {user is None or user not in possible for user in users(device)} == {True}
            for place, counts_it in enumerate((must, may, must and surely_lacks, may and True in lacks)):
                counts[place] += counts_it
        return range(counts[0], counts[1] + 1), range(counts[2], counts[3] + 1)

    def note_reset(self, event, operation):
        """Which numbers are shown from then on. Whose a device is may be open at that time."""
        devices = {token: device for (queue, token), device in self.devices.items() if queue == operation.queue}
        for token, device in devices.items():
            users = device.users_between(event.began, event.ended)
            if operation.token == token or operation.user is not None and operation.user in users:
                is_certain = operation.token is not None or users == {operation.user}
                self.resets[operation.queue, token].append(Reset(event.began, event.ended, operation.badge, is_certain))

    def note_change_of_hands(self, event, queue, token, user):
        """What one user has not seen is not another's."""
        users = self.devices[queue, token].users_between(event.began, event.ended)
        changes = {had not in (None, user) for had in users} if user is not None else {False}
        if True in changes:
            is_certain = changes == {True}
            self.resets[queue, token].append(Reset(event.began, event.ended, 0, is_certain))

    def import_one(self, event, operation, token, user):
        device = self.devices[operation.queue, token]
        if not device.exists_at(event.began):
            self.change(event, operation.queue, token, True, user=user)
            return
        if operation.reactivate and (returns := self.may_return(device, event)) != "no":
            certain = returns == "yes"
            device.changes.append(Change(event.began, event.ended, True, "perhaps", is_certain=certain))
        # Whose it is its app has said, if it has registered it.
        if user is not None and not any(change.registers == "yes" for change in device.changes):
            self.note_change_of_hands(event, operation.queue, token, user)
            if (said := self.passed_on(device, user)) is not None:
                device.profiles.append((event.began, event.ended, said))
            device.users.append((event.began, event.ended, user))

    @staticmethod
    def may_return(device, event):
        """Whether an import with --reactivate brings a device back: yes, no or perhaps. A device that its app has
        registered stays as somebody left it who deactivated it by hand or logged its user out. If APNs had called it
        dead before, it keeps that reason, and comes back."""
        is_registered = any(change.registers == "yes" for change in device.changes)
        by_hand = device.states_by_hand(event.ended)
        if not is_registered or False not in by_hand:
            return "yes"
        may_have_reason = any(report.answered_at <= event.ended for report in device.reports)
        return "no" if by_hand == {False} and not may_have_reason else "perhaps"

    def expect(self, event, error):
        """Notes a call that was refused and should not have been, or the other way round."""
        if error is None and event.error is not None:
            self.findings.append(f"{type(event.operation).__name__} was refused: {event.error}")
        elif error is not None and event.error != error:
            self.findings.append(f"{type(event.operation).__name__} should have been refused with {error}, and was not")

    def of_other_kinds(self, operation, kinds=None):
        """The queue's tokens that are for another push type, as far as is known by now. Those of which nobody has said
        what they are for are for alerts."""
        kinds = self.other_kinds if kinds is None else kinds
        tokens = {t for q, t in self.devices if q == operation.queue}
        if (kind := self.kind_of(operation.message)) is not None:
            return {t for t in tokens if kinds.get((operation.queue, t)) != kind}
        return {t for t in tokens if (operation.queue, t) in kinds}

    @staticmethod
    def kind_of(message):
        """The kind of token that a message is for; None: those for alerts."""
        if message.starts is not None:
            return "liveactivity-start"
        return message.push_type if message.push_type in SUFFIXES else None

    def expect_refusal(self, event):
        if event.error is None:
            self.findings.append("a campaign that was cancelled was started again")

    @staticmethod
    def payload_of(operation):
        """The bytes that go out. A command's file is sent without the space around it, as an editor leaves it."""
        by_command = getattr(operation, "by_command", False)
        return (operation.message.payload.strip() if by_command else operation.message.payload).encode()

    def accept(self, event, operation):
        payload = self.payload_of(operation)
        if self.episode.queue(operation.queue).tenant in self.suspended:
            self.refused[payload] = "was refused, as its tenant was suspended"
            if event.error is None or event.error != "PQ403" and "is suspended" not in event.error:
                self.findings.append(
                    f"{type(operation).__name__} of a suspended tenant should have been refused: {event.error}"
                )
            return
        if not event.committed:
            self.refused[payload] = "was rolled back"
            return
        if event.error == "PQ400" and event.send_by is not None and event.send_by <= event.ended:
            # The call had to wait for somebody's open transaction.
            self.refused[payload] = "was refused, as its time had passed"
            return
        if operation.message.starts is not None and operation.message.never_stored:
            self.refused[payload] = "was refused, as APNs would drop what it cannot deliver at once"
            self.expect(event, "PQ400")
            return
        channel = operation.message.input_channel
        if channel is not None and self.is_no_channel(event, operation, channel):
            self.refused[payload] = "was refused, as nobody can broadcast to its channel"
            self.expect(event, "PQ400")
            return
        place = (operation.queue, getattr(operation, "key", None), isinstance(operation, s.Campaign))
        if place[1] is not None:
            if place in self.keys:
                self.repeat(event, operation, *self.keys[place])
                return
            if event.error is None:
                self.keys[place] = (event, operation)
        sending = self.sending(event, operation, payload)
        sending.others = self.of_other_kinds(operation)
        if event.error is not None:
            self.refused[payload] = "was refused"
            self.refusals.append(sending)
            return
        self.sendings.append(sending)
        self.by_payload[payload] = sending
        if getattr(operation, "tokens", None):
            for token in set(operation.tokens):
                place = (operation.queue, token)
                if not self.devices[place].exists_at(event.began):
                    self.change(event, operation.queue, token, True)
                    if (kind := self.kind_of(operation.message)) is not None:
                        self.other_kinds[place] = kind
                        self.were_of_other_kinds[place] = kind
                elif operation.message.push_type not in SUFFIXES and isinstance(operation, s.Send):
                    self.other_kinds.pop(place, None)
        if getattr(operation, "replaces_waiting", False):
            for target in operation.tokens if isinstance(operation, s.Send) else (operation.channel,):
                self.newest[operation.queue, target].append(sending)

    def is_no_channel(self, event, operation, channel):
        """Whether a start may not name this channel: nobody knows it, or it is gone. While that is just being learned, the
        call shows which it is."""
        if channel not in self.episode.queue(operation.queue).channels:
            return True
        gone_at = self.gone.get((operation.queue, channel), math.inf)
        is_known = any(gone_at + 0.001 <= moment <= event.began for moment in self.settled)
        return gone_at <= event.ended and (is_known or event.error is not None)

    def repeat(self, event, operation, first, first_operation):
        """The same call under the same key returns the first one's root; another one is refused, and so is a campaign
        that was cancelled."""
        if any(sending.event is first and sending.cancelled for sending in self.sendings):
            self.expect_refusal(event)
        elif operation == first_operation:
            if event.root != first.root:
                self.findings.append(
                    f"a repeated call under its key returned {event.root} instead of {first.root}: {event.error}"
                )
        else:
            self.refused[self.payload_of(operation)] = "had a key that was used for something else"
            if event.error is None:
                self.findings.append("a key that was used for something else was taken")

    def sending(self, event, operation, payload):
        begins = event.run_at if event.run_at is not None else event.began
        ends = min(event.send_by or math.inf, event.expiration or math.inf)
        queue = self.episode.queue(operation.queue)
        return Sending(event, queue, operation.message, payload, isinstance(operation, s.Broadcast), begins, ends)

    def resolve(self, sending):
        """Whom it has to reach or account for, and whom it may. Asked once all is known, since devices change while
        a campaign goes on."""
        event, operation = sending.event, sending.event.operation
        if sending.is_broadcast:
            sending.must = sending.may = {operation.channel}
        elif operation.tokens is not None:
            sending.must = sending.may = set(operation.tokens)
        else:
            devices = {token: device for (queue, token), device in self.devices.items() if queue == operation.queue}
            users, is_list = sending.users, getattr(operation, "users", None) is not None
            filter = self.filter(event, devices)
            if isinstance(operation, s.Send) and event.run_at is not None:
                # The user's devices are looked up when a worker comes to it, after its time.
                since, until = sending.begins - 0.1, self.first_ends.get(event.root, math.inf)
            elif isinstance(operation, s.Send) or is_list:
                since = until = event.ended
            else:
                # Its recipients are looked up from its start on, until all are found. What is done meanwhile counts or
                # not.
                since = max(sending.begins, event.began)
                until = max(self.fanned_out.get((operation.queue, operation.key), since) + SNAPSHOT, since)
            if event.run_at is not None and not is_list:
                # What is for later is for the devices that exist then.
                since, known_by = sending.begins - 0.1, until
            else:
                since, until, known_by = min(since, event.began), max(until, event.ended), event.ended
            devices = {token: device for token, device in devices.items() if device.exists_at(known_by)}
            # Whose kind changed meanwhile may be among them.
            others = self.of_other_kinds(operation)
            perhaps = sending.others | others | self.of_other_kinds(operation, self.were_of_other_kinds)
            surely = sending.others & others
            sending.must = {
                t for t, d in devices.items()
                if t not in perhaps and d.must_fit(since, until, users, self.settled, filter)
            }
            sending.may = {
                t for t, d in devices.items()
                if t not in surely and d.may_fit(True, since, until, users, self.settled, filter)
            }
            sending.listed = (len(sending.must), len(sending.may)) if is_list else None
        if getattr(operation, "holdout", None) is not None:
            held_out = {t for t in sending.may if self.share(sending, t) == HOLDOUT}
            sending.held_out = len(held_out & sending.must), len(held_out)
            sending.must, sending.may = sending.must - held_out, sending.may - held_out
        if sending.cancelled and isinstance(operation, s.Campaign):
            sending.must = set()  # of one that was cancelled nobody knows how far it had got

    @staticmethod
    def filter(event, devices):
        """The devices that a campaign is for: those that its filter holds for, where its local time is now."""
        operation = event.operation
        filter = getattr(operation, "filter", None)
        if operation.message.starts is not None:
            starts = ("starts", operation.message.starts)
            filter = starts if filter is None else ("and", filter, starts)
        if getattr(operation, "local_zone", None) is None:
            return filter
        zones = {profile.zone for device in devices.values() for _, _, profile in device.profiles}
        zones = (zones | {operation.default_zone}) - {None}
        zones = zones_to_send_to(zones, event.local_time, event.began, operation.if_passed)
        is_there = ("zone in", zones, operation.default_zone)
        return is_there if filter is None else ("and", filter, is_there)

    def campaign(self, operation):
        for sending in self.sendings:
            if isinstance(sending.event.operation, s.Campaign):
                if (sending.queue.name, sending.event.operation.key) == (operation.queue, operation.key):
                    yield sending

    @staticmethod
    def note_cancellation(event, sendings):
        if event.error is None:
            for sending in sendings:
                sending.cancelled = sending.cancelled or (event.began, event.ended)

    # MARK: Pauses

    def note_pauses(self):
        """When nothing of a sending can have been claimed: from a pause until it was lifted. What workers hold may arrive
        for some time after the pause."""
        open_since = {}
        for event in self.history.events:
            operation = event.operation
            place = (getattr(operation, "queue", getattr(operation, "tenant", None)), getattr(operation, "key", None))
            if isinstance(operation, (s.PauseQueue, s.PauseCampaign, s.SuspendTenant)) and event.error is None:
                open_since[place] = event.ended
            elif isinstance(operation, (s.ResumeQueue, s.ResumeCampaign, s.ResumeTenant, s.CancelCampaign)):
                since = open_since.pop(place, math.inf)
                if since < event.began:
                    self.note_pause(place, since, event.began)
        for place, since in open_since.items():
            self.note_pause(place, since, math.inf)

    def note_pause(self, place, since, until):
        for sending in self.sendings:
            key = (
                getattr(sending.event.operation, "key", None)
                if isinstance(sending.event.operation, s.Campaign)
                else None
            )
            if place in ((sending.queue.name, None), (sending.queue.name, key), (sending.queue.tenant, None)):
                sending.unclaimed.append((since, until))
                if since + HEEDING < until:
                    sending.paused.append((since + HEEDING, until))

    def claimable(self, sending, until):
        """The times within which a recipient's turn may have come, as pairs, up to `until`."""
        return self.times_outside(sending.unclaimed, sending, until)

    def held(self, sending, until):
        """The same, and those within which a worker may still have held it: until it heeds a pause."""
        return self.times_outside(sending.paused, sending, until)

    def times_outside(self, pauses, sending, until):
        spans = [(sending.begins, until)]
        for since, end in pauses:
            spans = [span for a, b in spans for span in ((a, min(b, since)), (max(a, end), b)) if span[0] <= span[1]]
        return spans

    # MARK: One recipient

    def device(self, sending, target):
        return self.devices[sending.queue.name, target]

    def superseded(self, sending, target):
        """From when on a newer update may have, and must have, taken its place; inf for never."""
        if sending.message.push_type != "liveactivity":
            return math.inf, math.inf
        # By when they are due, and not by when they were called for.
        due_from, due_to = sending.begins, max(sending.begins, sending.event.ended)
        later = [n for n in self.newest.get((sending.queue.name, target), ()) if n is not sending]
        perhaps = [n.begins for n in later if max(n.begins, n.event.ended) >= due_from and n.event.root != sending.root]
        surely = [max(n.begins, n.event.ended) for n in later if n.begins >= due_to]
        return min(perhaps, default=math.inf), min(surely, default=math.inf)

    def is_gone(self, sending, channel, time):
        """Whether a channel may be used no more by then."""
        return self.gone.get((sending.queue.name, channel), math.inf) <= time

    def may_be_sent_at(self, sending, target, moment, after=-math.inf, before=math.inf):
        """Whether a push that arrived at `moment` may have been claimed between the two other times when it was right
        to send it."""
        _, surely_superseded = self.superseded(sending, target)
        for since, until in self.claimable(sending, moment):
            since = max(since, moment - HOLD, after)
            until = min(until, surely_superseded, sending.last_end, before)
            if since > until:
                continue
            if sending.is_broadcast or self.device(sending, target).may_fit(
                True, since, until, sending.users, self.settled
            ):
                return True
        return False

    def may_be_suppressed(self, sending, target, ended_at):
        """Whether its turn may have come, until `ended_at`, while its device was inactive or a newer update had
        taken its place."""
        perhaps_superseded, _ = self.superseded(sending, target)
        if perhaps_superseded <= ended_at:
            return True
        if sending.is_broadcast:
            return self.is_gone(sending, target, ended_at)
        device = self.device(sending, target)
        spans = self.held(sending, ended_at)
        return any(device.may_fit(False, since, until, sending.users, self.settled) for since, until in spans)

    # MARK: What a request has to look like

    def headers(self, sending, target):
        """The value of every header but `:authority` and the identifier: a text, a range of numbers, or the word for
        "as the identifier"."""
        message = sending.message
        if sending.queue.is_binary:
            return self.binary_fields(sending)
        expected = {":method": "POST", ":scheme": "https"}
        if sending.is_broadcast:
            expected[":path"] = f"/4/broadcasts/apps/{sending.queue.app}"
            expected["apns-channel-id"] = target
        else:
            expected[":path"] = f"/3/device/{target}"
            expected["apns-topic"] = sending.topic
        expected["apns-push-type"] = message.push_type
        priority = 5 if message.push_type == "background" and message.priority is None else message.priority
        if priority is not None:
            expected["apns-priority"] = str(priority)
        if sending.event.expiration is not None:
            expected["apns-expiration"] = str(sending.event.expiration)
        elif message.expires_in is not None:
            expected["apns-expiration"] = self.expirations(sending)
        if message.collapse_id is not None:
            expected["apns-collapse-id"] = message.collapse_id
        elif message.push_type == "alert" and sending.queue.derives_collapse_id:
            expected["apns-collapse-id"] = IDENTIFIER
        elif message.starts is not None and sending.queue.derives_collapse_id:
            expected["apns-collapse-id"] = f"start-{sending.root}"
        return expected

    @classmethod
    def binary_fields(cls, sending):
        """The same of the binary interface."""
        message, expiration = sending.message, sending.event.expiration
        priority = message.priority or (5 if message.push_type == "background" else 10)
        expected = {
            "priority": str(priority),
            "expiration": str(LONGEST_EXPIRATION if expiration is None else expiration),
        }
        if expiration is None and message.expires_in is not None:
            expected["expiration"] = cls.expirations(sending)
        return expected

    @staticmethod
    def expirations(sending):
        """What a command may make of how long a push is to be kept: it counts from the start, or from its own now."""
        event, kept = sending.event, sending.message.expires_in
        return range(int((event.run_at or event.began) + kept) - 1, int((event.run_at or event.ended) + kept) + 2)


IDENTIFIER = object()
