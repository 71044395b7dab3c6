"""What an episode is made of: who there is, and what is done, one thing after the other. Made by the generator from
a seed, carried out by the driver, and judged by what had to follow from it."""

import dataclasses
import json

from .apns import Mood
from .filters import Profile
from .personal import Personal


@dataclasses.dataclass(frozen=True)
class Credential:
    """A signing key or a certificate of a tenant."""

    tenant: str
    name: str
    kind: str  # token or certificate
    team: str = ""  # of a signing key, ten characters each
    key: str = ""
    app: str = ""  # of a certificate


@dataclasses.dataclass(frozen=True)
class Cap:
    """How many alerts a device of a queue gets at most in a period."""

    pushes: int
    seconds: int = None  # None: a calendar day in the device's time zone
    includes_urgent: bool = False
    zone: str = None  # of devices of which nobody has said it
    is_new: bool = False  # nobody knows how much was sent before it; else it has been there for long

    def is_for(self, operation):
        """Whether it counts a push of this and may hold it back."""
        return operation.message.push_type == "alert" and (self.includes_urgent or not operation.urgent)

    @property
    def words(self):
        """As an operator writes it."""
        if self.seconds is None:
            return f"{self.pushes} per calendar day"
        number, unit = (self.seconds // 86_400, "day") if self.seconds % 86_400 == 0 else (self.seconds // 60, "minute")
        return f"{self.pushes} per {number} {unit}{'s' if number > 1 else ''}"


@dataclasses.dataclass(frozen=True)
class QuietHours:
    """Times of the day at which a device gets no alert. They are given by what clocks in one zone will show, in seconds
    from the time at which they are set: elsewhere they are hours away, or past."""

    zone: str
    begins: float
    ends: float
    release: int = None  # seconds; None: as nobody has said
    includes_urgent: bool = False
    default_zone: str = None  # of devices of which nobody has said it; None: they have no quiet hours


@dataclasses.dataclass
class Queue:
    """One app of a tenant in one environment, with its settings."""

    tenant: str
    app: str
    environment: str
    credential: Credential
    attempts: int = 3
    rate: float = None  # pushes a second; None: no limit
    burst: float = None
    derives_collapse_id: bool = True
    is_binary: bool = False  # sent over Apple's old interface
    channels: list = dataclasses.field(default_factory=list)
    cap: Cap = None
    quiet: QuietHours = None

    @property
    def name(self):
        return f"{self.tenant}/{self.app}/{self.environment}"


@dataclasses.dataclass(frozen=True)
class Message:
    """What is sent. `payload` is text that is sent byte for byte, and no other message of the episode has the same. Of a
    `personal` one each recipient gets its own text."""

    payload: str
    push_type: str = "alert"
    priority: int = None
    expires_in: float = None  # seconds from the call; None: no expiration
    never_stored: bool = False  # expiration 0
    collapse_id: str = None
    at_most_once: bool = False
    personal: Personal = None
    number: int = None  # that one carries of which not all get the same
    badge: str = None  # with what of the payload it raises the badge; None: it does not
    starts: str = None  # the attributes type of Live Activities that it starts
    input_channel: str = None  # that the Live Activities follow which it starts

    @property
    def raises(self):
        """By how much it raises badges."""
        return json.loads(self.badge)["increment"]


@dataclasses.dataclass(frozen=True)
class Variant:
    """Another message for a share of a campaign's devices, which differs in its payload alone."""

    name: str
    share: str  # a decimal fraction of the devices
    message: Message


@dataclasses.dataclass(frozen=True)
class Register:
    """`pushq.register_device`."""

    queue: str
    token: str
    user: str = None
    profile: Profile = None  # all that the app says of it; None: it says nothing
    kind: str = None  # what the token is for
    activity_type: str = None  # the same of a push-to-start token


@dataclasses.dataclass(frozen=True)
class Unregister:
    """`pushq.unregister_device`: a user logs out."""

    queue: str
    token: str


@dataclasses.dataclass(frozen=True)
class SetBadge:
    """`pushq.set_badge`, of a token or of a user."""

    queue: str
    token: str = None
    user: str = None
    badge: int = 0


@dataclasses.dataclass(frozen=True)
class PreviewStarts:
    """`pushq.preview_starts`."""

    queue: str
    type: str
    filter: tuple = None


@dataclasses.dataclass(frozen=True)
class Import:
    """`pushq-admin device import`, of pairs of token and user."""

    queue: str
    devices: tuple
    reactivate: bool = False
    profiles: tuple = ()  # of the first devices: pairs of token and profile


@dataclasses.dataclass(frozen=True)
class Deactivate:
    """`pushq-admin device deactivate`."""

    queue: str
    tokens: tuple


@dataclasses.dataclass(frozen=True)
class Reactivate:
    """`pushq-admin device reactivate`."""

    queue: str
    tokens: tuple


@dataclasses.dataclass(frozen=True)
class UndoDeactivations:
    """`pushq-admin device reactivate` of what answers of APNs have deactivated: to a campaign, with a reason, or in the
    last seconds."""

    queue: str
    key: str = None  # of the campaign
    reason: str = None
    seconds: float = None


@dataclasses.dataclass(frozen=True)
class ChangeCap:
    """Gives a queue another frequency cap, or takes it away."""

    queue: str
    cap: Cap = None


@dataclasses.dataclass(frozen=True)
class ChangeQuietHours:
    """Gives a queue other quiet hours, or takes them away."""

    queue: str
    quiet: QuietHours = None


@dataclasses.dataclass(frozen=True)
class Send:
    """`pushq.send` or `pushq send`, to tokens or to a user."""

    queue: str
    message: Message
    tokens: tuple = None
    user: str = None
    key: str = None
    urgent: bool = False
    run_in: float = None  # seconds from the call
    send_within: float = None
    replaces_waiting: bool = False
    by_command: bool = False


@dataclasses.dataclass(frozen=True)
class SendMany:
    """`pushq.send_many`: sends to a token or a user each, which differ in payload, collapse ID, recipient and key."""

    sends: tuple


@dataclasses.dataclass(frozen=True)
class Campaign:
    """`pushq.start_campaign` or `pushq campaign`, to a list of tokens or of users or, without one, to all, or to those
    that a filter holds for."""

    queue: str
    key: str
    message: Message
    tokens: tuple = None
    urgent: bool = False
    start_in: float = None
    send_within: float = None
    by_command: bool = False
    filter: tuple = None
    variants: tuple = ()
    holdout: str = None  # the share of the devices that gets nothing, a decimal fraction
    local_zone: str = None  # sent to each device when clocks there show what they show in this zone at the call
    if_passed: str = None  # what is done where that time was more than an hour ago
    default_zone: str = None  # of devices of which nobody has said it
    quiet: object = None  # instead of the queue's: times in a zone, of which only the first three are its own, or none
    users: tuple = None

    @property
    def has_shares(self):
        return bool(self.variants) or self.holdout is not None


@dataclasses.dataclass(frozen=True)
class Schedule:
    """`pushq.add_schedule` or `pushq schedule add`, of a campaign that workers start at the next full minute; or at
    once, when somebody runs it by hand. The campaign's key is not known before."""

    name: str
    zone: str
    campaign: Campaign
    is_run_by_hand: bool

    @property
    def queue(self):
        return self.campaign.queue


@dataclasses.dataclass(frozen=True)
class Broadcast:
    """`pushq.broadcast`."""

    queue: str
    channel: str
    message: Message
    key: str = None
    replaces_waiting: bool = True


@dataclasses.dataclass(frozen=True)
class Transaction:
    """Several sends in one transaction, which is committed or rolled back."""

    sends: tuple
    commits: bool = True


@dataclasses.dataclass(frozen=True)
class OpenTransaction:
    """A producer that registers devices and sets badges in a transaction, and keeps it open while all else goes on. What it
    has forgotten devices in is rolled back."""

    changes: tuple
    seconds: float
    forgotten: tuple = ()  # pairs of queue and token
    commits: bool = True


@dataclasses.dataclass(frozen=True)
class PauseQueue:
    queue: str


@dataclasses.dataclass(frozen=True)
class ResumeQueue:
    queue: str


@dataclasses.dataclass(frozen=True)
class SuspendTenant:
    tenant: str


@dataclasses.dataclass(frozen=True)
class ResumeTenant:
    tenant: str


@dataclasses.dataclass(frozen=True)
class RenewSecret:
    """Has the messages to a tenant's webhook signed with a new secret; for a day with the former one, too."""

    tenant: str


@dataclasses.dataclass(frozen=True)
class PauseCampaign:
    queue: str
    key: str


@dataclasses.dataclass(frozen=True)
class ResumeCampaign:
    queue: str
    key: str


@dataclasses.dataclass(frozen=True)
class CancelCampaign:
    queue: str
    key: str


@dataclasses.dataclass(frozen=True)
class CancelSend:
    """`pushq.cancel` of the send with this key; or `pushq.cancel_job` of each of its jobs."""

    queue: str
    key: str
    by_job: bool = False


@dataclasses.dataclass(frozen=True)
class RetryFailed:
    """Sends again to the failed recipients of a campaign, or without a key to those of the queue's latest job that
    has some."""

    queue: str
    key: str = None


@dataclasses.dataclass(frozen=True)
class ReplaceWorker:
    """A deploy: another worker is started in this place, and the old one drained."""

    place: int


@dataclasses.dataclass(frozen=True)
class KillWorker:
    """SIGKILL; another worker takes the place."""

    place: int


@dataclasses.dataclass(frozen=True)
class StopWorker:
    """SIGSTOP for longer than a lease, then SIGCONT."""

    place: int


@dataclasses.dataclass(frozen=True)
class CutSessions:
    """`pg_terminate_backend` of every session of a worker."""


@dataclasses.dataclass(frozen=True)
class RestartPostgres:
    crashes: bool = False


@dataclasses.dataclass(frozen=True)
class Wait:
    """Nothing is done for a time."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Settle:
    """Waits until nothing is due any more and nobody holds anything."""


@dataclasses.dataclass
class Episode:
    """Everything that follows from a seed."""

    seed: int
    queues: list
    workers: int
    mood: Mood
    operations: list
    lease: int = 3  # seconds
    webhooks: tuple = ()  # tenants that have one
    has_silence: bool = False  # their servers do not answer now and then, for which there is time in long episodes only

    def queue(self, name):
        return next(queue for queue in self.queues if queue.name == name)

    @property
    def messages(self):
        """Every operation that sends something, those within transactions and calls for many among them."""
        for operation in self.operations:
            if isinstance(operation, (Send, Campaign, Broadcast)):
                yield operation
            elif isinstance(operation, Schedule):
                yield operation.campaign
            elif isinstance(operation, (SendMany, Transaction)):
                yield from operation.sends
