// What runs here: model, machine, caches, queue, ledger and every setting. Read-only (OBS-083).

import { getJson } from "../api.js";
import { lineChart } from "../charts.js";
import { clear, h, text } from "../dom.js";
import { bytes, clock, count, decimal, duration, percent, rate, seconds } from "../format.js";
import { icon } from "../icons.js";

const EVERY_MS = 5000;
const WINDOW_S = 1800;

/** @typedef {[name: string, value: string | Node | null | undefined]} Fact */

/** @type {import("../app.js").View} */
export const view = {
  id: "system",
  title: "System",
  mount(root, app) {
    const fault = h("p", { class: "notice bad", role: "alert", hidden: true });
    const failed = h("p", { class: "notice warn", hidden: true });
    const groups = panels();
    const charts = chartPanel(app.history);
    const settings = settingsPanel();
    root.append(fault, failed, groups.node, charts.node, settings.node);
    const stop = new AbortController();
    let timer = 0;
    const load = async () => {
      try {
        /** @type {Wire.System} */
        const system = await getJson("v1/dashboard/system", {}, stop.signal);
        fault.hidden = true;
        groups.node.classList.remove("old");
        failed.hidden = !system.failed.length;
        text(failed, `Not running: ${system.failed.join(", ")}. /health says failed.`);
        groups.update(system);
        settings.update(system);
      } catch (error) {
        if (stop.signal.aborted) return;
        fault.hidden = false;
        groups.node.classList.add("old");
        text(fault, `The system's state could not be read: ${error instanceof Error ? error.message : error} It is asked for again every ${EVERY_MS / 1000} s.`);
      }
      timer = window.setTimeout(tick, EVERY_MS);
    };
    const tick = () => {
      if (document.hidden) timer = window.setTimeout(tick, EVERY_MS);
      else void load();
    };
    void load();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
      charts.leave();
    };
  },
};

function panels() {
  const stacks = [["Model", "Memory and disk"], ["Server", "Watch and access"], ["Queue and totals", "Lane and slots", "Caches", "Ledger"]];
  /** @type {Map<string, HTMLElement>} */
  const lists = new Map();
  const stack = (/** @type {string[]} */ names) =>
    names.map((name) => {
      const list = h("dl", { class: "facts" }, h("dt", null, "Loading"), h("dd", null, "…"));
      lists.set(name, list);
      return h("section", { class: "panel", "aria-label": name }, h("h2", { class: "panel-head" }, name), list);
    });
  const sections = stacks.map((names) => h("div", { class: "view" }, stack(names)));
  return {
    node: h("div", { class: "columns system" }, sections),
    /** @param {Wire.System} system */
    update(system) {
      /** @type {Record<string, Fact[]>} */
      const all = {
        Model: model(system),
        Server: server(system),
        "Memory and disk": memory(system),
        Caches: caches(system),
        "Queue and totals": [...queue(system), ...totals(system)],
        "Lane and slots": [...lane(system), ...slots(system)],
        Ledger: ledger(system),
        "Watch and access": watch(system),
      };
      for (const [name, list] of lists) fill(list, all[name] ?? []);
    },
  };
}

/** Writes facts into the elements that are there; what was selected or read stays. @param {HTMLElement} list @param {Fact[]} facts */
function fill(list, facts) {
  if (list.childElementCount !== facts.length * 2) clear(list, facts.map(() => [h("dt"), h("dd")]));
  facts.forEach(([name, value], i) => {
    const [dt, dd] = [list.children[i * 2], list.children[i * 2 + 1]];
    if (dt) text(dt, name);
    if (!dd) return;
    if (value instanceof Node) dd.replaceChildren(value);
    else text(dd, value ?? "–");
  });
}

/** @param {Wire.System} system @returns {Fact[]} */
function model({ model, base_model, card, weights, images }) {
  const { loaded_bytes, seconds: took, self_check, drafter, ...more } = weights;
  const parts = typeof loaded_bytes === "object" && loaded_bytes ? Object.entries(loaded_bytes) : [];
  const size = typeof loaded_bytes === "number" ? loaded_bytes : parts.reduce((sum, [, each]) => sum + Number(each), 0);
  return [
    ["Serves", `${model} (${base_model})`],
    ["Architecture", [card.architecture, card.vocabulary ? `${count(card.vocabulary)} words` : ""].filter(Boolean).join(", ")],
    ["Context", `${count(card.context_length)} tokens`],
    ["Weights", [size ? bytes(size) : "", ...parts.map(([name, each]) => `${name} ${bytes(Number(each))}`)].filter(Boolean).join(", ")],
    ...Object.entries(more).map(([name, value]) => /** @type {Fact} */ ([name.replaceAll("_", " "), plain(value, name)])),
    ["Drafter", plain(drafter)],
    ["Loaded in", typeof took === "number" ? duration(took * 1000) : null],
    ["Self-check", sign(self_check === "ok" ? "ok" : self_check ? "warn" : "none", plain(self_check))],
    ["Images", { sees: "read by the model", off: "off (--vision)", blind: "the model takes none" }[images.state] ?? images.state],
  ];
}

/** @param {unknown} value @param {string} [name] */
function plain(value, name = "") {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return name.endsWith("bytes") ? bytes(value) : String(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A glyph and a word. @param {"ok" | "warn" | "bad" | "none"} tone @param {string} words */
const sign = (tone, words) => h("span", { class: `badge ${{ ok: "good", warn: "warn", bad: "bad", none: "" }[tone]}` }, icon(tone), words);

/** @param {Wire.System} system @returns {Fact[]} */
function server({ status, version, identity, started_at, uptime_s, live, unknown_variables }) {
  return [
    ["Status", sign(status === "ok" ? "ok" : status === "draining" ? "warn" : "bad", status)],
    ["Version", version],
    ["Commit", identity["git_sha"]],
    ["Code", identity["code_sha256"]],
    ["Flags", identity["flags_sha256"]],
    ["Started", `${clock(started_at)}, ${seconds(uptime_s * 1000)} ago`],
    ["Watching", `${count(live.readers)} live, ${count(live.log_readers)} log`],
    ["Unknown variables", unknown_variables.length ? sign("warn", unknown_variables.join(", ")) : "none"],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function memory({ memory: { gate, ...m }, disk }) {
  /** @param {number | undefined} part @param {number | undefined} all */
  const share = (part, all) => (part !== undefined && all ? `${bytes(part)} of ${bytes(all)}` : bytes(part));
  return [
    ["Weights and window", bytes(m["allocated_bytes"])],
    ["Process", bytes(m["resident_bytes"])],
    ["Its peak", bytes(m["peak_bytes"])],
    ["Machine, available", share(m["available_bytes"], m["total_bytes"])],
    ...(gate ? [/** @type {Fact} */ (["Engine, reserved", `${share(gate.reserved_bytes, gate.ceiling_bytes)}, never above ${bytes(gate.peak_bytes)}`])] : []),
    ["Disk, free", disk ? share(disk.free_bytes ?? undefined, disk.total_bytes ?? undefined) : "–"],
    ["State in", disk?.path],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function caches({ cache }) {
  if (!cache?.caches.length) return [["Caches", "none is on"]];
  return cache.caches.flatMap((one) => {
    const asked = (one.hits ?? 0) + (one.misses ?? 0);
    /** @type {Fact[]} */
    const facts = [
      [one.name, one.budget_bytes ? `${bytes(one.bytes)} of ${bytes(one.budget_bytes)}` : bytes(one.bytes)],
      ["Entries", one.evictions ? `${count(one.entries)}, ${count(one.evictions)} had to go` : count(one.entries)],
      ["Hit rate", asked ? `${percent((one.hits ?? 0) / asked)}, ${count(one.hits)} of ${count(asked)}` : "not asked yet"],
    ];
    return facts;
  });
}

/** @param {Wire.System} system @returns {Fact[]} */
function queue({ queue: q }) {
  if (!q) return [["Queue", "not known"]];
  return [
    ["Running", count(q.running)],
    ["Waiting", `${count(q.waiting)}, at most ${count(q.max_queue)}`],
    ["Longest wait", duration(q.queue_timeout_s * 1000)],
    ["Longest request", duration(q.request_timeout_s * 1000)],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function lane({ lane: l }) {
  if (!l) return [["Side lane", "off (--side-lane)"]];
  const served = Object.entries(l.served).map(([kind, each]) => `${kind} ${count(each)}`);
  return [
    ["Side lane", l.mode],
    ["Wait in it", count(l.waiting)],
    ["Served in it", served.join(", ") || "0"],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function slots({ parallel: p, queue: q }) {
  /** @type {Fact[]} */
  const phases = (q?.slots ?? []).map((one) => [`Slot ${one.slot}`, one.phase]);
  if (!p) return phases;
  const passes = Object.entries(p.rounds).map(([size, each]) => `${count(each)} of ${size}`);
  const a = p.admission;
  return [
    ...p.slots.map((one) => /** @type {Fact} */ ([`Slot ${one.slot}`, `${one.phase}, ${duration(one.gpu_s * 1000)} of GPU time`])),
    ["GPU turn", `${p.turn.holder === null ? "nobody" : `slot ${p.turn.holder}`}, handed over ${count(p.turn.hand_overs)} times`],
    ["Joint passes", passes.join(", ") || "0"],
    ...(a ? [/** @type {Fact} */ (["Memory reserved", `${bytes(a.reserved_bytes)}, floor ${bytes(a.floor_bytes)}, ${count(a.waits)} had to wait`])] : []),
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function totals({ totals: t }) {
  if (!t) return [];
  const refused = Object.entries(t.refused);
  return [
    ["Served", count(t.served)],
    ["Errors", t.errors ? sign("bad", count(t.errors)) : "0"],
    ["Timeouts", count(t.timeouts)],
    ["Client left", count(t.abandoned)],
    ["Refused", refused.length ? refused.map(([name, each]) => `${name.replaceAll("_", " ")} ${count(each)}`).join(", ") : "0"],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function ledger({ ledger: l }) {
  if (!l) return [["Ledger", "not known"]];
  if (!l.enabled) return [["Ledger", "off: --usage-ledger names a file and switches it on"]];
  return [
    ["Rows", count(l.rows)],
    ["Size", bytes(l.bytes)],
    ["To be written", count(l.queue)],
    ["Dropped", l.dropped ? sign("bad", count(l.dropped)) : "0"],
  ];
}

/** @param {Wire.System} system @returns {Fact[]} */
function watch({ watch: w, access, privacy }) {
  const yes = (/** @type {boolean} */ on) => (on ? "on" : "off");
  return [
    ["Stands still", w?.stuck.length ? sign("bad", w.stuck.join(", ")) : "nothing"],
    ["Switched off", w?.off.length ? sign("warn", w.off.join(", ")) : "nothing"],
    ["Loop lag", w?.loop_lag_ms == null ? "–" : `${decimal(w.loop_lag_ms)} ms`],
    ["Password", access.password_set ? "set" : "none"],
    ["Login", yes(access.login)],
    ["Content in the log", privacy.log_content ? sign("warn", "on (--log-content)") : "off"],
    ["Parameters in the log", privacy.log_request_keys ? sign("warn", "on (--log-request-keys)") : "off"],
  ];
}

/** @param {import("../history.js").History} history */
function chartPanel(history) {
  const behind = (/** @type {number} */ x) => (x ? `${seconds(-x * 1000)} ago` : "now");
  const common = { x: behind, xName: "When", height: 70, empty: "Kept from now on." };
  const decode = lineChart({ ...common, title: "Decode", unit: "tok/s", y: rate, series: [{ name: "Decode", tone: 1 }], least: 10 });
  const prefill = lineChart({ ...common, title: "Prefill", unit: "tok/s", y: rate, series: [{ name: "Prefill", tone: 2 }], least: 100 });
  const queue = lineChart({ ...common, title: "Requests", y: count, series: [{ name: "Running", tone: 1 }, { name: "Waiting", tone: 2 }], least: 4 });
  const memory = lineChart({ ...common, title: "Memory of the process", y: bytes, axis: bytes, series: [{ name: "Memory", tone: 3 }] });
  const draw = () => {
    const all = history.moments;
    const end = all[all.length - 1]?.x ?? 0;
    /** @type {[number, number]} */
    const span = [-WINDOW_S, 0];
    /** @param {(moment: import("../history.js").Moment) => (number | null)[]} pick */
    const points = (pick) => all.map((one) => ({ x: one.x - end, y: pick(one) }));
    decode.update(points((one) => [one.decode]), span);
    prefill.update(points((one) => [one.prefill]), span);
    queue.update(points((one) => [one.running, one.waiting]), span);
    memory.update(points((one) => [one.memory]), span);
  };
  draw();
  return {
    node: h(
      "section",
      { class: "panel", "aria-label": "Last 30 minutes" },
      h("header", null, h("h2", null, "Last 30 minutes"), h("span", { class: "muted small" }, "kept by this page while it is open")),
      h("div", { class: "columns four" }, [decode, prefill, queue, memory].map((chart) => chart.node)),
    ),
    leave: history.subscribe(draw),
  };
}

function settingsPanel() {
  const body = h("tbody");
  const number = h("span", { class: "muted small", role: "status" });
  /** @type {Wire.Setting[]} */
  let rows = [];
  let drawn = "";
  const draw = () => {
    const words = filter.value.trim().toLowerCase();
    const shown = rows.filter(
      (row) => (!changed.checked || row.source !== "default") && `${row.name} ${row.flag} ${row.variable} ${row.group} ${row.value} ${row.help}`.toLowerCase().includes(words),
    );
    let group = "";
    clear(
      body,
      shown.map((row) => {
        const head = row.group !== group && h("tr", { class: "group" }, h("th", { colspan: 3, scope: "rowgroup" }, row.group));
        group = row.group;
        return [head, settingRow(row)];
      }),
    );
    text(number, `${shown.length} of ${rows.length}`);
  };
  const filter = h("input", { type: "search", oninput: draw, placeholder: "name, flag or value", autocomplete: "off" });
  const changed = h("input", { type: "checkbox", onchange: draw });
  return {
    node: h(
      "section",
      { class: "panel", "aria-label": "Settings" },
      h("header", null, h("h2", null, "Settings"), number),
      h("div", { class: "toolbar" }, h("label", { class: "field" }, "Filter", filter), h("label", { class: "row check" }, changed, "only what differs from its default")),
      h(
        "div",
        { class: "table-wrap" },
        h(
          "table",
          { class: "settings" },
          h("thead", null, h("tr", null, ["Setting", "Value", "What it does"].map((name) => h("th", { scope: "col" }, name)))),
          body,
        ),
      ),
    ),
    /** @param {Wire.System} system */
    update({ settings }) {
      const next = JSON.stringify(settings);
      if (next === drawn) return;
      drawn = next;
      rows = settings;
      draw();
    },
  };
}

/** @param {Wire.Setting} row */
function settingRow(row) {
  const isDefault = row.source === "default";
  const from = isDefault ? "" : `default: ${row.default}`;
  return h(
    "tr",
    { class: isDefault ? "" : "changed" },
    h("th", { scope: "row", title: row.variable ?? "" }, row.flag ?? row.name),
    h("td", { class: "setting-value" }, row.value, from && h("small", { class: "muted" }, ` ${from}`)),
    h("td", { class: "muted" }, row.help),
  );
}
