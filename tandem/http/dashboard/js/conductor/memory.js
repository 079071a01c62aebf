// Memory: the disk tier of the caches (OBS-097). Who administers may read it alone; transcripts come with the server's own.

import { getJson, sendJson } from "../api.js";
import { clear, h } from "../dom.js";
import { NONE, bytes, count, percent } from "../format.js";
import { box, button, facts, note, panel, table } from "../panel.js";

const DISK = "v1/conductor/memory/disk";

/** @typedef {any} Json */

/** @param {HTMLElement} root */
export function screen(root) {
  const said = h("span", { role: "status" });
  const part = panel("the disk tier", "mid", (signal) => getJson(DISK, {}, signal), disk);
  const empty = async () => {
    if (!window.confirm("Remove every file of the disk tier? Conversations that it holds are read again when they go on.")) return;
    try {
      const { freed_bytes } = await sendJson("POST", `${DISK}/clear`, {});
      said.textContent = `Freed ${bytes(Number(Object.values(freed_bytes)[0] ?? 0))}.`;
    } catch (error) {
      said.textContent = `✖ ${error instanceof Error ? error.message : error}`;
    }
    await part.load();
  };
  clear(
    root,
    box("Disk tier", h("p", { class: "toolbar" }, button("Refresh", () => void part.load()), button("Clear", () => void empty()), said), part.node),
    box("Transcripts and notes", note("This server keeps neither: what a session's model read and its client did not send is in the session itself, from ", h("a", { href: "#/overview" }, "Overview"), " on.")),
  );
  void part.load();
  return part.stop;
}

/** @param {Json} answer */
function disk({ running, settings, bytes: held, budget_bytes, free_bytes, floor_bytes, hits, misses, hit_rate, entries, events }) {
  return [
    !running && settings.mode === "on" && note("It is switched on and does not run: this engine has none, or its folder cannot be used, as the log then says."),
    !running && settings.mode !== "on" && note("It does not run: ", h("a", { href: "#/conductor/settings" }, "Settings"), " (memory, disk_cache) or ", h("code", null, "--disk-cache"), " switch it on."),
    facts([
      ["Mode", `${settings.mode}, by version ${count(settings.version)} of the settings`],
      ["Held", `${bytes(held)} of ${bytes(budget_bytes)}`],
      ["Free on the drive", `${free_bytes === null ? NONE : bytes(free_bytes)}; it stops at ${bytes(floor_bytes)}`],
      ["Hit rate", `${percent(hit_rate)} of ${count(hits + misses)}`],
      ["Kept", `for ${count(settings.ttl_days)} days, from use ${count(settings.admit_after)} on`],
    ]),
    entries.length > 0 && table("Entries most used", ["#Tokens", "#Uses", "#Size"], entries.map((/** @type {Json} */ one) => [count(one.rows), count(one.uses), bytes(one.bytes)])),
    events.length > 0 && [h("h3", { class: "apart" }, "Newest events"), h("ol", { class: "said" }, [...events].reverse().map((/** @type {string} */ one) => h("li", null, one)))],
  ];
}
