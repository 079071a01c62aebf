// Usage: what the ledger says of the past (OBS-087). The server sums and takes percentiles; the page asks and draws.

import { getJson, route } from "../api.js";
import { bars, heatmap, lineChart } from "../charts.js";
import { clear, h } from "../dom.js";
import { compact, count, date, duration, percent, rate } from "../format.js";
import { FINISHES, box, button, choice, dot, ending, noLedger, note, panel, shares, table, toggles } from "../panel.js";

/** @typedef {import("../panel.js").Choices} Choices */

const HOURS_UP_TO_DAYS = 31;
const ROWS = 400;
const NEWEST = 200;
/** @type {Choices} */
const RANGES = [["1", "Today"], ["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["365", "A year"]];
/** What a request's tokens are; a part's place is its colour. */
const PARTS = ["Input", "Cached input", "Answer", "Reasoning"];
const TONES = ["s1", "s2", "s3", "s4"];

const SLOW = { shown: /** @type {Wire.Share[]} */ (["p10", "p50", "p90"]), says: "p10: one in ten was slower" };
const LATE = { shown: /** @type {Wire.Share[]} */ (["p50", "p90", "p99"]), says: "p90: one in ten waited longer" };
/** @type {(typeof SLOW & { key: Wire.Metric, name: string, unit?: string, write: (value: number | null) => string })[]} */
const METRICS = [
  { key: "decode_tps", name: "Decoding", unit: "tok/s", write: rate, ...SLOW },
  { key: "ttft_ms", name: "First token", write: duration, ...LATE },
  { key: "prefill_tps", name: "Prompt reading", unit: "tok/s", write: rate, ...SLOW },
];

/** Upper bounds of the latency histogram's bars, in milliseconds. */
const BOUNDS = [20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000, Infinity];
/** @type {Choices} */
const TIMES = [["ttft_ms", "First token"], ["queue_ms", "Waiting"], ["total_ms", "Whole request"]];

/** @param {Intl.DateTimeFormatOptions} options */
const dates = (options) => new Intl.DateTimeFormat("en-GB", { day: "numeric", ...options });
const dayWords = dates({ weekday: "short", month: "long", timeZone: "UTC" });
const dateWords = dates({ month: "long", timeZone: "UTC" });
const hourWords = dates({ month: "short", hour: "2-digit", minute: "2-digit" });
/** @param {string} day @param {Intl.DateTimeFormat} words */
const named = (day, words) => words.format(new Date(day.slice(0, 10) + "T12:00:00Z"));
/** @param {number} value @param {string} word */
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

/** The browser's zone: days are its days. */
const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/** The local day as 2026-01-31, `back` days ago. @param {number} back */
function localDay(back) {
  const at = new Date();
  at.setDate(at.getDate() - back);
  return [at.getFullYear(), at.getMonth() + 1, at.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** @param {Wire.Sums} sums */
const split = (sums) => [
  sums.prompt_tokens - sums.cached_tokens,
  sums.cached_tokens,
  sums.completion_tokens - sums.reasoning_tokens,
  sums.reasoning_tokens,
];
/** @param {Wire.Sums} sums */
const tokens = (sums) => sums.prompt_tokens + sums.completion_tokens;

/** @param {HTMLElement} root */
function mount(root) {
  const past = history();
  const year = panel("the year", "mid", (signal) => getJson("v1/dashboard/usage", { bucket: "day", from: localDay(364), tz: zone() }, signal), heat);
  const all = panel("usage", "high", (signal) => getJson("v1/dashboard/summary", { tz: zone() }, signal), show);
  /** @param {Wire.Summary} summary */
  function show(summary) {
    if (!summary.ledger.enabled) return noLedger();
    void year.load();
    past.load();
    const { today, days_7, days_30, days_365 } = summary.totals;
    const tiles = [tile("Today", today), tile("7 days", days_7), tile("30 days", days_30), tile("365 days", days_365)];
    return [h("div", { class: "sums" }, tiles), box("The last year", year.node, streaks(summary)), past.node];
  }
  clear(root, all.node);
  void all.load();
  return () => [all, year, past].forEach((part) => part.stop());
}

/** @param {string} name @param {Wire.Sums} sums */
function tile(name, sums) {
  const parts = split(sums);
  const cached = sums.prompt_tokens ? `${percent(sums.cached_tokens / sums.prompt_tokens)} of the input came from a cache` : "No input yet";
  return box(
    name,
    h("p", null, h("strong", { title: count(tokens(sums)) }, compact(tokens(sums))), " tokens"),
    h("p", null, plural(sums.requests, "request")),
    shares(parts, TONES, { "aria-hidden": "true" }),
    h("dl", null, PARTS.map((part, i) => [h("dt", null, dot(TONES[i] ?? ""), part), h("dd", null, count(parts[i]))])),
    h("p", { class: "muted small" }, cached),
  );
}

/** @param {Wire.Usage} usage */
function heat(usage) {
  const chart = heatmap({ title: "Tokens a day", what: "Tokens", xName: "Day", y: count });
  const days = usage.buckets.map((day) => {
    const words = `${named(day.start, dateWords)}: ${plural(day.requests, "request")}, ${plural(tokens(day), "token")}`;
    return { day: day.start.slice(0, 10), value: tokens(day), words };
  });
  requestAnimationFrame(() => chart.update(days)); // in the document it can scroll to the newest
  return [!usage.totals.requests && note("No request in this year. The squares fill as the server answers."), chart.node];
}

/** @param {Wire.Summary} summary */
function streaks({ streaks: { current, longest, active_days }, top_days, first_day, totals }) {
  const said = [
    ["In a row, up to now", plural(current, "day")],
    ["Longest row", plural(longest, "day")],
    ["With a request", plural(active_days, "day")],
    ["In all", `${compact(tokens(totals.all))} tokens${first_day ? ` since ${first_day}` : ""}`],
  ];
  const rows = top_days.map((day) => [`${named(day.date, dayWords)} ${day.date.slice(0, 4)}`, count(day.requests), count(day.total_tokens)]);
  return [
    h("p", { class: "streaks" }, said.map(([name, value]) => h("span", null, `${name}: `, h("strong", null, value)))),
    rows.length > 0 && h("details", null, h("summary", null, "Top days"), table("Top days", ["Day", "#Requests", "#Tokens"], rows)),
  ];
}

/** What the filters choose: sums, speed, latency, the rows to export. */
function history() {
  const chosen = { days: "30", bucket: "day", model: "", client: "" };
  const filters = h("div", { class: "toolbar" });
  const links = h("p", { class: "muted apart" });
  /** @type {Wire.Usage["dimensions"] | null} */
  let known = null;
  const usage = panel(
    "the buckets",
    "high",
    (signal) => {
      const { days, ...rest } = chosen;
      return getJson("v1/dashboard/usage", { ...rest, from: localDay(Number(days) - 1), tz: zone() }, signal);
    },
    (/** @type {Wire.Usage} */ answer) => {
      known = answer.dimensions;
      fill();
      return buckets(answer, chosen.bucket);
    },
  );
  const who = () => ({ model: chosen.model, client: chosen.client });
  const latency = panel(
    "the newest requests",
    "mid",
    (signal) => getJson("v1/dashboard/requests", { limit: NEWEST, ...who() }, signal),
    (answer) => latencies(answer.requests),
  );
  const fill = () => {
    const controls = () => [...filters.querySelectorAll("select, button")];
    const at = controls().indexOf(/** @type {Element} */ (document.activeElement));
    const days = Number(chosen.days);
    /** @type {Choices} */
    const sizes = [["day", "By day"], ["hour", "By hour"]];
    clear(
      filters,
      toggles("Range", RANGES, chosen.days, (next) => set({ days: next, bucket: next === "1" ? "hour" : "day" })),
      toggles("Bucket", days > HOURS_UP_TO_DAYS ? sizes.slice(0, 1) : sizes, chosen.bucket, (bucket) => set({ bucket })),
      choice("Model", options("All models", known?.models, chosen.model), chosen.model, (model) => set({ model })),
      choice("Client", options("All clients", known?.clients, chosen.client), chosen.client, (client) => set({ client })),
      button("Refresh", () => load()),
    );
    const again = controls()[at];
    if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  };
  /** @param {Partial<typeof chosen>} change */
  const set = (change) => {
    Object.assign(chosen, change);
    fill();
    load();
  };
  const load = () => {
    void usage.load();
    void latency.load();
    const link = (/** @type {string} */ format) =>
      h("a", { href: route("v1/dashboard/requests", { format, ...who() }).href, download: `tandem-requests.${format}` }, format.toUpperCase());
    clear(links, "All rows of this model and client, one a request: ", link("csv"), ", ", link("json"));
  };
  fill();
  return {
    node: [box("History", filters, usage.node, links), box("Latency", latency.node)],
    load,
    stop: () => [usage, latency].forEach((part) => part.stop()),
  };
}

/** @param {string} all @param {Wire.Dimension[] | undefined} known @param {string} chosen @returns {Choices} */
function options(all, known, chosen) {
  const names = new Set((known ?? []).flatMap(({ name }) => name ?? []));
  if (chosen) names.add(chosen);
  return [["", all], ...[...names].map((name) => /** @type {[string, string]} */ ([name, name]))];
}

/** @param {Wire.Usage} usage @param {string} bucket */
function buckets(usage, bucket) {
  const { totals } = usage;
  const isDay = bucket === "day";
  const xName = isDay ? "Day" : "Hour";
  const label = (/** @type {string} */ start) => (isDay ? named(start, dayWords) : hourWords.format(date(start) ?? undefined));
  const chart = bars({ title: `Tokens by ${bucket}`, series: PARTS.map((name) => ({ name })), xName, y: count, height: 140 });
  chart.update(usage.buckets.map((each) => ({ label: label(each.start), values: split(each) })));
  const used = usage.buckets.filter((each) => each.requests > 0).reverse();
  const left = usage.buckets.length - used.length;
  const rows = used.slice(0, ROWS).map((each) => [
    label(each.start),
    ...[each.requests, each.prompt_tokens, each.cached_tokens, each.completion_tokens, each.reasoning_tokens].map(count),
    duration(each.speed.ttft_ms.p50),
    rate(each.speed.decode_tps.p50),
  ]);
  const head = [xName, "#Requests", "#Input", "#Cached", "#Output", "#Reasoning", "#First token p50", "#Decoding p50"];
  const ends = FINISHES.filter((name) => totals.finishes[name]).map((name) => ending(name, ` ${count(totals.finishes[name])}`));
  return [
    h("p", { class: "sum" }, h("strong", null, plural(totals.requests, "request")), ends),
    chart.node,
    rows.length > 0 && table(`Usage by ${bucket}`, head, rows),
    left > 0 && note(`${plural(left, bucket)} without a request ${left === 1 ? "is" : "are"} left out of the table.`),
    h("h3", { class: "apart" }, "Speed"),
    speeds(usage, label),
  ];
}

/** @param {Wire.Usage} usage @param {(start: string) => string} label */
function speeds(usage, label) {
  const at = (/** @type {Wire.Bucket} */ each) => date(each.start)?.getTime() ?? 0;
  const words = new Map(usage.buckets.map((each) => [at(each), label(each.start)]));
  const times = [...words.keys()];
  const charts = METRICS.map(({ key, name, unit, write, shown, says }) => {
    const series = shown.map((share) => ({ name: share }));
    const chart = lineChart({ title: unit ? `${name}, ${unit}` : name, series, unit, y: write, x: (x) => words.get(x) ?? "", xName: "From" });
    const timed = usage.buckets.filter((each) => each.speed[key].count > 0);
    const points = timed.map((each) => ({ x: at(each), y: shown.map((share) => each.speed[key][share]) }));
    chart.update(points, [times[0] ?? 0, times[times.length - 1] ?? 1]);
    return h("div", null, chart.node, h("p", { class: "muted small" }, says));
  });
  const rows = METRICS.map(({ key, name, unit, write }) => {
    const { count: timed, p10, p50, p90, p99 } = usage.totals.speed[key];
    return [unit ? `${name}, ${unit}` : name, count(timed), ...[p10, p50, p90, p99].map(write)];
  });
  return [
    h("div", { class: "speeds" }, charts),
    table("Percentiles of the range", ["Over the range", "#Requests", "#p10", "#p50", "#p90", "#p99"], rows),
    note("Refused and failed requests, answers from the response cache and those that a conductor acted in are not timed."),
  ];
}

/** @param {Record<string, any>[]} requests */
function latencies(requests) {
  if (!requests.length) return note("No request has ended yet.");
  const chart = bars({ title: "Requests by time taken", series: [{ name: "Requests" }], xName: "Time", y: count });
  const draw = (/** @type {string} */ key) => {
    const times = requests.map((row) => row[key]).filter((time) => typeof time === "number");
    const bin = (/** @type {number} */ bound, /** @type {number} */ i) => {
      const below = BOUNDS[i - 1] ?? 0;
      const label = bound === Infinity ? `over ${duration(below)}` : `${duration(below)} to ${duration(bound)}`;
      return { label, values: [times.filter((time) => time >= below && time < bound).length] };
    };
    chart.update(BOUNDS.map(bin));
  };
  draw("ttft_ms");
  return [toggles("Which time", TIMES, "ttft_ms", draw), chart.node, note(`Of the newest ${plural(requests.length, "request")}.`)];
}

export const view = { id: "usage", title: "Usage", mount };
