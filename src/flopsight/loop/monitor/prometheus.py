"""Figures for Prometheus: as text, and from an endpoint on the loopback address that it can scrape."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from ...errors import InputError
from ...results.run import Interval
from .deliveries import Delivery, Figures

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")


def text_of(figures: Mapping[str, float]) -> str:
    """Every figure as a gauge, in the text format."""
    rows = ((name.replace("/", "_"), value) for name, value in figures.items())
    return "".join(f"# TYPE {name} gauge\n{name} {value}\n" for name, value in rows)


def endpoint(url: str) -> Delivery:
    """A delivery that serves the latest figures at an address of this machine until the loop is over."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme != "http" or parts.hostname not in HOSTS or not port:
        raise InputError(
            f"to= names {url}; an endpoint for Prometheus is on the loopback address and has a port: "
            f"http://{LOOPBACK}:9400/metrics."
        )
    served = Endpoint(port)
    return Delivery(url, served.show, served.close)


class Endpoint:
    """A server of this machine's own; it is there from the first figures on."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: ThreadingHTTPServer | None = None
        self._page = b""

    def show(self, _interval: Interval, figures: Figures) -> None:
        """Serve these figures from now on; raises if the port is taken."""
        self._page = text_of(figures).encode()
        if self._server is None:
            self._server = ThreadingHTTPServer((LOOPBACK, self._port), self._handler())
            self._server.daemon_threads = True
            threading.Thread(target=self._server.serve_forever, name="flopsight endpoint", daemon=True).start()

    def close(self) -> None:
        """Stop to serve."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(endpoint._page)))
                self.end_headers()
                self.wfile.write(endpoint._page)

            def log_message(self, *_words: Any) -> None:
                """Say nothing: a scrape every few seconds is not worth a line."""

        return Handler
