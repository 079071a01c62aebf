// Dev: the log as it comes, the requests that have ended, and all that is known of one of them (OBS-089).

import { getJson } from "../api.js";
import { clear, h, text } from "../dom.js";
import { NONE, clock, count, duration, rate } from "../format.js";
import { LogFeed } from "../logfeed.js";
import { FINISHES, box, button, choice, ending, noLedger, note, panel, table } from "../panel.js";
import { detail, lineRow } from "./request.js";
import { detail as session } from "./session.js";

/** @typedef {import("../logfeed.js").Entry} Entry */
/** @typedef {import("../panel.js").Choices} Choices */

const SHOWN = 1000;
const BACKLOG = 500;
const PAGE = 25;
const TYPING_MS = 300;
/** More lines at once than this are not read out. */
const READ_OUT = 3;
const QUIET_MS = 3000;
/** The log counts as scrolled to its end this near to it. */
const NEAR = 24;

/** @type {Choices} */
const LEVELS = [["", "All levels"], ["INFO", "Info and above"], ["WARNING", "Warnings and errors"], ["ERROR", "Errors"]];
/** @type {Choices} */
const ENDINGS = [["", "Any end"], ...FINISHES.map((name) => /** @type {[string, string]} */ ([name, name]))];

/** @param {HTMLElement} root @param {import("../app.js").App} app */
function mount(root, app) {
  const [kind, id] = app.rest;
  if (kind === "request" && id) return detail(root, app, id);
  if (kind === "session" && id) return session(root, id);
  const parts = [logPart(), requestsPart()];
  clear(root, parts.map((part) => part.node));
  return () => parts.forEach((part) => part.stop());
}

/** Filters by their name; `change` follows the last key after a moment. @param {() => void} change */
function wanting(change) {
  /** @type {Record<string, string>} */
  const wanted = {};
  let timer = 0;
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => {
    wanted[name] = value.trim();
    window.clearTimeout(timer);
    timer = window.setTimeout(change, TYPING_MS);
  };
  const typed = (/** @type {string} */ label, /** @type {string} */ name, placeholder = "") => {
    const field = h("input", { type: "search", placeholder, spellcheck: "false", maxlength: 200, oninput: () => set(name)(field.value) });
    return h("label", { class: "field" }, label, field);
  };
  return { wanted, set, typed, stop: () => window.clearTimeout(timer) };
}

function logPart() {
  const empty = h("li", { class: "line-mark" }, "No line yet that these filters let through.");
  const list = h("ol", { class: "log", role: "log", "aria-label": "Log lines", tabindex: "0" });
  const state = h("p", { class: "log-state", role: "status" }, "Connecting");
  const pause = button("Following", () => follow(!following));
  /** Came since lines were last put into the page. @type {Entry[]} */
  let fresh = [];
  let skipped = 0;
  let following = true;
  let drawing = 0;
  let quiet = 0;
  const feed = new LogFeed(
    (entry) => {
      fresh.push(entry);
      if (fresh.length > SHOWN) skipped += fresh.splice(0, 1).length;
      drawing ||= requestAnimationFrame(draw);
    },
    (words, isWell) => {
      text(state, `${isWell ? "●" : "◆"} ${words}`);
      state.classList.toggle("warn", !isWell);
    },
  );
  const draw = () => {
    drawing = 0;
    text(pause, following ? "Following" : `Paused${fresh.length ? `, ${count(fresh.length + skipped)} new` : ""}`);
    pause.setAttribute("aria-pressed", String(following));
    if (!following) return;
    if (fresh.length > READ_OUT) list.setAttribute("aria-live", "off");
    window.clearTimeout(quiet);
    quiet = window.setTimeout(() => list.setAttribute("aria-live", "polite"), QUIET_MS);
    if (fresh.length) empty.remove();
    if (skipped) list.append(mark(`${count(skipped)} lines came faster than the page shows them`));
    list.append(...fresh.map(row));
    fresh = [];
    skipped = 0;
    while (list.childElementCount > SHOWN) list.firstElementChild?.remove();
    list.scrollTop = list.scrollHeight;
  };
  const follow = (/** @type {boolean} */ next) => {
    following = next;
    draw();
  };
  const restart = () => {
    fresh = [];
    skipped = 0;
    clear(list, empty);
    list.setAttribute("aria-live", "off");
    feed.open({ ...filters.wanted, limit: BACKLOG });
    draw();
  };
  const filters = wanting(restart);
  list.addEventListener("scroll", () => {
    if (following && list.scrollHeight - list.scrollTop - list.clientHeight > NEAR) follow(false);
  });
  const { set, typed } = filters;
  const fields = [choice("Level", LEVELS, "", set("level")), typed("Tag", "source", "req"), typed("Text", "text"), typed("Request", "request_id", "chatcmpl-…")];
  restart();
  return {
    node: box("Log", state, h("div", { class: "toolbar" }, fields, pause), list),
    stop() {
      feed.close();
      filters.stop();
      window.clearTimeout(quiet);
      cancelAnimationFrame(drawing);
    },
  };
}

/** @param {string} words */
const mark = (words) => h("li", { class: "line-mark warn" }, `▲ ${words}`);

/** @param {Entry} entry */
function row(entry) {
  if ("lost" in entry) return mark(`${count(entry.lost)} ${entry.lost === 1 ? "line is" : "lines are"} lost here`);
  if ("restarted" in entry) return mark("The server has started anew");
  return lineRow(entry);
}

function requestsPart() {
  /** `before` of each page down to the one shown; the newest has none. @type {(number | null)[]} */
  let pages = [null];
  const open = (/** @type {(number | null)[]} */ next) => {
    pages = next;
    void part.load();
  };
  const filters = wanting(() => open([null]));
  const part = panel(
    "the requests",
    "high",
    (signal) => getJson("v1/dashboard/requests", { limit: PAGE, before: pages[pages.length - 1], ...filters.wanted }, signal),
    ({ ledger, requests, next_before }) => {
      if (!ledger.enabled) return noLedger();
      const newer = button("Newer", () => open(pages.slice(0, -1)));
      const older = button("Older", () => open([...pages, next_before]));
      newer.disabled = pages.length === 1;
      older.disabled = next_before === null;
      return [
        requests.length ? requestTable(requests) : note("No request has ended that these filters let through."),
        h("p", { class: "toolbar" }, newer, older, h("span", { class: "muted" }, newer.disabled ? "The newest" : `Page ${pages.length}`)),
      ];
    },
  );
  const { set, typed } = filters;
  const fields = [typed("Model", "model"), typed("Client", "client", "anon"), choice("End", ENDINGS, "", set("finish"))];
  void part.load();
  return {
    node: box("Finished requests", h("div", { class: "toolbar" }, fields, button("Refresh", () => open([null]))), part.node),
    stop() {
      part.stop();
      filters.stop();
    },
  };
}

/** @param {Record<string, any>[]} requests */
const requestTable = (requests) =>
  table(
    "Their rows",
    ["Arrived", "End", "Client", "Model", "#Input", "#Cached", "#Output", "#Waited", "#First token", "#Tokens/s", "#Total"],
    requests.map((one) => [
      h("a", { href: `#/dev/request/${encodeURIComponent(one["request_id"])}` }, clock(one["ts_ms"])),
      h("span", { class: one["error_type"] === "memory" ? "gate" : null }, ending(one["finish_reason"], one["error_type"] && `: ${one["error_type"]}`)),
      [one["client_kind"], h("small", { class: "muted" }, ` ${one["client_id"]}`)],
      h("span", { class: "clip name", title: one["model"] }, one["model"] ?? NONE),
      count(one["prompt_tokens"]),
      count(one["cached_tokens"]),
      count(one["completion_tokens"]),
      duration(one["queue_ms"]),
      duration(one["ttft_ms"]),
      rate(one["decode_tps"]),
      duration(one["total_ms"]),
    ]),
  );

export const view = { id: "dev", title: "Dev", mount };
