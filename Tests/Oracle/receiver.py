"""The servers of tenants that have the reports about their devices posted to them (docs/webhooks.md): one port, and a path
for each tenant.

It writes everything down and judges nothing. It takes most messages; others it refuses, sends elsewhere, or leaves
without an answer, as the seed says."""

import dataclasses
import http.server
import random
import threading
import time

PATIENCE = 20.0  # seconds after which it gives a sender up that waits for an answer in vain


@dataclasses.dataclass
class Delivery:
    """A message that came whole, and what was answered. Times are seconds since 1970."""

    at: float
    path: str
    headers: dict  # by their names in small letters
    body: bytes
    answer: str  # take, refuse, redirect, drop, cut or silent
    ended_at: float = None  # when its sender could know of the answer, at the earliest; None: it did not get so far

    @property
    def tenant(self):
        return self.path.strip("/")

    @property
    def identifier(self):
        return self.headers.get("webhook-id", "")

    @property
    def was_accepted(self):
        return self.answer == "take" and self.ended_at is not None


class Receiver:
    def __init__(self, seed, tenants, is_patient):
        self.seed, self.tenants, self.is_patient = seed, tenants, is_patient
        self.share = random.Random(f"receiver {seed}").choice([0.0, 0.3, 0.5])  # of messages that it does not take
        self.is_calm = False  # takes everything
        self.deliveries = []
        self.counts = dict.fromkeys(tenants, 0)
        self.lock = threading.Lock()
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = PATIENCE

            def do_POST(self):
                receiver.receive(self)

            do_GET = do_PUT = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # a sender that was killed has gone in the middle
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def url(self, tenant):
        return f"http://127.0.0.1:{self.server.server_address[1]}/{tenant}"

    def end(self):
        self.server.shutdown()
        self.server.server_close()

    def decide(self, tenant):
        """What is done with the next message of a tenant."""
        self.counts[tenant] = number = self.counts.get(tenant, 0) + 1
        dice = random.Random(f"receiver {self.seed} {tenant} {number}")
        if self.is_calm or dice.random() >= self.share:
            return "take", dice.choice([0, 0, 0, 0.3])
        kinds = ["refuse", "refuse", "redirect", "drop", "cut"] + ["silent"] * self.is_patient
        return dice.choice(kinds), dice.choice([0, 0.2])

    def receive(self, request):
        request.close_connection = True
        at = time.time()
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in request.headers.items()}
        with self.lock:
            answer, delay = self.decide(request.path.strip("/"))
            delivery = Delivery(at, request.path, headers, body, answer)
            self.deliveries.append(delivery)
        time.sleep(delay)
        if answer == "silent":
            # Until it hangs up.
            request.connection.settimeout(PATIENCE)
            try:
                request.connection.recv(1)
            except OSError:
                pass
        # Before it can be known.
        delivery.ended_at = time.time()
        if answer == "take":
            request.send_response(204 if len(body) % 2 else 200)
        elif answer == "refuse":
            request.send_response(503 if len(body) % 2 else 500)
        elif answer == "redirect":
            # Nobody follows it, or another one's reports would come there.
            request.send_response(307)
            others = [tenant for tenant in self.tenants if tenant != delivery.tenant]
            request.send_header("location", self.url((others or ["nobody"])[0]))
        elif answer == "cut":
            request.wfile.write(b"HTTP/1.1 2")
            return
        else:
            return
        if answer != "take" or not len(body) % 2:
            request.send_header("content-length", "0")
        request.end_headers()
