// What a person may change about a request. Only what was changed is sent.

/** @typedef {import("./store.js").Params} Params */
/**
 * @typedef {object} Field
 * @property {string} name of the request's field
 * @property {string} label
 * @property {"number" | "whole" | "word" | "lines" | "text" | "tools" | "choice"} kind
 * @property {number} [low]
 * @property {number} [high]
 * @property {string[]} [words]
 * @property {string} [note]
 */

/** @type {Field[]} */
export const FIELDS = [
  { name: "system", label: "System prompt", kind: "text" },
  { name: "temperature", label: "Temperature", kind: "number", low: 0, high: 2 },
  { name: "top_p", label: "Top p", kind: "number", low: 0, high: 1 },
  { name: "top_k", label: "Top k", kind: "whole", low: -1 },
  { name: "min_p", label: "Min p", kind: "number", low: 0, high: 1 },
  { name: "presence_penalty", label: "Presence penalty", kind: "number", low: -2, high: 2 },
  { name: "frequency_penalty", label: "Frequency penalty", kind: "number", low: -2, high: 2 },
  { name: "seed", label: "Seed", kind: "whole" },
  { name: "max_tokens", label: "Token limit", kind: "whole", low: 1 },
  {
    name: "reasoning_effort",
    label: "Reasoning effort",
    kind: "word",
    words: ["none", "minimal", "low", "medium", "high", "xhigh"],
  },
  { name: "max_reasoning_tokens", label: "Thinking limit", kind: "whole", low: 0 },
  { name: "stop", label: "Stop strings", kind: "lines", note: "one a line; \\n is a line break" },
  { name: "tools", label: "Tools", kind: "tools", note: "a JSON list as in OpenAI's API" },
  { name: "tool_choice", label: "Tool choice", kind: "choice", words: ["auto", "none", "required"] },
];

/** What was typed cannot be sent. */
export class Wrong extends Error {}

/**
 * The value of a field as the request has it; undefined where nothing was typed.
 * @param {Field} field
 * @param {string} typed
 * @returns {unknown}
 */
export function value(field, typed) {
  const bare = typed.trim();
  if (!bare) return undefined;
  switch (field.kind) {
    case "number":
    case "whole":
      return number(field, bare);
    case "lines":
      return typed.split("\n").filter(Boolean).map((line) => line.replaceAll("\\n", "\n"));
    case "tools":
      return tools(bare);
    case "choice":
      return field.words?.includes(bare) ? bare : { type: "function", function: { name: bare } };
    default:
      return typed;
  }
}

/** @param {Field} field @param {string} bare */
function number(field, bare) {
  const found = Number(bare);
  if (!Number.isFinite(found) || (field.kind === "whole" && !Number.isSafeInteger(found)))
    throw new Wrong(field.kind === "whole" ? "This takes a whole number." : "This takes a number.");
  if (found < (field.low ?? -Infinity)) throw new Wrong(`The least is ${field.low}.`);
  if (found > (field.high ?? Infinity)) throw new Wrong(`The most is ${field.high}.`);
  return found;
}

/** @param {string} bare @returns {any[]} */
function tools(bare) {
  let found;
  try {
    found = JSON.parse(bare);
  } catch (error) {
    throw new Wrong(`This is no JSON: ${error instanceof Error ? error.message : error}`);
  }
  if (!Array.isArray(found)) throw new Wrong("This takes a list, even of a single tool.");
  found.forEach((tool, n) => {
    if (tool?.type !== "function" || typeof tool.function?.name !== "string" || !tool.function.name)
      throw new Wrong(`Tool ${n + 1} takes the form {"type": "function", "function": {"name": …}}.`);
  });
  return found.length ? found : [];
}

/** The names of the tools as far as they can be read. @param {Params} params @returns {string[]} */
export function toolNames(params) {
  try {
    return tools(params.tools?.trim() || "[]").map((tool) => String(tool.function.name));
  } catch {
    return [];
  }
}

/**
 * The request's fields from what was changed, and what cannot be sent by field. `system` is among them.
 * @param {Params} params
 * @returns {{ fields: Record<string, unknown>, wrong: Map<string, string> }}
 */
export function read(params) {
  /** @type {Record<string, unknown>} */
  const fields = {};
  /** @type {Map<string, string>} */
  const wrong = new Map();
  for (const field of FIELDS) {
    try {
      const found = value(field, params[field.name] ?? "");
      if (found !== undefined) fields[field.name] = found;
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      wrong.set(field.name, error.message);
    }
  }
  // A choice without tools is refused, and means nothing.
  if (!toolNames(params).length) delete fields.tool_choice;
  return { fields, wrong };
}
