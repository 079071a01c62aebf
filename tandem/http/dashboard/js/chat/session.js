// One conversation and the answer that is being written. It lives outside the view, so that an answer goes on while
// the person looks at another screen.

import { ApiFault, fault, route } from "../api.js";
import { read } from "./params.js";
import { sent, waiting } from "./sse.js";
import * as store from "./store.js";

/** @typedef {import("./store.js").Turn} Turn */
/** @typedef {import("./store.js").Answer} Answer */
/** @typedef {import("./store.js").Params} Params */

const SAVE_MS = 2000;

/** @returns {import("./store.js").Conversation} */
const fresh = () => ({ id: crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`, title: "New chat", updated: 0, turns: [] });

export class Session {
  /** The one that was open before a reload. */
  talk = store.lastOpen() ?? fresh();
  /** @type {Params} */
  params = store.load("params", {});
  /** Not kept anywhere: gone with the page. */
  key = "";
  model = "";
  /** @type {AbortController | null} */
  running = null;
  /** What is waited for while nothing has come. */
  waiting = "";
  began = 0;
  /** Called with "turns" where some came or went, "text" where the newest grew. @type {(what: "turns" | "text") => void} */
  changed = () => {};
  /** Called at the start and the end of an answer. @type {(words: string) => void} */
  announce = () => {};
  #saved = 0;

  constructor() {
    const last = this.answer;
    if (!last || last.finish || last.fault || last.stopped) return;
    // The page was left while it came.
    last.stopped = true;
    close(last);
  }

  /** The newest turn where it is an answer. @returns {Answer | null} */
  get answer() {
    const last = this.talk.turns.at(-1);
    return last?.role === "assistant" ? last : null;
  }

  /** Calls of the newest answer that have no result yet. */
  get pending() {
    return this.running ? [] : (this.answer?.calls ?? []).filter((call) => !call.broken);
  }

  /** @param {import("./store.js").Conversation | null} talk null for a new one */
  open(talk) {
    this.#leave();
    this.talk = talk ?? fresh();
    store.remember(this.talk.id);
    this.changed("turns");
  }

  /** @param {string} text @param {string[]} results of the calls that are open, which the text comes after */
  ask(text, results = []) {
    this.#answerCalls(results);
    this.talk.turns.push({ role: "user", content: text });
    if (this.talk.title === "New chat") this.talk.title = text.trim().split("\n", 1)[0]?.slice(0, 60) || "New chat";
    return this.#run();
  }

  /** Sends the results of the open calls. @param {string[]} results */
  give(results) {
    this.#answerCalls(results);
    return this.#run();
  }

  /** The newest answer once more; `regenerate` asks for another text. @param {boolean} regenerate */
  again(regenerate) {
    if (this.answer) this.talk.turns.pop();
    return this.#run(regenerate);
  }

  /**
   * Sends a changed question; what came after it is dropped, or stays in the old conversation where this is a `copy`.
   * @param {Turn} turn
   * @param {string} text
   * @param {boolean} copy
   */
  edit(turn, text, copy) {
    this.#leave();
    const at = this.talk.turns.indexOf(turn);
    if (at < 0) return Promise.resolve();
    const earlier = this.talk.turns.slice(0, at);
    if (copy) this.talk = { ...fresh(), turns: structuredClone(earlier) };
    else this.talk.turns = earlier;
    if (at === 0) this.talk.title = "New chat";
    else if (copy) this.talk.title = text.trim().split("\n", 1)[0]?.slice(0, 60) || "New chat";
    return this.ask(text);
  }

  stop() {
    this.running?.abort();
  }

  /** Ends what runs, which may tidy up behind the back of what comes next. */
  #leave() {
    this.stop();
    this.running = null;
  }

  /** Keeps what is there so far. */
  note() {
    this.#saved = Date.now();
    store.remember(this.talk.id);
    store.note({ ...this.talk, updated: Date.now() });
  }

  /** @param {string[]} results */
  #answerCalls(results) {
    this.pending.forEach((call, n) => {
      this.talk.turns.push({ role: "tool", tool_call_id: call.id, content: results[n] ?? "" });
    });
  }

  /** @param {boolean} [regenerate] */
  async #run(regenerate = false) {
    const { fields, wrong } = read(this.params);
    const { system, ...rest } = fields;
    const talk = this.talk;
    /** @type {Answer} */
    const answer = { role: "assistant", content: "", at: Date.now(), sent: { ...(system ? { system } : {}), ...rest } };
    const body = request(talk.turns, answer, this.model);
    talk.turns.push(answer);
    if (wrong.size) {
      const [name, message] = [...wrong][0] ?? ["", ""];
      answer.fault = { status: 0, message: `${name}: ${message}` };
      return this.changed("turns");
    }
    const control = (this.running = new AbortController());
    this.began = performance.now();
    this.waiting = "";
    this.changed("turns");
    try {
      await this.#stream(answer, body, regenerate, control.signal);
    } catch (error) {
      if (control.signal.aborted) answer.stopped = true;
      else answer.fault = asFault(error);
    }
    if (this.running === control) this.running = null;
    close(answer);
    if (this.talk === talk) this.note();
    store.keep({ ...talk, updated: Date.now() });
    this.changed("text");
    this.announce(ending(answer));
  }

  /**
   * @param {Answer} answer
   * @param {object} body
   * @param {boolean} regenerate
   * @param {AbortSignal} signal
   */
  async #stream(answer, body, regenerate, signal) {
    /** @type {Record<string, string>} */
    const headers = { "content-type": "application/json", "x-tandem-client": "chat-app" };
    if (regenerate) headers["x-tandem-regenerate"] = "1";
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    const url = route("v1/chat/completions");
    /** @type {Response} */
    let response;
    try {
      response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal });
    } catch (error) {
      if (signal.aborted) throw error;
      throw new ApiFault(0, "The server cannot be reached.");
    }
    answer.id = response.headers.get("x-request-id") ?? undefined;
    if (!response.ok || !response.body) {
      const found = await fault(response);
      throw Object.assign(found, { retry: Number(response.headers.get("retry-after")) || null });
    }
    let ended = false;
    let started = false;
    for await (const event of sent(response.body)) {
      if ("comment" in event) this.waiting = waiting(event.comment) ?? this.waiting;
      else if (event.data === "[DONE]") ended = true;
      else {
        take(answer, JSON.parse(event.data));
        if (!started && (answer.content || answer.reasoning || answer.calls)) {
          started = true;
          this.announce("The answer begins.");
        }
      }
      if (this.answer !== answer) continue;
      if (Date.now() - this.#saved > SAVE_MS) this.note();
      this.changed("text");
    }
    if (!ended && !answer.fault) throw new ApiFault(0, "The connection was lost. What had come is kept.");
  }
}

/** @param {unknown} error @returns {import("./store.js").Fault} */
function asFault(error) {
  if (error instanceof ApiFault) {
    const retry = "retry" in error && typeof error.retry === "number" ? error.retry : null;
    return { status: error.status, message: error.message, retry };
  }
  if (error instanceof SyntaxError) return { status: 0, message: "The server sent something that is not its API." };
  return { status: 0, message: "The connection was lost. What had come is kept." };
}

/** Adds a chunk of the stream to the answer. @param {Answer} answer @param {any} chunk */
function take(answer, chunk) {
  answer.id ??= chunk.id;
  if (chunk.usage) answer.usage = chunk.usage;
  if (chunk.timings) answer.timings = chunk.timings;
  if (chunk.error) {
    const { status, message, retry_after } = chunk.error;
    answer.fault = { status: status ?? 0, message: message ?? "The server reported an error.", retry: retry_after ?? null };
  }
  const choice = chunk.choices?.[0];
  if (choice?.finish_reason) answer.finish = choice.finish_reason;
  const delta = choice?.delta ?? {};
  if (delta.content) answer.content += delta.content;
  const thought = delta.reasoning_content ?? delta.reasoning;
  if (thought) answer.reasoning = (answer.reasoning ?? "") + thought;
  for (const part of delta.tool_calls ?? []) {
    const calls = (answer.calls ??= []);
    const call = (calls[part.index] ??= { id: "", name: "", arguments: "" });
    if (part.id) call.id = part.id;
    call.name += part.function?.name ?? "";
    call.arguments += part.function?.arguments ?? "";
  }
}

/** Marks the calls that were cut: they cannot be sent back. @param {Answer} answer */
function close(answer) {
  answer.calls = answer.calls?.filter(Boolean);
  for (const call of answer.calls ?? []) {
    try {
      JSON.parse(call.arguments);
    } catch {
      call.broken = true;
    }
  }
}

/** @param {Answer} answer */
function ending(answer) {
  if (answer.stopped) return "The answer was stopped.";
  if (answer.fault) return `The answer failed. ${answer.fault.message}`;
  if (answer.calls?.length) return "The answer calls a tool and waits for its result.";
  return "The answer is complete.";
}

/**
 * The request that an answer comes from. Its reasoning is asked for apart, whatever the server's default for chats.
 * @param {Turn[]} turns those before the answer
 * @param {Answer} answer
 * @param {string} model
 * @returns {Record<string, unknown>}
 */
export function request(turns, answer, model) {
  const { system, ...fields } = answer.sent ?? {};
  const messages = turns.flatMap(message);
  if (system) messages.unshift({ role: "system", content: system });
  return {
    ...(model ? { model } : {}),
    messages,
    stream: true,
    stream_options: { include_usage: true },
    reasoning_format: "reasoning_content",
    ...fields,
  };
}

/** The message of a turn; none of an answer that came to nothing. @param {Turn} turn @returns {Record<string, unknown>[]} */
function message(turn) {
  if (turn.role !== "assistant") return [{ ...turn }];
  const calls = (turn.calls ?? []).filter((call) => !call.broken);
  if (!turn.content && !calls.length) return [];
  const tool_calls = calls.map(({ id, name, arguments: text }) => ({
    id,
    type: "function",
    function: { name, arguments: text },
  }));
  return [
    {
      role: "assistant",
      content: turn.content,
      ...(turn.reasoning ? { reasoning_content: turn.reasoning } : {}),
      ...(tool_calls.length ? { tool_calls } : {}),
    },
  ];
}

/** The same as a command for a shell. @param {Record<string, unknown>} body @param {boolean} key whether one is asked for */
export function curl(body, key) {
  const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const lines = [
    `curl -N ${quoted(route("v1/chat/completions").href)}`,
    "-H 'Content-Type: application/json'",
    "-H 'X-Tandem-Client: chat-app'",
    ...(key ? ['-H "Authorization: Bearer $TANDEM_API_KEY"'] : []),
    `-d ${quoted(JSON.stringify(body))}`,
  ];
  return lines.join(" \\\n  ");
}
