"""A receiver of webhooks that shares no code with pushq: python's own HTTP server, TLS, hmac and json.

    receiver.py PORT CERTIFICATE-WITH-KEY RECORD SECRET…

With '-' for a certificate it speaks plain HTTP. Each request becomes a line of JSON in RECORD, before it is answered.
The path says how it answers: /take, /late, /refuse, /redirect, /silent, /vanish, /garbage, /endless-line, /endless-body,
/interim, /drip.
"""

import base64
import hashlib
import hmac
import http.server
import json
import ssl
import sys
import threading
import time

PORT, CERTIFICATE, RECORD, *SECRETS = sys.argv[1:]
lock = threading.Lock()


def signed_by(headers, body):
    """Which of the secrets have signed the message, by the Standard Webhooks specification 1.0.0."""
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    given = headers["webhook-signature"].split(" ")
    found = []
    for number, secret in enumerate(SECRETS):
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        code = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        if any(hmac.compare_digest(one, "v1," + code) for one in given):
            found.append(number)
    return found, len(given)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        message = json.loads(body)
        by, signatures = signed_by(self.headers, body)
        takes = self.path in ("/take", "/late", "/endless-body", "/interim")
        self.note({
            "path": self.path, "id": self.headers["webhook-id"], "signedBy": by, "signatures": signatures,
            "age": abs(time.time() - int(self.headers["webhook-timestamp"])), "type": message["type"],
            "contentType": self.headers["content-type"], "taken": takes,
            "entries": message["data"].get("entries", []), "tenant": message["data"]["tenant"],
        })
        self.close_connection = True
        getattr(self, self.path[1:].replace("-", "_"))()

    def answer(self, status, *fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def do_GET(self):
        self.note({"path": "GET " + self.path})
        self.answer(200)

    def note(self, entry):
        with lock, open(RECORD, "a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def take(self):
        self.answer(200)

    def refuse(self):
        self.answer(503)

    def redirect(self):
        scheme = "http" if CERTIFICATE == "-" else "https"
        self.answer(307, ("location", f"{scheme}://localhost:{server.server_address[1]}/take"))

    def interim(self):
        self.wfile.write(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
        self.answer(200)

    def late(self):
        time.sleep(5)
        self.answer(200)

    def silent(self):
        time.sleep(600)

    def vanish(self):
        pass

    def garbage(self):
        self.wfile.write(b"220 mail.example ESMTP\r\n")

    def endless_line(self):
        self.pour(b"HTTP/1.1 ")

    def endless_body(self):
        self.pour(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def pour(self, start):
        try:
            self.wfile.write(start)
            while True:
                self.wfile.write(b"x" * 65536)
        except OSError:
            self.note({"path": "cut off " + self.path})

    def drip(self):
        try:
            for byte in b"HTTP/1.1 100 Continue\r\n\r\n" * 1000:
                self.wfile.write(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            self.note({"path": "cut off " + self.path})

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def finish_request(self, request, client_address):
        """The handshake is the client's own time, and not the listener's."""
        if CERTIFICATE != "-":
            try:
                request = context.wrap_socket(request, server_side=True)
            except (ssl.SSLError, OSError):
                return
        super().finish_request(request, client_address)

    def handle_error(self, request, client_address):
        pass


if CERTIFICATE != "-":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
server = Server(("127.0.0.1", int(PORT)), Handler)
with open(RECORD + ".port", "w", encoding="ascii") as file:
    file.write(f"{server.server_address[1]}\n")
server.serve_forever()
