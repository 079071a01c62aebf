"""The operations of what watches the server: metrics, dashboard, sign-in."""

from __future__ import annotations

from typing import Any

from tandem.http.openai import openapi_journal
from tandem.http.openai.openapi_parts import (
    BEFORE,
    BODY,
    POSITIVE,
    TEXT,
    body,
    exposition,
    in_path,
    json_answer,
    page,
    parameter,
    reference,
    responses,
)

__all__ = ["paths"]

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
FINISHES = ("stop", "length", "tool_calls", "timeout", "abandoned", "error", "refused")
ZONE = parameter("tz", "A name of the tz database; UTC if absent.", TEXT)
WHOSE = (parameter("model", "The name that clients sent.", TEXT), parameter("client", "The id of a client.", TEXT))


def paths() -> dict[str, Any]:
    """Its routes, with their methods."""
    return {
        "/": {"get": _to_dashboard("root")},
        "/dashboard": {"get": _to_dashboard("without-slash")},
        "/dashboard/": {"get": _dashboard()},
        "/dashboard/{name}": {"get": _file()},
        "/metrics": {"get": _metrics()},
        "/metrics/up": {"get": _up()},
        "/v1/dashboard/metrics": {"get": _dashboard_metrics()},
        "/v1/dashboard/system": {"get": _system()},
        "/v1/dashboard/live": {"get": _live()},
        "/v1/dashboard/logs": {"get": _logs()},
        "/v1/dashboard/summary": {"get": _summary()},
        "/v1/dashboard/usage": {"get": _usage()},
        "/v1/dashboard/requests": {"get": _requests()},
        **openapi_journal.paths(),
        "/v1/dashboard/session": {"get": _session(), "post": _sign_in(), "delete": _sign_out()},
    }


def _to_dashboard(name: str) -> dict[str, Any]:
    answers = responses({})
    location = {"Location": {"description": "Relative.", "schema": {"type": "string"}}}
    del answers["200"]
    return {
        "operationId": name,
        "summary": "The way to the dashboard",
        "description": "Leads to /dashboard/.",
        "responses": {"302": {"description": "There it is.", "headers": location}, **answers},
    }


def _dashboard() -> dict[str, Any]:
    return {
        "operationId": "dashboard",
        "summary": "The dashboard",
        "description": "Public, since it holds no data: what it shows, it asks the routes below for.",
        "responses": responses(page("The page.")),
    }


def _file() -> dict[str, Any]:
    name = in_path("name", "One of the page's own files.", {"type": "string", "minLength": 1}, "app.css")
    content = {kind: {"schema": {"type": "string"}} for kind in ("text/css", "text/javascript", "image/svg+xml")}
    return {
        "operationId": "dashboard-file",
        "summary": "A file of the dashboard",
        "description": "Style, script or picture.",
        "parameters": [name],
        "responses": responses({"description": "The file.", "content": {**content, **page("")["content"]}}, 404),
    }


def _metrics() -> dict[str, Any]:
    return {
        "operationId": "metrics",
        "summary": "Metrics for Prometheus",
        "description": "Takes the metrics token where TANDEM_METRICS_TOKEN is set, else the password where one is.",
        "responses": responses(exposition("Counters, histograms and gauges."), 401),
    }


def _up() -> dict[str, Any]:
    return {
        "operationId": "up",
        "summary": "Whether it serves",
        "description": "The one series `tandem_up`: 1 while serving, else 0. Asks for nothing.",
        "responses": responses(exposition("The series.")),
    }


def _dashboard_metrics() -> dict[str, Any]:
    return {
        "operationId": "dashboard-metrics",
        "summary": "The page of /metrics",
        "description": "For whoever may read the dashboard.",
        "responses": responses(exposition("Counters, histograms and gauges."), 400, 401),
    }


def _system() -> dict[str, Any]:
    return {
        "operationId": "system",
        "summary": "What runs and how it is set",
        "description": "Secrets are redacted, and the home directory is `~`.",
        "responses": responses(json_answer("The System screen's data.", "System"), 400, 401),
    }


def _live() -> dict[str, Any]:
    return {
        "operationId": "live",
        "summary": "What runs now",
        "description": (
            "The engine, the queue and every request, without a word of a prompt or an answer. With `follow=1` the "
            "response is a stream of `live` events instead, each a whole document; a websocket gets the same."
        ),
        "responses": responses(json_answer("The present moment, with history.", "Live"), 400, 401, 429, 503),
    }


def _logs() -> dict[str, Any]:
    whole = {"type": "integer", "minimum": 0, "maximum": 2**53 - 1}
    return {
        "operationId": "logs",
        "summary": "Lines of the log",
        "description": (
            "The newest lines, or those behind `since`. With `follow=1` the response is a stream of events instead, "
            "`log` and `gap`, that goes on as lines come and resumes from `Last-Event-ID`; a websocket gets the same."
        ),
        "parameters": [
            parameter("since", "The `seq` of the last line that is known already.", whole),
            parameter("limit", "Lines at most; 500 if absent.", {"type": "integer", "minimum": 1, "maximum": 5000}),
            parameter("level", "This level and those above it.", {"type": "string", "enum": list(LEVELS)}),
            parameter("source", "A tag, or `stdout` or `stderr`.", {"type": "string", "maxLength": 200}),
            parameter("request_id", "The id of a request.", {"type": "string", "maxLength": 200}),
            parameter("text", "A part of the message, in any case.", {"type": "string", "maxLength": 200}),
        ],
        "responses": responses(json_answer("The lines.", "Logs"), 400, 401, 429),
    }


def _summary() -> dict[str, Any]:
    return {
        "operationId": "summary",
        "summary": "Totals of use",
        "description": "Of today, 7, 30 and 365 days and all; streaks, top days, and whether the server works now.",
        "parameters": [ZONE],
        "responses": responses(json_answer("The totals.", "Summary"), 400, 401),
    }


def _usage() -> dict[str, Any]:
    return {
        "operationId": "usage",
        "summary": "Use by day or hour",
        "description": (
            "Figures of each local day or hour, without a gap and safe across clock changes. `from` and `to` are both "
            "included: a date means its whole day, a time its bucket. At most 31 days by the hour, 1,100 by the day."
        ),
        "parameters": [
            parameter("from", "Date or time of ISO 8601; 30 days of days, 2 of hours if absent.", TEXT),
            parameter("to", "The same; now if absent.", TEXT),
            parameter("bucket", "`day` if absent.", {"type": "string", "enum": ["day", "hour"]}),
            ZONE,
            *WHOSE,
        ],
        "responses": responses(json_answer("The figures.", "UsageFigures"), 400, 401),
    }


def _requests() -> dict[str, Any]:
    rows = {"type": "array", "items": {"type": "object"}}
    found = {
        "description": "A page of rows; with `format` the rows alone.",
        "content": {
            "application/json": {"schema": {"anyOf": [reference("Requests"), rows]}},
            "text/csv": {"schema": {"type": "string"}},
        },
    }
    return {
        "operationId": "requests",
        "summary": "Requests that have ended",
        "description": (
            "Rows of the ledger, the newest end first, by the page. With `format` the rows themselves are streamed, "
            "at most 100,000: as CSV with a head of names, or as an array of JSON."
        ),
        "parameters": [
            parameter("limit", "Rows at most; 50 if absent, 100,000 with `format`.", POSITIVE),
            BEFORE,
            *WHOSE,
            parameter("finish", "A finish reason.", {"type": "string", "enum": list(FINISHES)}),
            parameter("request_id", "The id of one request.", TEXT),
            parameter("format", "An export instead of a page.", {"type": "string", "enum": ["csv", "json"]}),
        ],
        "responses": responses(found, 400, 401),
    }


def _session() -> dict[str, Any]:
    return {
        "operationId": "session",
        "summary": "State of the sign-in",
        "description": "Whether there is a password, whether the dashboard asks for it, and whether you are signed in.",
        "responses": responses(json_answer("The state.", "Session")),
    }


def _sign_in() -> dict[str, Any]:
    cookie = {"Set-Cookie": "The session; scripts of a page cannot read it."}
    return {
        "operationId": "sign-in",
        "summary": "Sign in",
        "description": "Gives a session cookie for the password. A 404 where no password is set.",
        "requestBody": body("SignIn", plain={"token": "the password of the server, TANDEM_ADMIN_TOKEN"}),
        "responses": responses(json_answer("Signed in.", "Session", cookie), 401, 404, 429, *BODY),
    }


def _sign_out() -> dict[str, Any]:
    cookie = {"Set-Cookie": "An empty one."}
    return {
        "operationId": "sign-out",
        "summary": "Sign out",
        "description": "Takes the cookie back.",
        "responses": responses(json_answer("Signed out.", "Session", cookie)),
    }
