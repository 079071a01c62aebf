// Server-sent events of a chat answer, read from a response body.

/**
 * @typedef {{ comment: string } | { data: string }} Sent what a line of the stream says; `data` is not parsed
 */

/**
 * The lines of a stream as they come. Each `data:` of this API is one line, so that none has to be joined.
 * @param {ReadableStream<Uint8Array>} body
 * @returns {AsyncGenerator<Sent>}
 */
export async function* sent(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, { stream: true })).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line.startsWith(":")) yield { comment: line.slice(1).trim() };
        else if (line.startsWith("data:")) yield { data: line.slice(5).trim() };
      }
    }
  } finally {
    // Leaving early closes the connection, which stops the server's work.
    reader.cancel().catch(() => {});
  }
}

/**
 * What a comment means to a person who waits; null where it is only a sign of life.
 * @param {string} comment
 * @returns {string | null}
 */
export function waiting(comment) {
  const place = /^waiting, position (\d+)(.*)$/.exec(comment);
  if (place) return `${ordinal(Number(place[1]))} in line${place[2]}`;
  const read = /^prefill (\d+)\/(\d+)(, image \d+ of \d+)?$/.exec(comment);
  if (read) return `Reading the prompt: ${share(Number(read[1]), Number(read[2]))}${read[3] ?? ""}`;
  return comment === "ping" || !comment ? null : comment;
}

/** @param {number} done @param {number} total */
function share(done, total) {
  const figure = new Intl.NumberFormat("en");
  const part = total > 0 ? ` (${Math.floor((done * 100) / total)} %)` : "";
  return `${figure.format(done)} of ${figure.format(total)} tokens${part}`;
}

/** @param {number} place */
function ordinal(place) {
  const endings = /** @type {Record<string, string>} */ ({ one: "st", two: "nd", few: "rd", other: "th" });
  return `${place}${endings[new Intl.PluralRules("en", { type: "ordinal" }).select(place)] ?? "th"}`;
}
