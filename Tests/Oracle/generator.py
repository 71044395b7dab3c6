"""Makes an episode from a seed. The same seed makes the same episode on every machine: nothing here knows the time,
the disk or the order of a set."""

import contextlib
import dataclasses
import json
import random

from . import badges, personal
from .apns import Mood
from .filters import random_filter, random_profile
from .quiet import NONE
from .scenario import (
    Broadcast,
    Campaign,
    CancelCampaign,
    CancelSend,
    Cap,
    ChangeCap,
    ChangeQuietHours,
    Credential,
    CutSessions,
    Deactivate,
    Episode,
    Import,
    KillWorker,
    Message,
    OpenTransaction,
    PauseCampaign,
    PauseQueue,
    PreviewStarts,
    Queue,
    QuietHours,
    Reactivate,
    Register,
    ReplaceWorker,
    RenewSecret,
    RestartPostgres,
    ResumeCampaign,
    ResumeQueue,
    ResumeTenant,
    RetryFailed,
    Schedule,
    Send,
    Settle,
    StopWorker,
    SetBadge,
    SuspendTenant,
    SendMany,
    Transaction,
    UndoDeactivations,
    Unregister,
    Variant,
    Wait,
)

# The short form's: between them they have every kind of operation but SIGSTOP, which takes longer than a lease, every
# mood, both interfaces and both kinds of credential. Others have to be looked for when what is made here changes.
SHORT_SEEDS = [581, 253, 21, 237]
TENANTS = ["acme", "bolt-labs", "c.corp"]
APPS = ["com.example.shop", "com.example.Chat-2", "org.example.news"]
TEXTS = [
    "Your order is on its way",
    "Grüße aus Köln",
    "日本語の通知",
    "emoji 🎉 and 👩‍👩‍👧",
    'quotes " and \\ and /',
    "a\u2028line and a\ttab",
    "x" * 700,
]
# Time zones of devices: behind and ahead of UTC, also by half and quarter hours.
ZONES = [None, None, "UTC", "Europe/Vienna", "America/Los_Angeles", "Asia/Kolkata", "Pacific/Chatham", "Pacific/Kiritimati"]
# Attributes types of Live Activities.
ACTIVITIES = ["Match", "Driver's"]
# Push types that a device may get by the dozen, with what Apple requires in their payload.
BINARY_TYPES = [
    "alert",
    "alert",
    "background",
    "mdm",
]  # the others have topics of their own, which the binary interface does not know
PLAIN_TYPES = [
    "alert",
    "alert",
    "alert",
    "background",
    "voip",
    "complication",
    "location",
    "pushtotalk",
    "widgets",
    "mdm",
]


def generate(seed, size="short"):
    """The episode of a seed. `size` is short, for a few seconds, or long, in which there is more of everything."""
    return Generator(seed, size).episode()


class Generator:
    def __init__(self, seed, size):
        self.seed = seed
        self.dice = random.Random(f"episode {seed} {size}")
        # Of their own, so that the same seed still makes the same of all else.
        self.filter_dice = random.Random(f"filters {seed} {size}")
        self.personal_dice = random.Random(f"personal {seed} {size}")
        self.zone_dice = random.Random(f"zones {seed} {size}")
        self.cap_dice = random.Random(f"caps {seed} {size}")
        self.share_dice = random.Random(f"shares {seed} {size}")
        self.clock_dice = random.Random(f"clocks {seed} {size}")
        self.activity_dice = random.Random(f"activities {seed} {size}")
        self.webhook_dice = random.Random(f"webhooks {seed} {size}")
        self.change_dice = random.Random(f"changes {seed} {size}")
        self.quiet_dice = random.Random(f"quiet hours {seed} {size}")
        self.badge_dice = random.Random(f"badges {seed} {size}")
        self.open_dice = random.Random(f"open transactions {seed} {size}")
        self.update_dice = random.Random(f"updates {seed} {size}")
        self.time_dice = random.Random(f"times {seed} {size}")
        self.list_dice = random.Random(f"lists of users {seed} {size}")
        self.start_dice = random.Random(f"activities of users {seed} {size}")
        self.cancel_dice = random.Random(f"cancellations {seed} {size}")
        self.is_long = size == "long"
        self.messages = 0
        self.keys = 0
        self.operations = []
        self.tokens = {}  # queue -> tokens of its devices, in the order in which they came
        self.users = {}  # queue -> users
        self.paused_queues = set()
        self.campaigns = []  # (queue, key), those that may still be going on
        self.paused_campaigns = set()
        self.sent_keys = []  # sends and campaigns that were made under a key
        self.start_tokens = {}  # queue -> its push-to-start tokens
        self.suspended = set()
        self.crowded = set()  # queues with very many devices
        self.has_outlasted = False  # the period of a cap

    # MARK: The whole

    def episode(self):
        queues = self.all = self.queues()
        tenants = dict.fromkeys(queue.tenant for queue in queues)
        self.webhooks = tuple(tenant for tenant in tenants if self.webhook_dice.random() < 0.6)
        workers = self.dice.choice([1, 1, 2, 2, 3])
        for queue in queues:
            self.first_devices(queue)
        is_rough = self.dice.random() < 0.5
        for _ in range(self.dice.randint(*(25, 70) if self.is_long else (10, 22))):
            self.operations.append(self.next_operation(queues, workers, is_rough))
            if self.dice.random() < 0.4:
                self.operations.append(Wait(round(self.dice.random() ** 2 * 0.8, 3)))
            self.press_against_caps(queues)
            self.send_at_night(queues)
            self.change_restraints(queues)
            self.renew_secret()
            self.set_badges(queues)
            self.keep_open(queues)
            self.start_activities(queues)
            self.pile_up_updates(queues)
            self.outwait(queues)
            self.call_off(queues)
            self.reach_users(queues)
            self.run_out_of_time(queues)
            self.schedule(queues)
        self.come_to_an_end()
        mood = self.mood()
        # Leases that nobody is to lose are long, so that a busy machine does not lose them.
        lease = 3 if is_rough else 15
        return Episode(self.seed, queues, workers, mood, self.operations, lease, self.webhooks, has_silence=self.is_long)

    def come_to_an_end(self):
        """Lets everything go on that was paused; then failed recipients get another chance, and what is new is sent,
        too."""
        self.operations += [ResumeTenant(tenant) for tenant in sorted(self.suspended)]
        self.operations += [ResumeCampaign(*campaign) for campaign in sorted(self.paused_campaigns)]
        self.operations += [ResumeQueue(queue) for queue in sorted(self.paused_queues)]
        self.operations.append(Settle())
        self.undo_deactivations()
        for queue, key in self.campaigns[:3]:
            self.operations.append(RetryFailed(queue, key))
        self.operations.append(RetryFailed(self.dice.choice(sorted(self.tokens))))
        self.operations.append(Settle())

    def mood(self):
        dice = self.dice
        kind = dice.choice(["calm", "dying", "busy", "lossy", "all"])
        mood = Mood(slow=dice.choice([0.0, 0.02, 0.2]))
        if kind in ("dying", "all"):
            mood.dead, mood.dead_before, mood.dead_untimed, mood.refused = 0.06, 0.03, 0.02, 0.01
            mood.bad = dice.choice([0.0, 0.01])
        if kind in ("busy", "all"):
            mood.busy, mood.broken, mood.stubborn, mood.channel_gone = 0.06, 0.05, 0.01, 0.1
        if kind in ("lossy", "all"):
            # A few in an episode: after each, workers are more reluctant to connect again.
            share = 1 / self.expected_requests()
            mood.reset, mood.go_away, mood.refused_stream = (dice.choice([1, 3]) * share for _ in range(3))
            mood.refused_stream *= 10
            mood.silent = dice.choice([0, 1]) * share if self.is_long else 0.0  # each costs half a minute
        # Whoever was refused gives up a place under a cap: so that there are enough of them.
        if any(queue.cap for queue in self.all) and self.cap_dice.random() < 0.5:
            mood.refused = 0.4
        # Without a dead device nobody has anything to report.
        if self.webhooks and self.webhook_dice.random() < 0.4:
            mood.dead = 0.08
        return mood

    def expected_requests(self):
        total = 1
        for operation in self.operations:
            if isinstance(operation, (Send, Campaign)):
                total += len(operation.tokens or self.tokens[operation.queue])
        return total

    # MARK: Who there is

    def queues(self):
        """Two to five queues of one to three tenants; tenants share bundle IDs, and apps have both environments."""
        dice = self.dice
        queues = []
        # Now and then all tenants send for one team, with one key: an agency and its customers.
        shared = ("SHAREDTEAM", "SHAREDKEY1") if random.Random(f"shared {self.seed}").random() < 0.25 else None
        for tenant in dice.sample(TENANTS, dice.randint(1, 3)):
            team = "".join(dice.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(10))
            key = "".join(dice.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(10))
            team, key = shared or (team, key)
            signing = Credential(tenant, "signing", "token", team=team, key=key)
            for app in dice.sample(APPS, dice.randint(1, 2)):
                shop = Credential(tenant, f"certificate of {app}".replace(" ", "-"), "certificate", app=app)
                for environment in dice.choice([["production"], ["sandbox"], ["production", "sandbox"]]):
                    queue = Queue(tenant, app, environment, dice.choice([signing, signing, shop]))
                    queue.attempts = dice.choice([1, 2, 3, 3])
                    queue.derives_collapse_id = dice.random() < 0.8
                    if dice.random() < 0.15:
                        queue.rate, queue.burst = dice.choice([(40, 4), (150, 15), (400, 400)])
                    queue.channels = [self.channel() for _ in range(dice.choice([0, 1, 2]))]
                    queue.is_binary = queue.credential.kind == "certificate" and dice.random() < 0.35
                    queue.cap = self.cap()
                    queue.quiet = self.quiet_hours(self.quiet_dice) if self.quiet_dice.random() < 0.3 else None
                    queues.append(queue)
        return queues[: 6 if self.is_long else 4]

    def cap(self):
        """One queue in four has a frequency cap."""
        return self.any_cap(self.cap_dice) if self.cap_dice.random() <= 0.25 else None

    def any_cap(self, dice):
        """Some periods are so short that a long episode may outlast them."""
        return Cap(
            dice.choice([1, 1, 2, 3]),
            dice.choice([60, 60, 86_400, 7 * 86_400, None]),
            dice.random() < 0.3,
            dice.choice(ZONES),
            dice.random() < 0.3,
        )

    def quiet_hours(self, dice):
        """Quiet hours that where clocks are as in one zone are soon over, go on, begin soon, or are far away; elsewhere
        they are so at other hours."""
        ago = -3600 * dice.choice([1, 4, 12, 18])
        begins, ends = dice.choice([
            (ago, dice.choice([5, 12, 25] if self.is_long else [3, 4, 5])),
            (ago, dice.choice([5, 12, 25] if self.is_long else [3, 4, 5])),
            (ago, 5000),
            (dice.choice([13, 20] if self.is_long else [11, 13]), 7000),
            (5 * 3600, 20_000),
        ])
        zone = dice.choice([zone for zone in ZONES if zone])
        return QuietHours(
            zone,
            begins,
            ends,
            dice.choice([0, 0, 2, 4, None, 1800]),
            dice.random() < 0.3,
            dice.choice([None, zone, zone, "UTC"]),
        )

    def channel(self):
        return "".join(self.dice.choice("ABCDEFabcdef0123456789+/") for _ in range(22)) + "=="

    def token(self):
        length = self.dice.choice([32] * 12 + [20, 64, 100])
        return self.dice.randbytes(length).hex()

    def user(self, queue):
        users = self.users.setdefault(queue, [])
        if not users or self.dice.random() < 0.3:
            users.append(self.dice.choice(["4711", "user with spaces", "ärger", "o'neil; --", "u"]) + f" {len(users)}")
        return self.dice.choice(users)

    def first_devices(self, queue):
        """Imported at once, so that their ids are dense, and partly inactive; some have tokens of other queues."""
        dice = self.dice
        count = dice.choice([6, 25, 60, 120])
        if self.is_long and dice.random() < 0.15:
            count = dice.choice([600, 1600])
        if self.is_long and dice.random() < 0.03:
            return self.very_many_devices(queue)
        known = [token for tokens in self.tokens.values() for token in tokens]
        tokens = [dice.choice(known) if known and dice.random() < 0.2 else self.token() for _ in range(count)]
        tokens = list(dict.fromkeys(tokens))
        rows = tuple((token, self.user(queue.name) if dice.random() < 0.4 else None) for token in tokens)
        self.tokens[queue.name] = tokens
        profiles = tuple((token, self.profile()) for token in tokens if self.filter_dice.random() < 0.85)
        self.operations.append(Import(queue.name, rows, profiles=profiles))
        gone = self.some(tokens, dice.choice([0.0, 0.1, 0.5]))
        if gone:
            self.operations.append(Deactivate(queue.name, gone))

    def very_many_devices(self, queue):
        """Lists as long as those with which tokens were once taken by counts: among them were too many strangers to
        go unseen."""
        dice = self.dice
        listed, inactive, all_ = dice.choice([(16_644, 246, 16_644), (16_644, 246, 40_000), (100_000, 1_000, 300_000)])
        tokens = [self.token() for _ in range(all_)]
        self.operations.append(Import(queue.name, tuple((token, None) for token in tokens)))
        chosen = dice.sample(tokens, listed)
        self.operations.append(Deactivate(queue.name, tuple(chosen[:inactive])))
        self.operations.append(self.campaign(queue, tuple(chosen)))
        queue.rate = queue.burst = None
        self.tokens[queue.name] = tokens[:100]
        self.crowded.add(queue.name)
        return None

    def some(self, tokens, share):
        return tuple(token for token in tokens if self.dice.random() < share)

    # MARK: What is done

    def next_operation(self, queues, workers, is_rough):
        dice = self.dice
        queue = dice.choice(queues)
        kinds = [
            (self.send, 8),
            (self.send_to_user, 3),
            (self.list_campaign, 6),
            (self.campaign_to_all, 3),
            (self.live_activity, 3),
            (self.broadcast, 2),
            (self.transaction, 2),
            (self.send_many, 4),
            (self.repeat, 2),
            (self.race_with_devices, 4),
            (self.register, 3),
            (self.import_devices, 2),
            (self.deactivate, 3),
            (self.reactivate, 1),
            (self.pause_or_resume_queue, 2),
            (self.suspend_or_resume, 6 if queue.tenant in self.suspended else 1),
            (self.pause_or_resume_campaign, 2),
            (self.cancel, 1),
            (self.settle, 1),
        ]
        operation = dice.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0](queue)
        if operation is None or is_rough and dice.random() < 0.1:
            self.operations += [operation] if operation else []
            return self.trouble(workers) if is_rough else self.send(queue)
        return operation

    def trouble(self, workers):
        place = self.dice.randrange(workers)
        return self.dice.choice(
            [ReplaceWorker(place), ReplaceWorker(place), KillWorker(place), KillWorker(place), StopWorker(place)]
            + [CutSessions(), RestartPostgres(), RestartPostgres(crashes=True)]
        )

    def settle(self, queue):
        return Settle() if not self.paused_queues and not self.paused_campaigns and not self.suspended else None

    # Messages.

    def message(self, queue, push_type=None, **values):
        dice = self.dice
        push_type = push_type or dice.choice(BINARY_TYPES if queue.is_binary else PLAIN_TYPES)
        self.messages += 1
        message = {
            "push_type": push_type,
            "payload": self.payload(push_type),
            "priority": None if push_type == "background" else dice.choice([None, None, 10, 5]),
            "collapse_id": dice.choice([None, None, None, "match-17", "Spielstand ü", "c" * 64]),
            "at_most_once": dice.random() < 0.15,
        }
        if queue.is_binary:
            message["collapse_id"] = None
        if push_type == "pushtotalk":
            message["priority"] = dice.choice([None, 10])
        expiration = dice.random()
        message["never_stored"] = expiration < 0.15
        message["expires_in"] = 3600 * dice.randint(1, 48) if expiration > 0.7 else None
        return self.with_badge(Message(**{**message, **values}))

    def with_badge(self, message):
        """One alert in three raises the number on the app's icon."""
        message = dataclasses.replace(message, badge=None, number=None)
        if message.push_type != "alert" or self.badge_dice.random() > 0.35:
            return message
        payload, words = badges.raised(message.payload, self.badge_dice.choice([1, 1, 1, 2, 7]))
        return dataclasses.replace(message, payload=payload, badge=words, number=self.messages)

    def set_badges(self, queues):
        """Now and then an app shows another number, on one device or on all of a user."""
        dice = self.badge_dice
        if dice.random() > 0.25:
            return None
        queue = dice.choice(queues)
        badge, users = dice.choice([0, 0, 0, 3]), self.users.get(queue.name)
        if dice.random() < 0.5:
            return self.open_app(queue, badge)
        if users and dice.random() < 0.4:
            self.operations.append(SetBadge(queue.name, user=dice.choice(users), badge=badge))
        else:
            self.operations += [
                SetBadge(queue.name, token, badge=badge) for token in dice.sample(self.tokens[queue.name], dice.choice([1, 2]))
            ]
        return None

    def keep_open(self, queues):
        """Now and then a transaction that has changed devices, or forgotten some, stays open while they are sent to. Who
        gets a device is somebody new, so that the call changes it whoever else has registered it."""
        dice = self.open_dice
        if dice.random() > (0.05 if self.is_long else 0.06):
            return
        with self.throwing(dice):
            queue = dice.choice(queues)
            tokens = dice.sample(self.tokens[queue.name], min(len(self.tokens[queue.name]), dice.choice([1, 3, 6])))
            changes = []
            for token in tokens:
                if dice.random() < 0.5:
                    changes.append(SetBadge(queue.name, token, badge=dice.choice([0, 0, 3])))
                else:
                    owners = self.users.setdefault(queue.name, [])
                    owners.append(f"late owner {len(owners)}")
                    changes.append(Register(queue.name, token, owners[-1], self.said()))
            seconds = dice.choice([1, 4, 12, 17] if self.is_long else [0.5, 1, 2])
            commits = dice.random() < 0.5
            forgotten = () if commits else tuple((queue.name, token) for token in tokens[: dice.choice([1, 3])])
            self.operations.append(OpenTransaction(tuple(changes), seconds, forgotten, commits))
            for _ in range(dice.choice([1, 2, 3])):
                others = dice.sample(self.tokens[queue.name], min(len(self.tokens[queue.name]), 4))
                message = self.message(queue, "alert")
                self.operations.append(Send(queue.name, message, tuple(dict.fromkeys(tokens + others)), urgent=dice.random() < 0.2))

    def open_app(self, queue, badge):
        """One alert comes before an app is opened on a device, and one after that."""
        with self.throwing(self.badge_dice) as dice:
            token = dice.choice(self.tokens[queue.name])
            for operation in (Wait(0.5), SetBadge(queue.name, token, badge=badge)):
                message = self.message(queue, "alert", at_most_once=False, priority=10)
                self.operations += [Send(queue.name, message, (token,)), operation]
            self.operations.append(Send(queue.name, self.message(queue, "alert"), (token,)))

    def payload(self, push_type, starts=None, channel=None):
        """JSON with a number that no other message has, in the spelling of one or another producer."""
        dice = self.dice
        alert = dice.choice(TEXTS)
        aps = {
            "alert": {"alert": dice.choice([alert, {"title": "t", "body": alert}]), "badge": dice.randint(0, 9)},
            "background": {"content-available": 1},
            "voip": {},
            "complication": {},
            "location": {},
            "pushtotalk": {},
            "widgets": {"content-changed": True},
            "liveactivity": {
                "timestamp": 1790000000 + self.messages,
                "event": "update",
                "content-state": {"score": "2:1"},
            },
            "start": {
                "timestamp": 1790000000 + self.messages,
                "event": "start",
                "content-state": {"score": "0:0"},
                "attributes-type": starts,
                "attributes": {"match": alert},
                "alert": {"title": "t", "body": alert},
            },
        }.get("start" if starts is not None else push_type)
        if channel is not None:
            aps["input-push-channel"] = channel
        content = {"mdm": f"magic {self.messages}"} if push_type == "mdm" else {"aps": aps}
        content["number"] = self.messages
        content["seed"] = self.seed
        if dice.random() < 0.3:
            content["more"] = [1.0, 1e-7, 12345678901234567890, None, True, {"z": 1, "a": dice.choice(TEXTS)}]
        style = dice.choice(["compact", "usual", "indented", "escaped", "odd"])
        if style == "compact":
            return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        if style == "usual":
            return json.dumps(content, ensure_ascii=False)
        if style == "indented":
            return json.dumps(content, indent=2, ensure_ascii=False)
        if style == "escaped":
            return json.dumps(content)
        return " " + json.dumps(content, separators=(" ,\n", " :\t"), ensure_ascii=False) + "  "

    def key(self):
        self.keys += 1
        return self.dice.choice(["order", "Schlüssel", "a b/c"]) + f"-{self.keys}"

    # Recipients.

    def list_of_tokens(self, queue, keeps_new=True):
        """Sparse, dense or a stretch of the devices, some of them unknown so far or named twice. `keeps_new`: the
        new ones become devices."""
        dice = self.dice
        known = self.tokens[queue.name]
        kind = dice.choice(["sparse", "every second", "dense", "stretch", "few", "new"])
        if kind == "sparse":
            tokens = list(self.some(known, 0.15))
        elif kind == "every second":
            tokens = known[dice.randint(0, 1) :: 2]
        elif kind == "dense":
            tokens = list(self.some(known, 0.9))
        elif kind == "stretch":
            start = dice.randrange(len(known))
            tokens = known[start : start + dice.randint(2, 40)]
        else:
            tokens = dice.sample(known, min(len(known), 3))
        if kind == "new" or dice.random() < 0.2:
            new = [self.token() for _ in range(dice.randint(1, 8))]
            if keeps_new and queue.tenant not in self.suspended:
                known += new
            tokens = tokens + new
        if not tokens:
            tokens = [known[0], known[-1]]
        if dice.random() < 0.2:
            tokens = tokens + tokens[:2]
        if dice.random() < 0.5:
            dice.shuffle(tokens)
        return tuple(tokens)

    def send(self, queue):
        dice = self.dice
        key = self.key() if dice.random() < 0.3 else None
        times = dice.random()
        operation = Send(
            queue.name,
            self.message(queue),
            self.list_of_tokens(queue),
            key=key,
            urgent=dice.random() < 0.2,
            run_in=dice.choice([1.0, 2.5, 86400]) if times < 0.2 else None,
            send_within=dice.choice([1.5, 600]) if times > 0.85 else None,
            by_command=dice.random() < 0.15,
        )
        if key:
            self.sent_keys.append(operation)
        return operation

    def send_to_user(self, queue):
        users = self.users.get(queue.name)
        if not users:
            return None
        return Send(queue.name, self.message(queue), user=self.dice.choice(users), by_command=self.dice.random() < 0.15)

    def repeat(self, queue):
        """The same call under the same key, as a producer makes it that was cut off; or, wrongly, another."""
        if not self.sent_keys:
            return None
        earlier = self.dice.choice(self.sent_keys)
        if self.dice.random() < 0.7:
            return self.with_other_shares(earlier)
        message = self.message(next(q for q in self.all if q.name == earlier.queue))
        if isinstance(earlier, Campaign):
            return Campaign(
                earlier.queue, earlier.key, message, earlier.tokens, filter=earlier.filter, users=earlier.users
            )
        return Send(earlier.queue, message, earlier.tokens, earlier.user, earlier.key)

    def with_local_time(self, campaign):
        """Every second campaign to an audience is sent where clocks show what they do where they are furthest behind, so
        that nobody has to wait a day for it."""
        dice = self.clock_dice
        if campaign.tokens is not None or campaign.start_in or dice.random() > 0.5:
            return campaign
        furthest = "America/Los_Angeles"
        return dataclasses.replace(
            campaign,
            local_zone=furthest,
            if_passed=dice.choice([None, "never", "now"]),
            default_zone=dice.choice([None, furthest, furthest, "UTC"]),
        )

    def schedule(self, queues):
        """Now and then a campaign is left to a schedule. Its minute is waited for in some long episodes."""
        dice = self.clock_dice
        queue = dice.choice(queues)
        if dice.random() > 0.05 or queue.tenant in self.suspended or queue.name in self.crowded:
            return
        with self.throwing(dice):
            message = dataclasses.replace(self.message(queue), expires_in=None)
            self.keys += 1
            campaign = Campaign(queue.name, None, message, filter=self.filter(None), urgent=dice.random() < 0.2)
            campaign = self.with_quiet_hours(campaign)
            zone = dice.choice(ZONES) or "UTC"
            is_run_by_hand = not self.is_long or dice.random() < 0.7
            self.operations.append(Schedule(f"schedule-{self.keys}", zone, campaign, is_run_by_hand))

    def with_other_shares(self, earlier):
        """Now and then, wrongly, the shares are others."""
        if not isinstance(earlier, Campaign) or not earlier.has_shares or self.share_dice.random() < 0.6:
            return earlier
        return dataclasses.replace(earlier, holdout="0.15" if earlier.holdout is None else None if earlier.variants else "0.2")

    def transaction(self, queue):
        commits = self.dice.random() < 0.6
        sends = tuple(
            Send(
                queue.name,
                self.message(queue),
                self.list_of_tokens(queue, keeps_new=commits),
                urgent=self.dice.random() < 0.2,
            )
            for _ in range(self.dice.randint(1, 4))
        )
        return Transaction(sends, commits)

    def send_many(self, queue):
        dice = self.dice
        first = self.message(queue)
        users = self.users.get(queue.name)
        is_for_users = bool(users) and dice.random() < 0.3
        is_urgent = dice.random() < 0.2
        times = dice.random()
        run_in = dice.choice([1.0, 2.5]) if times < 0.2 else None
        send_within = dice.choice([1.5, 600]) if times > 0.85 else None
        if is_for_users:
            recipients = [dice.choice(users) for _ in range(dice.randint(1, 8))]
        else:
            # Those beyond are not sent to, so that the new ones among them are not there later.
            recipients = self.list_of_tokens(queue, keeps_new=False)[:60]
        sends = []
        for recipient in recipients:
            self.messages += 1
            message = self.with_badge(dataclasses.replace(first, payload=self.payload(first.push_type)))
            if dice.random() < 0.5:
                message = dataclasses.replace(message, collapse_id=None)
            send = Send(
                queue.name,
                message,
                None if is_for_users else (recipient,),
                recipient if is_for_users else None,
                self.key() if dice.random() < 0.2 else None,
                is_urgent,
                run_in,
                send_within,
            )
            self.sent_keys += [send] if send.key else []
            sends.append(send)
        return SendMany(tuple(sends))

    def list_campaign(self, queue):
        return self.campaign(queue, self.list_of_tokens(queue))

    def note_campaign(self, queue, key):
        """A campaign that a suspended tenant starts is refused."""
        if queue.tenant not in self.suspended:
            self.campaigns.append((queue.name, key))

    def campaign_to_all(self, queue):
        # Where there are very many, each would take minutes.
        return self.list_campaign(queue) if queue.name in self.crowded else self.campaign(queue, None)

    def filter(self, tokens):
        """Of every second campaign that is not for a list."""
        return random_filter(self.filter_dice) if tokens is None and self.filter_dice.random() < 0.5 else None

    def profile(self):
        known, nick = random_profile(self.filter_dice), self.personal_dice.choice(personal.NICKS)
        known = dataclasses.replace(known, zone=self.zone_dice.choice(ZONES))
        return known if nick is None else dataclasses.replace(known, attributes=(*known.attributes, ("nick", nick)))

    def personal(self, message):
        """Most campaigns that show something have a text for each recipient."""
        if message.push_type != "alert" or self.personal_dice.random() > 0.6:
            return message
        payload, parts = personal.random_message(self.personal_dice, self.messages, self.seed)
        if message.badge:
            payload, _ = badges.raised(payload, message.raises)
            parts = personal.Personal(tuple((tag, badges.raised(text, message.raises)[0]) for tag, text in parts.versions))
        return dataclasses.replace(message, payload=payload, personal=parts, number=self.messages)

    def campaign(self, queue, tokens):
        dice = self.dice
        key = self.key()
        self.note_campaign(queue, key)
        times = dice.random()
        by_command = dice.random() < 0.15
        operation = Campaign(
            queue.name,
            key,
            self.personal(self.message(queue)),
            tokens,
            urgent=dice.random() < 0.2,
            start_in=1.0 if times < 0.1 and not by_command else None,
            send_within=dice.choice([3.0, 600]) if times > 0.9 and not by_command else None,
            by_command=by_command,
            filter=self.filter(tokens),
        )
        operation = self.with_quiet_hours(self.with_shares(self.with_local_time(operation)))
        self.sent_keys.append(operation)
        return operation

    def with_quiet_hours(self, campaign):
        """Now and then a campaign has quiet hours of its own, or explicitly none."""
        dice = self.quiet_dice
        if dice.random() > 0.2:
            return campaign
        zone = dice.choice([zone for zone in ZONES if zone])
        own = [QuietHours(zone, -7200, 5000), QuietHours(zone, -7200, 0), QuietHours(zone, 3600, 9000)]
        return dataclasses.replace(campaign, quiet=dice.choice([NONE, NONE, *own]))

    def with_shares(self, campaign):
        """One campaign in four has other payloads for some, a holdout, or both."""
        with self.throwing(self.share_dice) as dice:
            if dice.random() > 0.25:
                return campaign
            variants = []
            for name in dice.choice([[], ["b"], ["b", "short.c"]]):
                self.messages += 1
                message = dataclasses.replace(campaign.message, payload=self.payload(campaign.message.push_type))
                message = self.with_badge(dataclasses.replace(message, personal=None))
                if message.push_type == "alert" and dice.random() < 0.5:
                    payload, parts = personal.random_message(dice, self.messages, self.seed)
                    message = dataclasses.replace(
                        message, payload=payload, personal=parts, number=self.messages, badge=None
                    )
                variants.append(Variant(name, dice.choice(["0.05", "0.2", "0.333", "0.4"]), message))
            holdout = dice.choice(["0.1", "0.19"] if variants else ["0.01", "0.1", "0.5", "0.97"])
            if variants and dice.random() < 0.5:
                holdout = None
            return dataclasses.replace(campaign, variants=tuple(variants), holdout=holdout)

    def live_activity(self, queue):
        """Updates of which only the newest is wanted; so there is often more than one."""
        if queue.is_binary:
            return None
        known = self.tokens[queue.name]
        tokens = tuple(self.dice.sample(known, min(len(known), self.dice.choice([1, 1, 5]))))
        sends = [
            Send(
                queue.name,
                self.message(queue, "liveactivity", collapse_id=None, at_most_once=False, priority=10),
                tokens,
                replaces_waiting=self.dice.random() < 0.8,
            )
            for _ in range(self.dice.randint(1, 3))
        ]
        self.operations += sends[:-1]
        return sends[-1]

    def pile_up_updates(self, queues):
        """Now and then updates of Live Activities wait for their queue, so that there is a newer one when it is their
        turn."""
        dice = self.update_dice
        queue = dice.choice(queues)
        if dice.random() > 0.04 or queue.is_binary or queue.name in self.paused_queues or queue.tenant in self.suspended:
            return
        known = self.tokens[queue.name]
        with self.throwing(dice):
            tokens = dice.sample(known, min(len(known), 6))
            self.operations.append(PauseQueue(queue.name))
            for _ in range(dice.randint(2, 4)):
                message = self.message(queue, "liveactivity", collapse_id=None, at_most_once=False, priority=10)
                some = tuple(dice.sample(tokens, dice.randint(1, len(tokens))))
                self.operations.append(Send(queue.name, message, some, replaces_waiting=dice.random() < 0.8))
            self.operations.append(ResumeQueue(queue.name))

    def reach_users(self, queues):
        """Now and then a campaign is for a list of users, some of whom have no device. It waits for its time or its queue
        while users log out, and phones go to others, some of whom are on the list, too, and now and then come back."""
        dice = self.list_dice
        queue = dice.choice(queues)
        users = self.users.get(queue.name)
        if dice.random() > 0.12 or not users or queue.name in self.crowded:
            return
        with self.throwing(dice):
            listed = dice.sample(users, dice.randint(1, len(users))) + ["nobody"] * dice.choice([0, 1])
            dice.shuffle(listed)
            operation = self.with_quiet_hours(self.with_shares(self.campaign_of_users(queue, tuple(listed))))
            self.sent_keys.append(operation)
            waits = operation.start_in is None and queue.name not in self.paused_queues and queue.tenant not in self.suspended
            is_paused = waits and dice.random() < 0.7
            self.operations += [PauseQueue(queue.name)] * is_paused + [operation]
            others = ["new owner", *users]
            for token in dice.sample(self.tokens[queue.name], min(len(self.tokens[queue.name]), dice.choice([0, 3, 12]))):
                if dice.random() < 0.3:
                    self.operations.append(Unregister(queue.name, token))
                for _ in range(dice.choice([0, 1, 1, 2])):
                    self.operations.append(Register(queue.name, token, dice.choice([None, *others]), self.said()))
            self.operations += [ResumeQueue(queue.name)] * is_paused

    def campaign_of_users(self, queue, users):
        key = self.key()
        self.note_campaign(queue, key)
        dice = self.dice
        message, is_urgent, by_command = self.personal(self.message(queue)), dice.random() < 0.2, dice.random() < 0.2
        start_in = dice.choice([None, None, 1.0]) if not by_command else None
        return Campaign(
            queue.name, key, message, urgent=is_urgent, start_in=start_in, by_command=by_command, users=users
        )

    def run_out_of_time(self, queues):
        """Now and then a worker holds more than the rate of its queue lets it send in time."""
        dice = self.time_dice
        paced = [queue for queue in queues if queue.rate is not None and queue.name not in self.crowded]
        if not paced or dice.random() > 0.15:
            return
        queue = dice.choice(paced)
        known = tuple(self.tokens[queue.name])
        with self.throwing(dice):
            for _ in range(3):
                within = max(1.0, round(len(known) / queue.rate, 1))
                self.operations.append(Send(queue.name, self.message(queue, "background"), known, send_within=within))

    def outwait(self, queues):
        """Now and then the time of a message is over before its queue goes on."""
        dice = self.time_dice
        queue = dice.choice(queues)
        if dice.random() > 0.05 or queue.name in self.paused_queues or queue.tenant in self.suspended:
            return
        known = self.tokens[queue.name]
        tokens = tuple(dice.sample(known, min(len(known), dice.choice([1, 4]))))
        self.operations.append(PauseQueue(queue.name))
        with self.throwing(dice):
            self.operations.append(Send(queue.name, self.message(queue, "background"), tokens, send_within=1.0))
        self.operations.append(Wait(round(1.2 + dice.random(), 3)))
        self.operations.append(ResumeQueue(queue.name))

    def call_off(self, queues):
        """Now and then something is cancelled before any of it can be sent, because its queue is paused or its time
        has not come; or a campaign that has just begun, of which some were refused for the moment and wait."""
        dice = self.cancel_dice
        queue = dice.choice(queues)
        if dice.random() > 0.06 or queue.name in self.paused_queues or queue.tenant in self.suspended:
            return
        known = self.tokens[queue.name]
        tokens = tuple(dice.sample(known, min(len(known), dice.choice([1, 4, 40]))))
        kind = dice.choice(["begun", "paused", "ahead"])
        with self.throwing(dice):
            campaign = Campaign(queue.name, self.key(), self.message(queue, "background"), tokens)
            stop = CancelCampaign(queue.name, campaign.key)
            if kind == "begun":
                self.operations += [campaign, Wait(round(dice.uniform(0.1, 0.5), 3)), stop]
                return
            run_in = dice.choice([2.5, 86400]) if kind == "ahead" else None
            send = Send(queue.name, self.message(queue, "background"), tokens, key=self.key(), run_in=run_in)
            steps = [send, CancelSend(queue.name, send.key, by_job=dice.random() < 0.4)]
            if kind == "paused":
                steps = [PauseQueue(queue.name), *steps, campaign, stop, ResumeQueue(queue.name)]
            self.operations += steps

    def start_activities(self, queues):
        """Now and then Live Activities of a type are started: on devices whose push-to-start tokens are for it or, as far as
        anybody knows, for any. Others have tokens of another type, or have none."""
        dice = self.activity_dice
        queue = dice.choice(queues)
        if dice.random() > 0.06 or queue.is_binary:
            return
        with self.throwing(dice):
            known = self.start_tokens.setdefault(queue.name, [])
            for _ in range(dice.randint(1, 4)):
                known.append(self.token())
                kind, type_ = "liveactivity-start", dice.choice([*ACTIVITIES, None])
                self.operations.append(Register(queue.name, known[-1], self.user(queue.name), self.profile(), kind, type_))
            for type_ in dice.sample(ACTIVITIES, dice.choice([1, 2])):
                message = self.message(queue, "liveactivity", collapse_id=dice.choice([None, None, "kick-off"]), priority=10)
                channel = self.input_channel(queue)
                payload = self.payload("liveactivity", type_, channel)
                message = dataclasses.replace(message, payload=payload, starts=type_, input_channel=channel)
                tokens = tuple(known) if dice.random() < 0.2 else None
                key = self.key()
                filter = random_filter(dice, 1) if tokens is None and dice.random() < 0.3 else None
                campaign = Campaign(queue.name, key, message, tokens, urgent=dice.random() < 0.2, filter=filter)
                if not message.never_stored and channel in (None, *queue.channels):
                    self.note_campaign(queue, key)
                self.operations += [PreviewStarts(queue.name, type_, filter), campaign]
                self.start_activities_of_users(queue, type_)

    def start_activities_of_users(self, queue, type_):
        """Now and then they are started for users alone, one now or later, or a list of them."""
        dice = self.start_dice
        users = self.users.get(queue.name)
        if dice.random() < 0.3 or not users or queue.name in self.paused_queues or queue.tenant in self.suspended:
            return
        with self.throwing(dice):
            message = self.message(queue, "liveactivity", collapse_id=None, priority=10, never_stored=False)
            message = dataclasses.replace(message, payload=self.payload("liveactivity", type_), starts=type_)
            if dice.random() < 0.6:
                later = dice.choice([None, None, 1.0])
                self.operations.append(Send(queue.name, message, user=dice.choice(users), run_in=later))
            else:
                listed = tuple(dice.sample(users, dice.randint(1, len(users))))
                key = self.key()
                self.note_campaign(queue, key)
                self.operations.append(Campaign(queue.name, key, message, users=listed))

    def input_channel(self, queue):
        """Every second start names a channel for what it starts; now and then one that nobody knows."""
        dice = self.activity_dice
        if dice.random() < 0.5:
            return None
        return dice.choice(queue.channels) if queue.channels and dice.random() < 0.8 else self.channel()

    def broadcast(self, queue):
        if not queue.channels or queue.is_binary:
            return None
        message = self.message(
            queue,
            "liveactivity",
            collapse_id=None,
            at_most_once=False,
            priority=self.dice.choice([10, 5]),
            expires_in=None,
            never_stored=True,
        )
        return Broadcast(
            queue.name,
            self.dice.choice(queue.channels),
            message,
            key=self.key() if self.dice.random() < 0.3 else None,
            replaces_waiting=self.dice.random() < 0.7,
        )

    # Devices.

    def race_with_devices(self, queue):
        """Something is due in a moment, and before that some of its devices are deactivated, and others change
        hands."""
        dice = self.dice
        known = self.tokens[queue.name]
        due = dice.choice([1.0, 2.0, 3.0])
        users = self.users.get(queue.name)
        kind = dice.choice(["send", "user", "campaign", "all"])
        if kind == "send":
            self.operations.append(Send(queue.name, self.message(queue), self.list_of_tokens(queue), run_in=due))
        elif kind == "user" and users:
            self.operations.append(Send(queue.name, self.message(queue), user=dice.choice(users), run_in=due))
        else:
            tokens = self.list_of_tokens(queue) if kind == "campaign" else None
            key = self.key()
            self.note_campaign(queue, key)
            self.operations.append(Campaign(queue.name, key, self.message(queue), tokens, start_in=due, filter=self.filter(tokens)))
        for _ in range(dice.randint(0, 3)):
            self.operations.append(Register(queue.name, dice.choice(known), self.user(queue.name), self.said()))
        return self.deactivate(queue)

    def register(self, queue):
        dice = self.dice
        known = self.tokens[queue.name]
        if dice.random() < 0.4:
            known.append(self.token())
            return Register(queue.name, known[-1], self.user(queue.name), self.said())
        token = dice.choice(known)
        return Register(queue.name, token, self.user(queue.name) if dice.random() < 0.5 else None, self.said())

    def said(self):
        """What an app says of itself when it registers: everything or, as older apps do, nothing."""
        return self.profile() if self.filter_dice.random() < 0.5 else None

    def import_devices(self, queue):
        dice = self.dice
        known = self.tokens[queue.name]
        new = [self.token() for _ in range(dice.randint(1, 10))]
        tokens = dice.sample(known, min(len(known), dice.randint(1, 10))) + new
        known += new
        rows = tuple((token, self.user(queue.name) if dice.random() < 0.4 else None) for token in tokens)
        return Import(queue.name, rows, reactivate=dice.random() < 0.3)

    def deactivate(self, queue):
        known = self.tokens[queue.name]
        return Deactivate(queue.name, tuple(self.dice.sample(known, min(len(known), self.dice.randint(1, 12)))))

    def reactivate(self, queue):
        known = self.tokens[queue.name]
        return Reactivate(queue.name, tuple(self.dice.sample(known, min(len(known), self.dice.randint(1, 12)))))

    # Operators.

    def pause_or_resume_queue(self, queue):
        if queue.name in self.paused_queues:
            self.paused_queues.remove(queue.name)
            return ResumeQueue(queue.name)
        self.paused_queues.add(queue.name)
        return PauseQueue(queue.name)

    def suspend_or_resume(self, queue):
        if queue.tenant in self.suspended:
            self.suspended.remove(queue.tenant)
            return ResumeTenant(queue.tenant)
        self.suspended.add(queue.tenant)
        return SuspendTenant(queue.tenant)

    def pause_or_resume_campaign(self, queue):
        # Of a suspended tenant none may go on.
        paused = sorted(c for c in self.paused_campaigns if c[0].split("/")[0] not in self.suspended)
        if paused and self.dice.random() < 0.5:
            campaign = self.dice.choice(paused)
            self.paused_campaigns.remove(campaign)
            return ResumeCampaign(*campaign)
        running = [campaign for campaign in self.campaigns if campaign not in self.paused_campaigns]
        if not running:
            return None
        campaign = self.dice.choice(running)
        self.paused_campaigns.add(campaign)
        return PauseCampaign(*campaign)

    # Frequency caps.

    @contextlib.contextmanager
    def throwing(self, dice):
        """What is made meanwhile follows from other dice."""
        before, self.dice = self.dice, dice
        try:
            yield dice
        finally:
            self.dice = before

    def press_against_caps(self, queues):
        """Now and then several alerts at once go to the same devices, of which a cap lets some through; in a long
        episode once also after its period."""
        capped = [queue for queue in queues if queue.cap is not None]
        if not capped or self.cap_dice.random() > 0.15:
            return
        with self.throwing(self.cap_dice) as dice:
            queue = dice.choice(capped)
            (self.rush if dice.random() < 0.4 else self.crush)(queue)
            if self.is_long and queue.cap.seconds == 60 and not self.has_outlasted and dice.random() < 0.3:
                self.has_outlasted = True
                self.operations.append(Wait(dice.choice([50, 75])))
                self.rush(queue)

    def send_at_night(self, queues):
        """Now and then several alerts go to a queue that has quiet hours."""
        quiet = [queue for queue in queues if queue.quiet is not None]
        if quiet and self.quiet_dice.random() < (0.1 if self.is_long else 0.08):
            with self.throwing(self.quiet_dice) as dice:
                queue = dice.choice(quiet)
                self.rush(queue)
                # For some of them it is too late when they wake up.
                tokens = self.list_of_tokens(queue, keeps_new=False)
                within = dice.choice([20, 600, 6000, None])
                self.operations.append(Send(queue.name, self.message(queue, "alert"), tokens, send_within=within))

    def crush(self, queue):
        """Several at once go to the same few devices, in jobs that end together, and then some more."""
        dice = self.dice
        known = self.tokens[queue.name]
        tokens = tuple(dice.sample(known, min(len(known), 5)))
        for _ in range(2):
            messages = [self.message(queue, "alert", at_most_once=False, priority=10) for _ in range(dice.choice([2, 3]))]
            self.operations.append(Transaction(tuple(Send(queue.name, message, tokens) for message in messages)))
            key = self.key()
            self.note_campaign(queue, key)
            self.operations.append(Campaign(queue.name, key, self.message(queue, "alert", at_most_once=False), tokens))
            self.operations.append(Wait(round(dice.uniform(0.3, 0.8), 3)))

    def rush(self, queue):
        dice = self.dice
        tokens = self.list_of_tokens(queue, keeps_new=False)
        for _ in range(dice.randint(2, 4 if self.is_long else 3)):
            kind = dice.choice(["send", "list", "list", "all"])
            message, urgent = self.message(queue, "alert"), dice.random() < 0.2
            if kind == "send":
                self.operations.append(Send(queue.name, message, tokens, urgent=urgent))
                continue
            key = self.key()
            self.note_campaign(queue, key)
            is_for_all = kind == "all" and queue.name not in self.crowded
            campaign = Campaign(queue.name, key, message, None if is_for_all else tokens, urgent=urgent)
            self.operations.append(self.with_quiet_hours(campaign))

    def change_restraints(self, queues):
        """Now and then a queue gets another frequency cap or other quiet hours, or loses them; what is sent then has to
        wait now and then until workers must know of it."""
        dice = self.change_dice
        if dice.random() > (0.06 if self.is_long else 0.04):
            return
        queue = dice.choice(queues)
        if dice.random() < 0.5:
            caps = [queue.cap] if queue.cap else [self.any_cap(dice)]
            self.operations.append(ChangeCap(queue.name, dice.choice([None, *caps, self.any_cap(dice)])))
        else:
            self.operations.append(ChangeQuietHours(queue.name, dice.choice([None, self.quiet_hours(dice)])))
        if self.is_long and dice.random() < 0.5:
            self.operations.append(Wait(8.5))
        if queue.tenant not in self.suspended:
            with self.throwing(dice):
                self.rush(queue)

    def renew_secret(self):
        """Now and then the messages to a webhook are signed with another secret from then on."""
        if self.webhooks and self.webhook_dice.random() < 0.03:
            self.operations.append(RenewSecret(self.webhook_dice.choice(self.webhooks)))

    def undo_deactivations(self):
        """What answers have deactivated is undone in some episodes: of a campaign, with a reason, of the last seconds. Then
        all are sent to."""
        dice = self.change_dice
        if dice.random() > 0.7:
            return
        queue = dice.choice([queue for queue in self.all if queue.tenant in self.webhooks] or self.all)
        keys = [key for name, key in self.campaigns if name == queue.name]
        kinds = [{"reason": "Unregistered"}, {"seconds": 3600}, {"seconds": 3600}, {"seconds": 0}]
        self.operations.append(UndoDeactivations(queue.name, **dice.choice(kinds + [{"key": key} for key in keys[-3:]])))
        with self.throwing(dice):
            self.operations.append(Send(queue.name, self.message(queue), tuple(self.tokens[queue.name])))

    def cancel(self, queue):
        running = [campaign for campaign in self.campaigns if campaign not in self.paused_campaigns]
        if not running:
            return None
        campaign = self.dice.choice(running)
        self.campaigns.remove(campaign)
        return CancelCampaign(*campaign)
