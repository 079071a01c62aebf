// Who is in which slot, who has the GPU turn, which passes were shared, and what memory admits (OBS-085). Every sentence
// is the server's. There are as many cards as slots from the first update on: later ones move nothing (OBS-080).

import { clear, h, text } from "../dom.js";
import { bytes, count, decimal, percent, seconds } from "../format.js";
import { icon, setIcon } from "../icons.js";

/** @type {Record<string, string>} of states that are no word by themselves */
const STATES = { idle: "free", own: "own work", memory: "no memory yet", gone: "out of service" };
const TIMES = ["rounds", "round_ms", "draft_ms", "verify_wait_ms", "pass_ms", "post_ms", "accept"];

/** @type {import("../app.js").View} */
export const view = {
  id: "parallel",
  title: "Parallel",
  mount(root, app) {
    const first = h("p", { class: "notice" }, "Waiting for the first update");
    root.append(first);
    /** @type {ReturnType<typeof screen> | null} */
    let shown = null;
    return app.live.subscribe(({ parallel }) => {
      if (!parallel) {
        text(first, "This server has one slot. Started with --parallel N it serves N requests at a time, and this screen shows how they share the engine.");
        return;
      }
      if (!shown) {
        shown = screen(parallel.slots.length);
        clear(root, shown.node);
      }
      shown.update(parallel);
    });
  },
};

/** @param {number} size how many slots there are */
function screen(size) {
  const cards = Array.from({ length: size }, (_, slot) => card(slot));
  const sizes = Array.from({ length: size - 1 }, (_, i) => `${i + 2}`);
  const turn = facts("GPU turn", ["Held by", "Handed over", ...cards.map((_, slot) => `Slot ${slot}`)]);
  const passes = facts("Joint passes", sizes.map((each) => `${each} slots at once`));
  const lane = facts("Side lane", ["Wait for a step", "Served in writing", "Served in reading", "Served alone"]);
  const memory = facts("Admission by memory", ["Reserved", "Available", "Floor", "Have waited"], true);
  const times = timePanel(size);
  return {
    node: h(
      "div",
      { class: "view" },
      h("section", { class: "live-data", "aria-label": "Slots" }, h("ol", { class: "slots" }, cards.map((each) => each.node))),
      h("div", { class: "columns four live-data" }, [turn, passes, lane, memory].map((each) => each.node)),
      times.node,
    ),
    /** @param {Wire.Parallel} now */
    update(now) {
      const all = now.slots.reduce((sum, each) => sum + each.gpu_s, 0);
      const share = (/** @type {Wire.Slot | undefined} */ slot) => (slot && all ? slot.gpu_s / all : 0);
      cards.forEach((each, i) => each.update(now.slots[i], share(now.slots[i]), now.turn.slots.includes(i)));
      turn.set([
        now.turn.slots.map((slot) => `slot ${slot}`).join(", ") || "nobody",
        count(now.turn.hand_overs),
        ...now.slots.map((slot) => `${time(slot.gpu_s)}, ${percent(share(slot))}`),
      ]);
      passes.set(sizes.map((each) => count(now.rounds[each] ?? 0)));
      const { waiting, served } = now.lane;
      lane.set([count(waiting), ...["decode", "prefill", "self"].map((kind) => count(served[kind] ?? 0))]);
      const a = now.admission;
      memory.set(
        a
          ? [bytes(a.reserved_bytes), bytes(a.available_bytes), bytes(a.floor_bytes), count(a.waits)]
          : ["–", "–", "–", "–"],
        a?.waiting.join("; ") || "Nobody waits for memory.",
      );
      times.update(now.meeting);
    },
  };
}

/** @param {number} gpu seconds */
const time = (gpu) => (gpu < 100 ? `${decimal(gpu)} s` : seconds(gpu * 1000));

/** @param {number} slot */
function card(slot) {
  const glyph = icon("none");
  const word = h("span", { class: "clip" });
  const turn = h("span", { class: "badge good slot-turn" }, icon("busy"), "GPU turn");
  const label = h("p", { class: "request-label" });
  const since = h("span", { class: "num" });
  const guest = h("p", { class: "slot-guest clip" });
  const fill = h("i");
  const gpu = h("span", { class: "num" });
  const link = h("a", { href: "#/dev" }, "details");
  const node = h(
    "li",
    { class: "request slot" },
    h("div", { class: "slot-top" }, h("h2", null, `Slot ${slot}`), h("span", { class: "state" }, glyph, word), since),
    label,
    h("div", { class: "slot-more" }, guest, turn),
    h("div", { class: "slot-foot" }, h("div", { class: "meter", "aria-hidden": "true" }, fill), gpu, link),
  );
  return {
    node,
    /** @param {Wire.Slot | undefined} now @param {number} share @param {boolean} hasTurn */
    update(now, share, hasTurn) {
      if (!now) return;
      node.dataset["state"] = now.state;
      node.dataset["tone"] = now.state === "gone" ? "bad" : now.state === "memory" ? "warn" : "";
      setIcon(glyph, now.state);
      text(word, STATES[now.state] ?? now.state);
      turn.dataset["has"] = hasTurn ? "yes" : "no";
      turn.setAttribute("aria-hidden", String(!hasTurn));
      text(label, now.label);
      label.title = now.label;
      text(since, now.since_ms === null ? "" : `for ${seconds(now.since_ms)}`);
      const guests = now.guests.map((each) => each.label).join("; ");
      text(guest, guests ? `guest: ${guests}` : "");
      guest.title = guests;
      fill.style.width = `${(share * 100).toFixed(1)}%`;
      text(gpu, `${time(now.gpu_s)} of GPU time`);
      link.dataset["free"] = now.request_id === null ? "yes" : "no";
      const href = now.request_id === null ? "#/dev" : `#/dev/request/${encodeURIComponent(now.request_id)}`;
      if (link.getAttribute("href") === href) return;
      link.setAttribute("href", href);
      link.setAttribute("aria-label", now.request_id === null ? "log" : `details of ${now.request_id}`);
    },
  };
}

/** A panel of facts whose number stays, and room for a sentence. @param {string} title @param {string[]} names @param {boolean} [speaks] */
function facts(title, names, speaks = false) {
  const said = h("p", { class: "slot-said", hidden: !speaks });
  const values = names.map(() => h("dd", { class: "clip" }, "–"));
  const list = names.map((name, i) => [h("dt", { class: "clip" }, name), values[i]]);
  return {
    node: h("section", { class: "panel", "aria-label": title }, h("h2", { class: "panel-head" }, title), h("dl", { class: "facts" }, list), said),
    /** @param {string[]} next @param {string} [sentence] */
    set(next, sentence = "") {
      values.forEach((value, i) => text(value, next[i] ?? "–"));
      text(said, sentence);
      said.title = sentence;
    },
  };
}

/** How long rounds take; there only where they are timed (TANDEM_PARALLEL_TIMING=1). @param {number} size */
function timePanel(size) {
  const rows = Array.from({ length: size }, (_, i) => ({ slots: `${i + 1}`, cells: TIMES.map(() => h("td", { class: "num" }, "–")) }));
  const head = ["Slots", ...TIMES.map((name) => name.replace("_ms", " ms").replaceAll("_", " "))];
  const node = h(
    "section",
    { class: "panel live-data", "aria-label": "Rounds, timed", hidden: true },
    h("h2", { class: "panel-head" }, "Rounds, timed"),
    h(
      "div",
      { class: "table-wrap", tabindex: "0", role: "region", "aria-label": "Times of a round" },
      h(
        "table",
        null,
        h("thead", null, h("tr", null, head.map((name, i) => h("th", { scope: "col", class: i ? "num" : null }, name)))),
        h("tbody", null, rows.map((row) => h("tr", null, h("th", { scope: "row" }, row.slots), row.cells))),
      ),
    ),
  );
  return {
    node,
    /** @param {Record<string, Record<string, number>>} meeting */
    update(meeting) {
      node.hidden = !Object.keys(meeting).length;
      for (const row of rows) {
        TIMES.forEach((name, i) => {
          const value = meeting[row.slots]?.[name];
          const cell = row.cells[i];
          if (cell) text(cell, name === "rounds" ? count(value) : decimal(value, 2));
        });
      }
    },
  };
}
