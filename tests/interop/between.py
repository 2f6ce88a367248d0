"""A proxy that counts requests and does something at one of them: it loses the answer, refuses, or calls the
test, which may kill the client. Everything else is forwarded unchanged, also the signed headers."""
import http.client
import http.server
import socket
import struct
import threading
import urllib.parse

WRITES = ("PUT", "POST", "DELETE")


class Between(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, to):
        super().__init__(("127.0.0.1", 0), Handler)
        self.to = urllib.parse.urlsplit(to).netloc
        self.lock = threading.Lock()
        self.begin()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def begin(self, before=None, after=None):
        """Counts from 0 again. before and after are called with the number of a write, its method, path and
        headers; before may return (status, code) to refuse it, after "lose" or "reset" to keep the answer."""
        with self.lock:
            self.count, self.before, self.after = 0, before, after
            self.log = []

    def number(self, method, path):
        with self.lock:
            self.log.append((method, path))
            if method not in WRITES:
                return None
            self.count += 1
            return self.count - 1

    def handle_error(self, request, client_address):
        pass  # clients are killed


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do(self):
        server = self.server
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        number = server.number(self.command, self.path)
        call = (number, self.command, self.path, self.headers)
        refused = server.before(*call) if server.before and number is not None else None
        if refused:
            text = f"<Error><Code>{refused[1]}</Code><Message>refused</Message></Error>".encode()
            return self.answer(refused[0], {}, text)
        reply, data = self.forward(body)
        how = server.after(*call) if server.after and number is not None else None
        if how:
            return self.drop(how)
        return self.answer(reply.status, dict(reply.getheaders()), data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do

    def forward(self, body):
        link = http.client.HTTPConnection(self.server.to)
        link.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                link.putheader(name, value)
        link.endheaders(body)
        reply = link.getresponse()
        data = reply.read()
        link.close()
        return reply, data

    def drop(self, how):
        if how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def answer(self, status, headers, data):
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        length = headers.get("Content-Length", str(len(data))) if self.command == "HEAD" else str(len(data))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
