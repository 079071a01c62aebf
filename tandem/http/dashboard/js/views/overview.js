// Overview: what there is of it today, and what will be here (OBS-086 comes with the router).

import { getJson } from "../api.js";
import { clear, h } from "../dom.js";
import { count, seconds } from "../format.js";
import { box, facts, panel } from "../panel.js";

const LATER = ["requests by class and effort, for 24 hours and 7 days", "acts and hidden tokens by task, and what was given up", "the feed of decisions, with side requests", "the newest sessions"];

/** @type {Record<string, string>} */
const MODES = {
  raw: "raw: requests reach the model as they are, nothing is decided about them",
  on: "on: each request's profile says what is decided about it",
};

/** @param {HTMLElement} root */
function mount(root) {
  const part = panel("the server's state", "low", (signal) => getJson("health", {}, signal), today);
  clear(
    root,
    box("Since the server started", part.node),
    box(
      "Not here yet",
      h("p", null, "This screen will say what was decided about requests, once the router decides something:"),
      h("ul", { class: "later" }, LATER.map((each) => h("li", null, each))),
      h("p", null, "Until then ", h("a", { href: "#/live" }, "Live"), " shows what runs now, ", h("a", { href: "#/usage" }, "Usage"), " the past in numbers, and ", h("a", { href: "#/dev" }, "Dev"), " single requests."),
    ),
  );
  void part.load();
  return part.stop;
}

/** With a password set, callers that are not signed in get less. @param {any} health */
function today({ inflight, conductor, uptime_s }) {
  /** @type {[string, string][]} */
  const pairs = [["Mode", modeWords(conductor?.mode)]];
  if (inflight) {
    const refused = Object.values(inflight.refused).reduce((/** @type {number} */ sum, value) => sum + Number(value), 0);
    pairs.push(["Up for", seconds(uptime_s * 1000)], ["Running", count(inflight.running)], ["Waiting", count(inflight.waiting)], ["Served", count(inflight.served)], ["Refused", count(refused)], ["Errors", count(inflight.errors)], ["Timeouts", count(inflight.timeouts)], ["Clients left", count(inflight.abandoned)]);
  }
  return facts(pairs);
}

/** @param {string | undefined} mode */
export const modeWords = (mode = "not told without a sign-in") => MODES[mode] ?? mode;

export const view = { id: "overview", title: "Overview", mount };
