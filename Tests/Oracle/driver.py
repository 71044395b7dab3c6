"""Carries an episode out on a stack, one operation after the other, and writes down what was done when."""

import dataclasses
import datetime
import json
import math
import os
import random
import signal
import threading
import time
import zoneinfo

import psycopg2

from . import filters
from . import scenario as s
from .follower import Follower
from .quiet import NONE, Setting, in_words
from .receiver import Receiver

STUCK_SECONDS = 90  # what is due counts as stuck when nothing has come of it for so long


@dataclasses.dataclass
class Event:
    """An operation as it was carried out. Times are seconds since 1970 by the machine's only clock."""

    operation: object
    began: float
    ended: float = None
    root: int = None  # of what was sent
    job: int = None  # of failed recipients that are sent to again
    error: str = None  # the SQLSTATE, or what a command printed
    committed: bool = True
    expiration: int = None  # of what was sent, as it stands in its header
    run_at: float = None
    send_by: float = None  # None: a day after its start
    traceparent: str = None  # that came with a send
    local_time: str = None  # of a campaign that is sent when clocks show it
    since: float = None  # of deactivations that are undone: those that were written down from then on
    quiet_hours: str = None  # of a campaign that has its own, or none
    previewed: tuple = None  # of starts: how many devices there are, and how many of them have no token
    connection: object = None  # whose transaction it is part of


@dataclasses.dataclass
class History:
    """All that was done, in order. Whatever else is known only while an episode runs."""

    events: list = dataclasses.field(default_factory=list)
    faults: list = dataclasses.field(default_factory=list)  # (kind, worker's door or None, from, until)
    stuck: list = dataclasses.field(default_factory=list)  # what did not come to an end
    followed: dict = dataclasses.field(default_factory=dict)  # queue -> rows of feedback as a producer read them
    unfollowed: str = None  # why he could not read on
    deliveries: list = dataclasses.field(default_factory=list)  # what the servers of tenants got
    secrets: dict = dataclasses.field(default_factory=dict)  # tenant -> (from, until, secret), the first one first
    set_webhooks: dict = dataclasses.field(default_factory=dict)  # tenant -> calls that set it, in the same way
    caps: dict = dataclasses.field(default_factory=dict)  # queue -> (from, until, the cap that it has then or none)
    quiet: dict = dataclasses.field(default_factory=dict)  # queue -> (from, until, quiet hours that it has then or none)


class Driver:
    def __init__(self, stack, episode):
        self.stack, self.episode = stack, episode
        self.history = History()
        self.running = {}  # place -> worker
        self.dice = random.Random(f"driver {episode.seed}")
        self.local_times = {}  # (queue, key) -> what a campaign was started with, for whoever repeats it
        self.quiet_hours = {}  # the same of its quiet hours
        self.scheduled = []  # events of campaigns that workers are to start
        self.open = []  # threads that end transactions
        self.environments = sorted({queue.environment for queue in episode.queues})
        self.places = [(e, n) for n in range(episode.workers) for e in self.environments]

    def run(self):
        self.set_up()
        follower = Follower(self.stack, self.episode.seed, self.episode.queues)
        try:
            self.act()
            self.end_webhooks()
        finally:
            self.receiver.end()
        self.history.followed, self.history.unfollowed = follower.end(), follower.problem
        # What took effect when a transaction ended comes after what was done while it was open.
        self.history.events.sort(key=lambda event: event.ended)
        for worker in self.running.values():
            worker.drain()
        return self.history

    def act(self):
        for operation in self.episode.operations:
            self.do(operation)
        for event in self.scheduled:
            event.root = self.root_of(event.operation)

    # MARK: Set-up, by the commands that an operator uses

    def set_up(self):
        stack, episode = self.stack, self.episode
        stack.lease = episode.lease

        def admin(*arguments):
            stack.command(stack.admin, *arguments)

        self.certificates = {}  # queue -> how the recording APNs names its certificate
        for tenant in dict.fromkeys(queue.tenant for queue in episode.queues):
            admin("tenant", "create", tenant)
        for app in dict.fromkeys((queue.tenant, queue.app) for queue in episode.queues):
            admin("app", "create", *app)
        for queue in episode.queues:
            rate = ["--rate", str(queue.rate), "--burst", str(queue.burst)] if queue.rate else []
            admin("queue", "create", queue.name, *rate)
        for credential in dict.fromkeys(queue.credential for queue in episode.queues):
            queues = [queue for queue in episode.queues if queue.credential == credential]
            self.certificates.update(add_credential(stack, credential, queues))
        for queue in episode.queues:
            derives = "on" if queue.derives_collapse_id else "off"
            admin("queue", "set", queue.name, "--attempts", str(queue.attempts), "--derive-collapse-id", derives)
            if queue.is_binary:
                admin("queue", "set", queue.name, "--gateway", "binary")
            if queue.cap is not None:
                self.set_cap(queue.name, queue.cap)
                # No worker has ever known it without one.
                self.history.caps[queue.name] = [(0, 0, queue.cap)]
            for channel in queue.channels:
                stack.query("select pushq.register_channel(%s, %s, 0)", (queue.name, channel))
        deaths = sum(isinstance(x, (s.KillWorker, s.ReplaceWorker)) for x in episode.operations)
        stack.start_apns(episode.seed, episode.mood, self.environments, episode.workers + deaths)
        self.receiver = Receiver(episode.seed, episode.webhooks, episode.has_silence)
        for tenant in episode.webhooks:
            self.set_webhook(tenant, "--url", self.receiver.url(tenant))
        for queue in episode.queues:
            if queue.quiet is not None:
                self.set_quiet_hours(queue.name, queue.quiet)
                # No worker has ever known it without them.
                self.history.quiet[queue.name] = [(0, 0, setting) for _, _, setting in self.history.quiet[queue.name][-1:]]
        for place in self.places:
            self.running[place] = stack.start_worker(place[0])

    def set_cap(self, queue, cap):
        began = time.time()
        options = ["--frequency-cap", cap.words, "--cap-urgent", "on" if cap.includes_urgent else "off"]
        options += ["--cap-time-zone", cap.zone] if cap.zone else []
        self.stack.command(self.stack.admin, "queue", "set", queue, *options)
        if not cap.is_new:
            self.stack.query("""
                update pushq.frequency_cap set set_at = set_at - interval '1 hour'
                where queue_id = (select queue_id from pushq.queue_name where name = %s)
                """, (queue,))
        known = self.history.caps.setdefault(queue, [])
        # What is not given stays as it was.
        before = known[-1][2] if known else None
        zone = cap.zone or (before.zone if before else None)
        known.append((began, time.time(), dataclasses.replace(cap, zone=zone)))

    def set_webhook(self, tenant, *options):
        began = time.time()
        secret = self.stack.admin_json("webhook", "set", tenant, *options).get("secret")
        call = (began, time.time(), secret)
        self.history.set_webhooks.setdefault(tenant, []).append(call)
        if secret is not None:
            self.history.secrets.setdefault(tenant, []).append(call)

    def end_webhooks(self):
        """Their servers take everything now, and it is not waited for the next try. What is missing then is the judge's
        affair."""
        self.receiver.is_calm = True
        behind = "select t.name from pushq.webhook_progress p join pushq.tenant t on t.id = p.tenant_id where p.newest > p.cursor"
        for (tenant,) in self.stack.query(behind):
            self.set_webhook(tenant, "--url", self.receiver.url(tenant))
        deadline = time.monotonic() + STUCK_SECONDS
        while self.stack.query(behind) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.history.deliveries = list(self.receiver.deliveries)

    def set_quiet_hours(self, queue, quiet):
        """A command takes whole minutes. An episode is too short for them, so the end gets seconds then."""
        known = self.history.quiet.setdefault(queue, [])
        options = ["--quiet-urgent", "on" if quiet.includes_urgent else "off"]
        options += ["--quiet-release", f"{quiet.release}s"] if quiet.release is not None else []
        options += ["--quiet-time-zone", quiet.default_zone] if quiet.default_zone else []
        # What is not given stays as it was.
        before = known[-1][2] if known and known[-1][2] else Setting("")
        release = before.release if quiet.release is None else quiet.release
        zone = quiet.default_zone or before.zone
        began = time.time()
        for with_seconds in (False, True):
            hours = in_words(quiet.zone, quiet.begins, quiet.ends, began, with_seconds)
            if with_seconds:
                self.stack.query("update pushq.quiet_hours set hours = %s where queue_id = pushq.queue_id(%s)", (hours, queue))
            else:
                self.stack.command(self.stack.admin, "queue", "set", queue, "--quiet-hours", hours, *options)
            known.append((began, time.time(), Setting(hours, release, quiet.includes_urgent, zone)))

    def own_quiet_hours(self, operation, event):
        """What a campaign says of quiet hours; again the same under the same key."""
        quiet = operation.quiet
        if quiet is not None:
            hours = quiet if quiet == NONE else in_words(quiet.zone, quiet.begins, quiet.ends, time.time(), False)
            event.quiet_hours = self.quiet_hours.setdefault((operation.queue, operation.key), hours)
        return event.quiet_hours

    # MARK: Operations

    def do(self, operation):
        event = Event(operation, time.time())
        self.history.events.append(event)
        self.call(event)
        event.ended = time.time()

    def call(self, event):
        getattr(self, type(event.operation).__name__.lower())(event.operation, event)

    def sql(self, event, statement, parameters):
        """One call in a transaction of its own, or in the event's. A refusal is noted."""
        try:
            return self.stack.query(statement, parameters, event.connection)[0][0]
        except psycopg2.Error as error:
            if error.pgcode is None or error.pgcode[:2] in ("08", "57"):
                raise
            event.error = error.pgcode
            return None

    def admin(self, event, *arguments, stdin=None):
        """A command. Where a producer's transaction kept what it changes for too long, it is repeated, as a person would."""
        while True:
            is_open = any(thread.is_alive() for thread in self.open)
            code, output, errors = self.stack.command(self.stack.admin, *arguments, stdin=stdin, may_fail=True)
            if code == 0 or not is_open or "it was not carried out" not in errors:
                break
        if code != 0:
            event.error = errors.strip() or f"exit {code}"
        return output

    def register(self, operation, event):
        if operation.profile is not None:
            return self.register_with_profile(operation, event)
        # With a user of null the device would be nobody's from then on.
        user = () if operation.user is None else (operation.user,)
        self.sql(event, f"select pushq.register_device(%s, %s{', %s' * len(user)})", (operation.queue, operation.token, *user))
        return None

    def register_with_profile(self, operation, event):
        """What the app does not know, it says to be empty."""
        profile = operation.profile
        statement = """
            select pushq.register_device(%s, %s, %s, locale => %s, time_zone => %s, app_version => %s,
                                         tags => %s::text[], attributes => %s::jsonb, keep_user => %s, kind => %s,
                                         activity_type => %s)"""
        values = (profile.locale or "", profile.zone or "", profile.app_version or "", list(profile.tags))
        values += (json.dumps(dict(profile.attributes)),)
        values += (operation.user is None, operation.kind, operation.activity_type)
        self.sql(event, statement, (operation.queue, operation.token, operation.user, *values))

    def unregister(self, operation, event):
        self.sql(event, "select pushq.unregister_device(%s, %s)", (operation.queue, operation.token))

    def setbadge(self, operation, event):
        statement = "select pushq.set_badge(%s, token => %s, user_key => %s, badge => %s)"
        self.sql(event, statement, (operation.queue, operation.token, operation.user, operation.badge))

    def previewstarts(self, operation, event):
        where = filters.text(operation.filter) if operation.filter is not None else None
        statement = "select devices, without_token from pushq.preview_starts(%s, %s, %s)"
        event.previewed = self.stack.query(statement, (operation.queue, operation.type, where))[0]

    def import_(self, operation, event):
        if operation.profiles:
            profiles = dict(operation.profiles)
            rows = "token,user_key,locale,time_zone,app_version,tags,attributes\n"
            rows += "".join(f"{t},{quoted(u)},{profile_fields(profiles.get(t))}\n" for t, u in operation.devices)
        else:
            rows = "token,user_key\n" + "".join(f"{token},{quoted(user)}\n" for token, user in operation.devices)
        flags = ["--reactivate"] if operation.reactivate else []
        self.admin(event, "device", "import", operation.queue, "-", *flags, stdin=rows)

    def deactivate(self, operation, event):
        self.admin(event, "device", "deactivate", operation.queue, *operation.tokens)

    def reactivate(self, operation, event):
        self.admin(event, "device", "reactivate", operation.queue, *operation.tokens)

    def undodeactivations(self, operation, event):
        options = ["--campaign", operation.key] if operation.key is not None else []
        options += ["--reason", operation.reason] if operation.reason is not None else []
        if operation.seconds is not None:
            event.since = round(event.began - operation.seconds, 6)
            options += ["--since", moment(event.since)]
        # It says to run it again where somebody is writing a device.
        for _ in range(20):
            event.error = None
            self.admin(event, "device", "reactivate", operation.queue, *options, "--yes")
            if event.error is None or "run it again" not in event.error:
                break

    # What is sent.

    def times(self, operation, event):
        """Settles what is counted from now, so that the judge knows it to the second."""
        message = operation.message
        now = time.time()
        if message.never_stored:
            event.expiration = 0
        delay = getattr(operation, "run_in", None) or getattr(operation, "start_in", None)
        if not message.never_stored and message.expires_in is not None:
            # From its start: what expires before that is refused.
            event.expiration = int(now + (delay or 0) + message.expires_in)
        event.run_at = now + delay if delay else None
        within = getattr(operation, "send_within", None)
        event.send_by = (event.run_at or now) + within if within else None

    def traceparent(self):
        """Of every second send; another one for each call."""
        trace, span = self.dice.randbytes(16).hex(), self.dice.randbytes(8).hex()
        return f"00-{trace}-{span}-01" if self.dice.random() < 0.5 else None

    def send(self, operation, event, cursor=None):
        self.times(operation, event)
        message = operation.message
        event.traceparent = self.traceparent()
        if operation.by_command:
            return self.send_by_command(operation, event)
        values = {
            "queue": operation.queue,
            "payload": message.payload,
            "tokens": list(operation.tokens) if operation.tokens is not None else None,
            "user_key": operation.user,
            "push_type": message.push_type,
            "priority": message.priority,
            "expiration": event.expiration,
            "collapse_id": message.collapse_id,
            "at_most_once": message.at_most_once,
            "urgent": operation.urgent,
            "replace_waiting": operation.replaces_waiting,
            "key": operation.key,
            "traceparent": event.traceparent,
        }
        statement, parameters = call("pushq.send", values, event, "run_at")
        if cursor is None:
            event.root = self.sql(event, statement, parameters)
        else:
            cursor.execute(statement, parameters)
            event.root = cursor.fetchone()[0]
        return None

    def message_options(self, operation, event):
        message = operation.message
        path = self.stack.file("payload.json", message.payload)
        options = ["--payload", path, "--push-type", message.push_type]
        if message.priority is not None:
            options += ["--priority", str(message.priority)]
        if event.expiration is not None:
            options += ["--expiration", "0s" if message.never_stored else f"{message.expires_in}s"]
            event.expiration = 0 if message.never_stored else None  # the command counts it from its own now
        if message.collapse_id is not None:
            options += ["--collapse-id", message.collapse_id]
        return options + (["--at-most-once"] if message.at_most_once else [])

    def run_sender(self, event, field, *arguments, stdin=None):
        code, output, errors = self.stack.command(self.stack.pushq, *arguments, "--json", stdin=stdin, may_fail=True)
        if code == 0:
            event.root = int(json.loads(output)[field])
        else:
            event.error = errors.strip() or f"exit {code}"

    def send_by_command(self, operation, event):
        options = self.message_options(operation, event)
        for token in operation.tokens or ():
            options += ["--token", token]
        options += ["--user", operation.user] if operation.user is not None else []
        options += ["--key", operation.key] if operation.key is not None else []
        options += ["--urgent"] if operation.urgent else []
        options += ["--traceparent", event.traceparent] if event.traceparent else []
        for name, value in (("--at", event.run_at), ("--send-by", event.send_by)):
            options += [name, moment(value)] if value is not None else []
        self.run_sender(event, "send", "send", operation.queue, *options)

    def sendmany(self, operation, event):
        """Each send is an event of its own; all of them are made by one call."""
        inner = [Event(send, event.began) for send in operation.sends]
        first = inner[0].operation
        self.times(first, inner[0])
        sends = operation.sends
        values = {
            "queue": first.queue,
            "payloads": [send.message.payload for send in sends],
            "tokens": [send.tokens[0] for send in sends] if first.user is None else None,
            "user_keys": [send.user for send in sends] if first.user is not None else None,
            "push_type": first.message.push_type,
            "priority": first.message.priority,
            "expiration": inner[0].expiration,
            "collapse_ids": [send.message.collapse_id for send in sends],
            "at_most_once": first.message.at_most_once,
            "urgent": first.urgent,
            "keys": [send.key for send in sends],
            "traceparent": self.traceparent(),
        }
        roots = self.sql(event, *call("pushq.send_many", values, inner[0], "run_at"))
        for place, send in enumerate(inner):
            send.expiration, send.run_at, send.send_by = inner[0].expiration, inner[0].run_at, inner[0].send_by
            send.traceparent = values["traceparent"]
            send.root, send.error, send.ended = roots[place] if roots else None, event.error, time.time()
        self.history.events += inner

    def campaign(self, operation, event):
        self.times(operation, event)
        message = operation.message
        if operation.by_command:
            options = self.message_options(operation, event) + ["--key", operation.key]
            options += ["--urgent"] if operation.urgent else []
            for variant in operation.variants:
                path = self.stack.file(f"payload-{variant.name}.json", variant.message.payload)
                options += ["--variant", f"{variant.name}={path}:{float(variant.share) * 100:g}%"]
            options += ["--holdout", f"{float(operation.holdout) * 100:g}%"] if operation.holdout else []
            hours = self.own_quiet_hours(operation, event)
            options += ["--quiet-hours", hours] if hours else []
            for name, value in self.local(operation, event).items():
                options += [f"--{name.replace('_', '-')}", value] if value is not None else []
            if operation.filter is not None:
                where = filters.text(operation.filter)
                return self.run_sender(event, "campaign", "campaign", operation.queue, *options, "--filter", where)
            if operation.users is not None:
                lines = "user_key\n" + "".join(quoted(user) + "\n" for user in operation.users)
                return self.run_sender(event, "campaign", "campaign", operation.queue, *options, "--users", "-", stdin=lines)
            if operation.tokens is None:
                return self.run_sender(event, "campaign", "campaign", operation.queue, *options, "--audience", "all")
            lines = "".join(token + "\n" for token in operation.tokens)
            return self.run_sender(
                event, "campaign", "campaign", operation.queue, *options, "--tokens", "-", stdin=lines
            )
        values = {
            "queue": operation.queue,
            "key": operation.key,
            "payload": message.payload,
            "push_type": message.push_type,
            "priority": message.priority,
            "expiration": event.expiration,
            "collapse_id": message.collapse_id,
            "at_most_once": message.at_most_once,
            "urgent": operation.urgent,
        }
        if operation.users is not None:
            values["list"] = self.list_of_users(operation, event)
            if values["list"] is None:
                return None
        if operation.tokens is not None:
            values["tokens"] = list(operation.tokens)
        if operation.filter is not None:
            values["filter"] = filters.text(operation.filter)
        if operation.variants:
            variants = (f'{{"name": "{v.name}", "share": {v.share}, "payload": {v.message.payload}}}' for v in operation.variants)
            values["variants"] = f"[{', '.join(variants)}]"
        values |= {"holdout": operation.holdout, "quiet_hours": self.own_quiet_hours(operation, event)}
        values |= self.local(operation, event)
        event.root = self.sql(event, *call("pushq.start_campaign", values, event, "start_at"))
        return None

    def list_of_users(self, operation, event):
        """A list that is loaded in two parts, the first of which is repeated, as by a producer that was cut off."""
        kind = operation.message.push_type if operation.message.starts is None else "liveactivity-start"
        number = self.sql(event, "select pushq.new_list(%s, %s)", (operation.queue, kind))
        half = len(operation.users) // 2
        parts = [operation.users[:half]] * 2 + [operation.users[half:]]
        for part in parts if event.error is None else ():
            statement = "select added from pushq.add_users_to_list(%s, %s, %s::text[])"
            self.sql(event, statement, (operation.queue, number, list(part)))
        return number if event.error is None else None

    def local(self, operation, event):
        """What says when a campaign with a local time is sent, by the names of arguments."""
        if operation.local_zone is None:
            return {}
        # A full minute that is past in its zone, also when the command has taken its time.
        then = datetime.datetime.fromtimestamp(time.time() - 60, zoneinfo.ZoneInfo(operation.local_zone))
        place = (operation.queue, operation.key)
        event.local_time = self.local_times.setdefault(place, then.strftime("%Y-%m-%dT%H:%M"))
        return {
            "local_time": event.local_time,
            "if_passed": operation.if_passed,
            "default_zone": operation.default_zone,
        }

    def schedule(self, operation, event):
        """Its run, or what is started by hand, is a campaign like any other."""
        campaign = operation.campaign
        message = campaign.message
        run = (int(time.time() + 2) // 60 + 1) * 60
        local = datetime.datetime.fromtimestamp(run, zoneinfo.ZoneInfo(operation.zone))
        cron = "@yearly" if operation.is_run_by_hand else f"{local.minute} {local.hour} {local.day} {local.month} *"
        options = {
            "push_type": message.push_type,
            "priority": message.priority,
            "collapse_id": message.collapse_id,
            "at_most_once": message.at_most_once,
            "urgent": campaign.urgent,
            "expiration": "0" if message.never_stored else None,
            "filter": filters.text(campaign.filter) if campaign.filter is not None else None,
            "quiet_hours": self.own_quiet_hours(campaign, event),
        }
        options = {name: value for name, value in options.items() if value is not None}
        following = self.sql(
            event,
            "select extract(epoch from pushq.add_schedule(%s, %s, %s, %s::json, time_zone => %s, options => %s))::float8",
            (campaign.queue, operation.name, cron, message.payload, operation.zone, json.dumps(options)),
        )
        started = Event(campaign, event.began, error=event.error, expiration=0 if message.never_stored else None)
        started.quiet_hours = event.quiet_hours
        if event.error is None and operation.is_run_by_hand:
            key = self.sql(started, "select pushq.run_schedule(%s, %s)", (campaign.queue, operation.name))
            started.operation = dataclasses.replace(campaign, key=key)
            started.root = self.root_of(started.operation) if key else None
        elif event.error is None:
            started.run_at = run
            key = f"{operation.name}@{datetime.datetime.fromtimestamp(run, datetime.timezone.utc):%Y-%m-%dT%H:%MZ}"
            started.operation = dataclasses.replace(campaign, key=key)
            self.scheduled.append(started)
            event.error = f"its next run is {following} instead of {run}" if following != run else None
        else:
            event.error = None  # what was refused is the campaign
        started.ended = time.time()
        self.history.events.append(started)

    def root_of(self, campaign):
        """The number of a campaign that somebody else has started; None if there is none under its key."""
        rows = self.stack.query("""
            select c.id from pushq.campaign c join pushq.queue_name n using (queue_id) where n.name = %s and c.key = %s
            """, (campaign.queue, campaign.key))
        return rows[0][0] if rows else None

    def broadcast(self, operation, event):
        self.times(operation, event)
        message = operation.message
        values = {
            "queue": operation.queue,
            "channel": operation.channel,
            "payload": message.payload,
            "expiration": event.expiration,
            "priority": message.priority,
            "replace_waiting": operation.replaces_waiting,
            "key": operation.key,
        }
        event.root = self.sql(event, *call("pushq.broadcast", values, event, None))

    def transaction(self, operation, event):
        """Each send is an event of its own; all of them begin and end with the transaction."""
        inner = [Event(send, event.began, committed=operation.commits) for send in operation.sends]
        connection = self.stack.connect()
        connection.autocommit = False
        try:
            with connection.cursor() as cursor:
                for send in inner:
                    self.send(send.operation, send, cursor)
            (connection.commit if operation.commits else connection.rollback)()
        except psycopg2.Error as error:
            connection.rollback()
            for send in inner:
                send.committed, send.error = False, error.pgcode
        finally:
            connection.autocommit = True
        for send in inner:
            send.ended = time.time()
        self.history.events += inner

    def opentransaction(self, operation, event):
        """Each change is an event of its own, which ends with the transaction."""
        connection = event.connection = self.stack.new_connection()
        ((number,),) = self.stack.query("select pg_current_xact_id()::text", (), connection)
        inner = [Event(change, event.began, connection=connection) for change in operation.changes]
        for change in inner:
            self.call(change)
        for place in operation.forgotten:
            self.sql(event, "select pushq.forget_device(%s, %s)", place)
        end = threading.Thread(target=self.end_transaction, args=(operation, inner, connection, number))
        self.open.append(end)
        end.start()

    def end_transaction(self, operation, inner, connection, number):
        """It counts if it was committed, also where a fault has cut its connection off."""
        time.sleep(operation.seconds)
        try:
            self.stack.query("select 1", (), connection)
        except psycopg2.Error:
            operation = dataclasses.replace(operation, commits=False)  # it was lost before
        try:
            (connection.commit if operation.commits else connection.rollback)()
        except psycopg2.Error:
            if operation.commits:
                operation = dataclasses.replace(operation, commits=self.was_committed(number))
        connection.close()
        for change in inner:
            change.ended = time.time()
        self.history.events += inner if operation.commits else []

    def was_committed(self, number):
        deadline = time.monotonic() + STUCK_SECONDS
        while True:
            try:
                connection = self.stack.new_connection()
                ((state,),) = self.stack.query("select pg_xact_status(%s::xid8)", (number,), connection)
                connection.close()
                if state != "in progress":
                    return state == "committed"
            except psycopg2.OperationalError:
                pass  # PostgreSQL is being started again
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody says whether transaction {number} was committed")
            time.sleep(0.1)

    # What operators do.

    def changecap(self, operation, event):
        if operation.cap is not None:
            return self.set_cap(operation.queue, operation.cap)
        self.admin(event, "queue", "set", operation.queue, "--no-frequency-cap")
        self.history.caps.setdefault(operation.queue, []).append((event.began, time.time(), None))
        return None

    def changequiethours(self, operation, event):
        if operation.quiet is not None:
            return self.set_quiet_hours(operation.queue, operation.quiet)
        self.admin(event, "queue", "set", operation.queue, "--no-quiet-hours")
        self.history.quiet.setdefault(operation.queue, []).append((event.began, time.time(), None))
        return None

    def pausequeue(self, operation, event):
        self.admin(event, "queue", "pause", operation.queue)

    def resumequeue(self, operation, event):
        self.admin(event, "queue", "resume", operation.queue)

    def pausecampaign(self, operation, event):
        self.sql(event, "select pushq.pause_campaign(%s, %s)", (operation.queue, operation.key))

    def resumecampaign(self, operation, event):
        self.sql(event, "select pushq.resume_campaign(%s, %s)", (operation.queue, operation.key))
        if event.error == "PQ409" and self.is_over(operation):
            # Its time ended while it was paused: an operator who wants to be rid of it cancels it.
            event.error, event.operation = None, s.CancelCampaign(operation.queue, operation.key)
            self.cancelcampaign(event.operation, event)

    def is_over(self, operation):
        """Whether the time to send a campaign has passed."""
        return any(
            min(event.send_by or math.inf, event.expiration or math.inf) <= time.time()
            for event in self.history.events
            if isinstance(event.operation, s.Campaign)
            and (event.operation.queue, event.operation.key) == (operation.queue, operation.key)
        )

    def cancelcampaign(self, operation, event):
        output = self.admin(event, "campaign", "cancel", operation.queue, operation.key, "--yes")
        if "has ended" in output:
            event.error = "it has ended"  # it was not cancelled

    def cancelsend(self, operation, event):
        place = (operation.queue, operation.key)
        sent = (e for e in self.history.events if isinstance(e.operation, s.Send) and e.root is not None)
        event.root = next((e.root for e in sent if (e.operation.queue, e.operation.key) == place), None)
        if event.root is None:
            return  # it was refused
        if not operation.by_job:
            self.sql(event, "select held from pushq.cancel(%s, %s)", (operation.queue, event.root))
            return
        jobs = "select id from pushq.job where root_id = %s union all select job_id from pushq.lease where root_id = %s"
        for (job,) in self.stack.query(jobs, (event.root, event.root)):
            self.sql(event, "select held from pushq.cancel_job(%s, %s)", (operation.queue, job))

    def renewsecret(self, operation, event):
        self.set_webhook(operation.tenant, "--new-secret", "--yes")

    def suspendtenant(self, operation, event):
        self.admin(event, "tenant", "suspend", operation.tenant)

    def resumetenant(self, operation, event):
        self.admin(event, "tenant", "resume", operation.tenant)

    def retryfailed(self, operation, event):
        if operation.key is not None:
            return self.admin(event, "campaign", "retry-failed", operation.queue, operation.key, "--yes")
        failed = self.stack.admin_json("job", "list", operation.queue, "--failed")
        if failed:
            event.job = int(failed[0]["job"])
            event.root = self.stack.query("select root_id from pushq.result where job_id = %s", (event.job,))[0][0]
            self.admin(event, "job", "retry", operation.queue, str(event.job))
        return None

    # What breaks.

    def fault(self, kind, worker, began):
        self.history.faults.append((kind, worker.door if worker else None, began, time.time()))

    def replaceworker(self, operation, event):
        place = self.places[operation.place % len(self.places)]
        old = self.running[place]
        self.running[place] = self.stack.start_worker(place[0])
        old.drain()

    def killworker(self, operation, event):
        place = self.places[operation.place % len(self.places)]
        worker = self.running[place]
        worker.kill()
        self.fault("killed", worker, event.began)
        self.running[place] = self.stack.start_worker(place[0])

    def stopworker(self, operation, event):
        worker = self.running[self.places[operation.place % len(self.places)]]
        worker.signal(signal.SIGSTOP)
        time.sleep(self.episode.lease + 3)  # rescued two seconds after the end of a lease
        worker.signal(signal.SIGCONT)
        self.fault("stopped", worker, event.began)

    def cutsessions(self, operation, event):
        self.stack.query(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        self.fault("cut", None, event.began)

    def restartpostgres(self, operation, event):
        self.stack.postgres.stop(crashes=operation.crashes)
        self.stack.postgres.start()
        self.stack.connection.close()
        self.fault("crashed" if operation.crashes else "restarted", None, event.began)

    # Waiting.

    def wait(self, operation, event):
        time.sleep(operation.seconds)

    def settle(self, operation, event):
        """A large episode takes its time on a busy machine: what counts is whether anything still happens."""
        for thread in self.open:
            thread.join()
        before, since = None, time.monotonic()
        while due := self.due():
            now = self.progress()
            if now != before:
                before, since = now, time.monotonic()
            elif time.monotonic() - since > STUCK_SECONDS:
                self.history.stuck = due
                return
            time.sleep(0.05)

    def progress(self):
        """Changes whenever a request comes, or a job ends."""
        ((ended,),) = self.stack.query("select count(*) from pushq.result")
        return ended, os.path.getsize(f"{self.stack.folder}/record.ndjson")

    def due(self):
        """Some of what is not at its end: jobs of today but for those that wait for the end of quiet hours, leases,
        campaigns that still make jobs, reports of APNs on devices that others were writing, deactivations that producers
        cannot read yet, schedules of this minute."""
        return self.stack.query("""
            select 'job', id, run_at::text from pushq.job
            where run_at < now() + case when is_quiet then interval '10 s' else interval '1 hour' end
            union all
            select 'lease', job_id, deadline::text from pushq.lease
            union all
            select 'fan-out', campaign_id, cursor_device_id::text from pushq.fan_out
            where not done and not paused and start_at < now() + interval '1 hour'
            union all
            select 'schedule', queue_id, next_at::text from pushq.schedule where next_at < now() + interval '2 minutes'
            union all
            select 'report', id, reported_at::text from pushq.feedback_record
            union all
            select 'listing', id, recorded_at::text from pushq.feedback
            where cursor is null and verdict in ('deactivated', 'undone')
            limit 10
            """)


# So that an episode's certificates are good for whatever it sends.
TOPIC_SUFFIXES = [
    ".voip",
    ".complication",
    ".pushkit.fileprovider",
    ".push-type.liveactivity",
    ".location-query",
    ".voip-ptt",
    ".push-type.widgets",
    ".push-type.controls",
]

setattr(Driver, "import", Driver.import_)


def add_credential(stack, credential, queues):
    """Adds a credential for queues. Returns how the recording APNs names the certificate of each; none for a key."""
    name = f"{stack.database}-{credential.tenant}-{credential.name}"
    certificates = {}
    if credential.kind == "token":
        path = stack.authority.signing_key(f"{stack.database}-{credential.key}")
        given = ["--p8", path, "--key-id", credential.key, "--team-id", credential.team]
    else:
        path, serial = stack.authority.provider_certificate(name, credential.app, TOPIC_SUFFIXES)
        given = ["--certificate", path]
        certificates = {queue.name: f"{credential.app} {serial}" for queue in queues}
    uses = [argument for queue in queues for argument in ("--queue", queue.name)]
    stack.command(stack.admin, "credential", "add", credential.tenant, credential.name, *given, *uses)
    return certificates


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if text else ""


def profile_fields(profile):
    """Of a line of a CSV file."""
    if profile is None:
        return ",,,,"
    tags = json.dumps(profile.tags, ensure_ascii=False) if profile.tags else ""
    attributes = json.dumps(dict(profile.attributes), ensure_ascii=False) if profile.attributes else ""
    plain = f"{profile.locale or ''},{profile.zone or ''},{profile.app_version or ''}"
    return f"{plain},{quoted(tags)},{quoted(attributes)}"


def moment(time):
    """A time as commands take it, to the microsecond."""
    return datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def call(function, values, event, start):
    """A call with named arguments, those left out that are not given, as a producer writes it."""
    casts = {
        "payload": "json",
        "payloads": "json[]",
        "variants": "json",
        "holdout": "float8",
        "tokens": "text[]",
        "user_keys": "text[]",
        "collapse_ids": "text[]",
        "keys": "text[]",
        "expiration": "bigint",
    }
    parts, parameters = [], []
    for name, value in values.items():
        if value is not None:
            parts.append(f"{name} => %s::{casts[name]}" if name in casts else f"{name} => %s")
            parameters.append(value)
    for name, value in ((start, event.run_at), ("send_by", event.send_by)):
        if name is not None and value is not None:
            parts.append(f"{name} => to_timestamp(%s)")
            parameters.append(value)
    return f"select {function}({', '.join(parts)})", parameters
