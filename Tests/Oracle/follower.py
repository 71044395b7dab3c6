"""A producer that follows which of its devices were deactivated, from the beginning to the end of an episode: by pages of
`pushq.feedback_after`, behind the cursor that it keeps, whatever is killed or restarted meanwhile."""

import contextlib
import dataclasses
import random
import threading

import psycopg2

COLUMNS = "cursor, verdict, reason, extract(epoch from reported_at)::float8, token, root_id, campaign_key, apns_id::text"


@dataclasses.dataclass
class Followed:
    """A row as the producer read it."""

    cursor: int
    verdict: str
    reason: str
    reported_at: float
    token: str
    root: int
    key: str  # of the campaign
    identifier: str  # the apns-id that was answered so


class Follower:
    def __init__(self, stack, seed, queues):
        self.stack, self.dice = stack, random.Random(f"follower {seed}")
        self.rows = {queue.name: [] for queue in queues}
        self.ending = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.problem = None  # why it ended before its time
        self.thread.start()

    def end(self):
        """Reads what is left. Returns all rows, by queue, in the order in which they came."""
        self.ending.set()
        self.thread.join(120)
        if self.thread.is_alive():
            self.problem = "a page never came"
        return self.rows

    def run(self):
        while True:
            is_last = self.ending.is_set()
            try:
                with contextlib.closing(psycopg2.connect(self.stack.postgres.address(self.stack.database))) as connection:
                    connection.autocommit = True
                    while True:
                        is_last = self.ending.is_set()
                        for queue in self.rows:
                            self.read(connection, queue)
                        if is_last:
                            return
                        self.ending.wait(0.1)
            except psycopg2.Error as error:
                # Cut off, or the server is away: a producer comes back and goes on behind its cursor.
                if is_last or error.pgcode is not None and error.pgcode[:2] not in ("08", "57"):
                    self.problem = f"{error.pgcode} {error}".strip()
                    return
                self.ending.wait(0.1)

    def read(self, connection, queue):
        """All pages that there are now. Pages are small, so that there are many ends of pages."""
        rows = self.rows[queue]
        while True:
            most = self.dice.choice([1, 2, 7, 1000])
            with connection.cursor() as cursor:
                after = rows[-1].cursor if rows else 0
                cursor.execute(f"select {COLUMNS} from pushq.feedback_after(%s, %s, %s)", (queue, after, most))
                page = [Followed(*row) for row in cursor.fetchall()]
            rows.extend(page)
            if len(page) < most:
                return
