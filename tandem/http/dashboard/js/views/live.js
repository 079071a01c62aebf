// What runs now, who waits and why, and what came of the last requests. Every sentence is the server's (OBS-068).
// A request keeps its place on the screen while it is there, and every figure its width: updates move nothing (OBS-080).

import { lineChart } from "../charts.js";
import { h, svg, text } from "../dom.js";
import { clock, compact, count, decimal, duration, rate, seconds } from "../format.js";
import { icon, setIcon } from "../icons.js";

const WINDOW_S = 300;
/** A free place between two requests is kept this long, then the ones below move up. */
const PACK_MS = 4000;
const ENDS = 20;

/** @type {import("../app.js").View} */
export const view = {
  id: "live",
  title: "Live",
  mount(root, app) {
    const engine = enginePanel();
    const charts = chartPanel();
    const requests = requestList();
    const ends = endList();
    root.append(
      engine.node,
      h("div", { class: "live-split" }, requests.node, h("div", { class: "view" }, charts.node, ends.node)),
    );
    const leave = [
      app.live.subscribe((document) => {
        engine.update(document);
        charts.update(app.live.samples);
        requests.update(document.requests, Boolean(document.parallel));
        ends.update(document.recent);
      }),
      app.live.onLink((link) => engine.link(link)),
    ];
    return () => leave.forEach((each) => each());
  },
};

function enginePanel() {
  const glyph = icon("none");
  const sentence = h("strong", null, "Waiting for the first update");
  const state = h("span");
  const line = h("p", { class: "engine-line" }, h("span", { class: "engine-state" }, glyph, state), sentence);
  const fill = h("i");
  const words = h("span", { class: "clip" });
  const meter = h("div", { class: "meter", role: "progressbar", "aria-label": "Prompt read", "aria-valuemin": 0, "aria-valuemax": 100 }, fill);
  const more = h("div", { class: "engine-more", dataset: { quiet: "" } }, words, meter);
  const tiles = {
    decode: tile("Decode", "tok/s"),
    prefill: tile("Prefill", "tok/s"),
    block: tile("Tokens a round", ""),
    running: tile("Running", ""),
    waiting: tile("Waiting", ""),
    minute: tile("Ended in 1 min", ""),
    served: tile("Served", ""),
    failed: tile("Errors / refused", ""),
    kv: tile("Context in use", ""),
  };
  let isStreaming = false;
  return {
    node: h(
      "section",
      { class: "panel live-data", "aria-label": "Engine" },
      line,
      more,
      h("dl", { class: "tiles" }, Object.values(tiles).map((each) => each.node)),
    ),
    /** @param {import("../live.js").Link} link */
    link(link) {
      isStreaming = link.kind === "streaming";
      if (isStreaming || link.kind === "connecting") return;
      more.dataset["quiet"] = "";
      text(words, `These numbers are old. ${link.text}. ${link.detail}`);
    },
    /** @param {Wire.Live} document */
    update({ engine, counts, now, requests, parallel }) {
      setIcon(glyph, engine.state);
      text(state, engine.state.replaceAll("_", " "));
      line.className = `engine-line tone-${engine.state}${parallel ? " many" : ""}`;
      text(sentence, engine.label);
      sentence.title = engine.label;
      const reading = requests.find((row) => row.activity?.prefill && row.phase === "prefilling")?.activity?.prefill;
      const share = reading?.total ? (reading.done ?? 0) / reading.total : null;
      if (share !== null && reading) {
        delete more.dataset["quiet"];
        fill.style.width = `${Math.min(100, share * 100)}%`;
        meter.setAttribute("aria-valuenow", String(Math.round(share * 100)));
        const left = reading.eta_s === null ? "" : `, about ${seconds(reading.eta_s * 1000)} left`;
        const image = reading.image ? `, image ${reading.image.number} of ${reading.image.of}` : "";
        text(words, `${count(reading.done)} of ${count(reading.total)} prompt tokens${image}${left}`);
      } else {
        more.dataset["quiet"] = "";
        text(words, engine.since_ms === null ? "" : `for ${seconds(engine.since_ms)} · ${engine.base_model} · version ${engine.version}`);
      }
      tiles.decode.set(rate(now.decode_tps));
      tiles.prefill.set(rate(now.prefill_tps));
      tiles.block.set(decimal(now.tokens_per_block, 2));
      tiles.running.set(count(counts.in_flight - counts.queued));
      tiles.waiting.set(count(counts.queued), counts.lane ? `${count(counts.lane)} in the lane` : "");
      tiles.minute.set(count(counts.completed_1m));
      tiles.served.set(count(counts.served));
      tiles.failed.set(`${count(counts.errors)} / ${count(counts.refused)}`);
      tiles.kv.set(compact(engine.kv?.length), `of ${compact(engine.kv?.limit)}`);
    },
  };
}

/** @param {string} name @param {string} unit */
function tile(name, unit) {
  const value = h("span", null, "–");
  const small = h("small", null, unit);
  return {
    node: h("div", { class: "tile" }, h("dt", { class: "clip" }, name), h("dd", { class: "clip" }, value, " ", small)),
    /** @param {string} next @param {string} [more] */
    set(next, more) {
      text(value, next);
      if (more !== undefined) text(small, more);
    },
  };
}

function chartPanel() {
  const behind = (/** @type {number} */ x) => (x ? `${seconds(-x * 1000)} ago` : "now");
  const common = { x: behind, xName: "When", unit: "tok/s", y: rate, height: 84, empty: "No sample yet." };
  const decode = lineChart({ ...common, title: "Decode, last 5 minutes", series: [{ name: "Decode", tone: 1 }], least: 10 });
  const prefill = lineChart({ ...common, title: "Prefill, last 5 minutes", series: [{ name: "Prefill", tone: 2 }], least: 100 });
  let drawn = 0;
  return {
    node: h("section", { class: "panel live-charts live-data", "aria-label": "Speed" }, decode.node, prefill.node),
    /** @param {Wire.Sample[]} samples */
    update(samples) {
      const end = samples[samples.length - 1]?.t ?? 0;
      if (end === drawn && end) return; // one sample a second, up to four documents
      drawn = end;
      /** @type {(pick: (sample: Wire.Sample) => number | null) => import("../charts.js").Point[]} */
      const points = (pick) => withGaps(samples).map((one) => ("gap" in one ? { x: one.gap - end, y: [null] } : { x: one.t - end, y: [pick(one)] }));
      decode.update(points((sample) => sample.decode_tps), [-WINDOW_S, 0]);
      prefill.update(points((sample) => sample.prefill_tps), [-WINDOW_S, 0]);
    },
  };
}

/** The server samples while somebody watches or something runs; a line across the time between would be invented. @param {Wire.Sample[]} samples */
function withGaps(samples) {
  return samples.flatMap((sample, i) => {
    const last = samples[i - 1];
    return last && sample.t - last.t > 3 ? [{ gap: last.t + 0.5 }, sample] : [sample];
  });
}

function requestList() {
  const list = h("ol", { class: "requests" });
  const empty = h("li", { class: "empty" }, "Nothing runs and nothing waits.");
  const number = h("span", { class: "muted small" });
  list.append(empty);
  /** @type {(string | null)[]} */
  let places = [];
  /** @type {ReturnType<typeof card>[]} */
  const cards = [];
  let holeSince = 0;
  return {
    node: h("section", { class: "panel live-data", "aria-label": "Requests" }, h("header", null, h("h2", null, "Requests"), number), list),
    /** @param {Wire.Row[]} rows @param {boolean} hasSides there are side slots */
    update(rows, hasSides) {
      const by = new Map(rows.map((row) => [row.request_id, row]));
      const isHeld = list.matches(":hover") || list.contains(document.activeElement);
      const now = performance.now();
      const over = new Set(rows.filter((row) => row.phase === "done").map((row) => row.request_id));
      places = seat(places, [...by.keys()], over, !isHeld && holeSince > 0 && now - holeSince > PACK_MS);
      holeSince = places.includes(null) ? holeSince || now : 0;
      while (cards.length < places.length) {
        const next = card();
        cards.push(next);
        list.append(next.node);
      }
      cards.forEach((each, i) => each.update(by.get(places[i] ?? ""), hasSides));
      if (rows.some((row) => row.line)) list.classList.add("has-lines");
      if (rows.some((row) => row.activity?.conductor)) list.classList.add("has-acts");
      empty.hidden = rows.length > 0;
      const running = rows.filter((row) => row.phase !== "done" && row.phase !== "queued").length;
      const waiting = rows.filter((row) => row.phase === "queued").length;
      text(number, `${running} running, ${waiting} waiting`);
    },
  };
}

/**
 * Who sits where. A request in flight stays where it is; a new one takes the first free place, or that of one that is
 * over, which then goes to the end: what runs is found above what has ended.
 * @param {(string | null)[]} places
 * @param {string[]} ids in the server's order
 * @param {Set<string>} over those of them that have ended
 * @param {boolean} pack close the gaps
 */
export function seat(places, ids, over, pack) {
  const order = [...ids.filter((id) => !over.has(id)), ...ids.filter((id) => over.has(id))];
  if (pack) return order;
  const here = new Set(ids);
  /** @type {(string | null)[]} */
  const next = places.map((id) => (id !== null && here.has(id) ? id : null));
  const seated = new Set(next);
  for (const id of order.filter((each) => !seated.has(each))) {
    const isOver = over.has(id);
    const place = [next.indexOf(null), isOver ? -1 : next.findIndex((each) => over.has(each ?? ""))].find((at) => at >= 0);
    if (place === undefined) next.push(id);
    else next.push(...next.splice(place, 1, id).filter((each) => each !== null));
  }
  while (next.length && next[next.length - 1] === null) next.pop();
  return next;
}

function card() {
  const glyph = icon("none");
  const [word, client, endpoint, model, place] = ["", "", "", "", ""].map(() => h("span", { class: "clip" }));
  const label = h("p", { class: "request-label" });
  const elapsed = h("span", { class: "num" });
  const link = h("a", { href: "#/dev" }, "details");
  const [strip, words, line, act] = [svg("svg", { class: "strip", viewBox: "0 0 1000 6", preserveAspectRatio: "none", "aria-hidden": "true" }), h("p", { class: "strip-words clip" }), h("p", { class: "request-line clip" }), h("p", { class: "request-act clip" })];
  const names = ["Prompt / cached", "Written / reasoned", "Waited", "Prompt read in", "First token", "Rate"];
  const figures = names.map((name) => ({ name, value: h("dd", null, "–") }));
  const node = h(
    "li",
    { class: "request" },
    h("div", { class: "request-top" }, h("span", { class: "state" }, glyph, word), label, elapsed),
    h("p", { class: "request-who" }, client, endpoint, model, place, link),
    h("dl", { class: "request-figures" }, figures.map((one) => h("div", null, h("dt", null, one.name), one.value))),
    strip,
    words,
    line,
    act,
  );
  /** @param {number} i @param {string} value */
  const set = (i, value) => figures[i] && text(figures[i].value, value);
  return {
    node,
    /** @param {Wire.Row | undefined} row @param {boolean} [hasSides] */
    update(row, hasSides) {
      // a free place stays where it is, unseen, so that nothing below moves up
      if (!row) return void (node.dataset["free"] = "");
      delete node.dataset["free"];
      const state = row.activity?.state ?? row.phase;
      const isOver = row.phase === "done";
      node.dataset["state"] = state;
      node.dataset["tone"] = (isOver && row.tone) || "";
      setIcon(glyph, (isOver && row.tone) || state);
      if (word) text(word, (isOver && row.finish_reason ? row.finish_reason : state).replaceAll("_", " "));
      const said = row.activity?.label ?? row.sentence ?? "";
      text(label, said);
      label.title = said;
      text(elapsed, duration(row.elapsed_ms));
      if (client) text(client, row.client_kind === row.client_id ? row.client_kind : `${row.client_kind} (${row.client_id})`);
      if (endpoint) text(endpoint, row.endpoint);
      if (model) text(model, row.model ?? "");
      if (place) text(place, row.lane ? "guest" : hasSides && row.slot !== null ? `slot ${row.slot}` : "");
      const href = `#/dev/request/${encodeURIComponent(row.request_id)}`;
      if (link.getAttribute("href") !== href) {
        link.setAttribute("href", href);
        link.setAttribute("aria-label", `details of ${row.request_id}`);
      }
      set(0, `${count(row.prompt_tokens)} / ${count(row.cached_tokens)}`);
      set(1, `${count(row.completion_tokens)} / ${count(row.reasoning_tokens)}`);
      set(2, duration(row.queue_ms));
      set(3, duration(row.prompt_ms));
      set(4, duration(row.ttft_ms));
      set(5, row.decode_tps === null ? "–" : `${rate(row.decode_tps)} tok/s`);
      drawStrip(strip, row);
      text(words, parts(row).map((part) => `${part.state.replaceAll("_", " ")} ${duration(part.ms)}`).join(" › "));
      words.title = words.textContent ?? "";
      text(line, row.line ?? "");
      const conductor = row.activity?.conductor;
      text(act, conductor ? `${conductor.supervising ? "▶" : conductor.acts ? "◆" : "◇"} ${conductor.label}` : "");
      act.title = conductor?.label ?? "";
      act.dataset["acts"] = conductor?.supervising ? "now" : conductor?.acts ? "some" : "";
    },
  };
}

/** The stretches of a request's life so far. @param {Wire.Row} row */
function parts(row) {
  return row.timeline
    .map((step, i) => ({ state: step.state, from: step.at_ms, ms: (row.timeline[i + 1]?.at_ms ?? row.elapsed_ms) - step.at_ms }))
    .filter((part) => part.state !== "done" && part.ms > 0);
}

/** @param {SVGElement} strip @param {Wire.Row} row */
function drawStrip(strip, row) {
  const all = parts(row);
  const start = all[0]?.from ?? 0;
  const total = Math.max(1, all.reduce((sum, part) => sum + part.ms, 0));
  while (strip.childElementCount > all.length) strip.lastElementChild?.remove();
  all.forEach((part, i) => {
    const rect = strip.children[i] ?? strip.appendChild(svg("rect", { y: 0, height: 6 }));
    const x = ((part.from - start) / total) * 1000;
    rect.setAttribute("x", x.toFixed(1));
    rect.setAttribute("width", Math.max(3, (part.ms / total) * 1000).toFixed(1));
    rect.setAttribute("class", `step ${part.state}`);
  });
}

function endList() {
  const list = h("div", { class: "ends" });
  const empty = h("p", { class: "empty" }, "No request ended in the last 15 minutes.");
  const held = h("span", { class: "muted small" });
  list.append(empty);
  /** @type {ReturnType<typeof end>[]} */
  const slots = [];
  /** @type {Wire.End[] | null} */
  let waiting = null;
  let isHeld = false;
  /** @param {Wire.End[]} recent */
  const draw = (recent) => {
    waiting = null;
    const rows = recent.slice(0, ENDS);
    while (slots.length < rows.length) {
      const next = end();
      slots.push(next);
      list.append(next.node);
    }
    slots.forEach((slot, i) => slot.update(rows[i]));
    empty.hidden = rows.length > 0;
  };
  // who points at an entry, or has it focused, must not find another one under the pointer when it is clicked
  const hold = () => {
    isHeld = list.matches(":hover") || list.contains(document.activeElement);
    text(held, isHeld ? "held still" : "newest first");
    if (!isHeld && waiting) draw(waiting);
  };
  for (const event of ["pointerenter", "pointerleave", "focusin"]) list.addEventListener(event, hold);
  list.addEventListener("focusout", () => setTimeout(hold));
  hold();
  return {
    node: h("section", { class: "panel live-data", "aria-label": "Last requests" }, h("header", null, h("h2", null, "Last 20"), held), list),
    /** @param {Wire.End[]} recent */
    update(recent) {
      waiting = recent;
      if (!isHeld) draw(recent);
    },
  };
}

function end() {
  const glyph = icon("none");
  const sentence = h("span", { class: "end-sentence clip" });
  const more = h("span", { class: "end-more clip" });
  const node = h("a", { class: "end", href: "#/dev" }, glyph, sentence, more);
  return {
    node,
    /** @param {Wire.End | undefined} row */
    update(row) {
      node.hidden = !row;
      if (!row) return;
      setIcon(glyph, row.tone);
      node.dataset["tone"] = row.tone;
      text(sentence, row.sentence);
      node.title = row.sentence;
      const tokens = row.prompt_tokens === null ? "" : `${count(row.prompt_tokens)} → ${count(row.completion_tokens)} tokens`;
      text(more, [clock(row.ended_at), row.client_kind, row.model, tokens, duration(row.total_ms)].filter(Boolean).join(" · "));
      const href = `#/dev/request/${encodeURIComponent(row.request_id)}`;
      if (node.getAttribute("href") !== href) node.setAttribute("href", href);
    },
  };
}
