// Sessions of the conductor: the newest ones, and where all of one is shown.

import { ApiFault, route } from "./api.js";
import { h } from "./dom.js";
import { NONE, clock, count } from "./format.js";
import { table } from "./panel.js";

/** @typedef {Record<string, any>} Row */

/** @param {string} key */
export const sessionLink = (key) => h("a", { href: `#/dev/session/${encodeURIComponent(key)}` }, key);

/** What its model read and its client did not send, as a file. @param {string} key @param {"md" | "json"} format */
export const exported = (key, format) =>
  h("a", { href: route(`v1/conductor/sessions/${encodeURIComponent(key)}/export`, { format }).href, target: "_blank", rel: "noreferrer" }, format === "md" ? "Markdown" : "JSON");

/** @param {Row[]} rows */
export const sessionTable = (rows) =>
  table(
    "Sessions",
    ["Session", "Last", "Client", "Profile", "Class", "#Tokens", "#Requests", "#Decisions", "#Findings", "#Hidden tokens", "What the model saw"],
    rows.map((one) => [
      sessionLink(one["key"]),
      clock(one["last_ms"]),
      one["client_kind"] ?? NONE,
      one["profile"] ?? NONE,
      one["live"]?.class ?? NONE,
      count(one["prompt_tokens"]),
      count(one["requests"]),
      count(one["routes"]),
      count(one["findings"]),
      count(one["hidden_tokens"]),
      exported(one["key"], "md"),
    ]),
  );

/** null: there is no conductor. @param {Promise<any>} answer @returns {Promise<any>} */
export async function orNone(answer) {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiFault && error.status === 404) return null;
    throw error;
  }
}
