// Markdown to plain data: what models write, in one pass over the lines and one over each text, in linear time.
// Nothing here makes an element, and HTML is text. Not taken from CommonMark: code by indentation, headings underlined
// with dashes (a rule while it streams would turn into a heading) and link definitions.

/**
 * A piece of running text: a string, a line break, or marked-up content.
 * @typedef {string | Mark} Inline
 * @typedef {{ t: "em" | "strong" | "del" | "code" | "link" | "br", c: Inline[], href?: string }} Mark
 * @typedef {"left" | "right" | "center" | null} Align
 * @typedef {{ c: Block[], done: boolean | null }} Item
 * @typedef {{ t: "p", c: Inline[] }
 *   | { t: "h", level: number, c: Inline[] }
 *   | { t: "code", lang: string, text: string }
 *   | { t: "quote", c: Block[] }
 *   | { t: "list", start: number | null, loose: boolean, items: Item[] }
 *   | { t: "table", align: Align[], head: Inline[][], rows: Inline[][][] }
 *   | { t: "hr" }} Block
 */

/** Lists and quotes deeper than this are text, marks deeper than this are dropped: a page has to lay them out. */
const DEEP = 12;
/** Longest address of a link, so that many broken ones cost no more than their length. */
const ADDRESS = 2000;

/**
 * @param {string} source
 * @returns {Block[]}
 */
export function parse(source) {
  return blocks(split(source), 0).map((each) => each.block);
}

/**
 * Follows a text that grows: `take` gives the blocks that are new since the last call, and how many of the earlier
 * stay as they were. Only what may still change is read again.
 */
export class Growing {
  #settled = 0;
  #kept = 0;

  /**
   * @param {string} source the whole text so far
   * @returns {{ kept: number, fresh: Block[] }}
   */
  take(source) {
    const tail = source.slice(this.#settled);
    const found = blocks(split(tail), 0);
    const kept = this.#kept;
    // A block is settled once another one has begun on a line that is complete.
    const whole = tail.split("\n").length - 1;
    let last = found.length - 1;
    while (last > 0 && (found[last]?.line ?? 0) >= whole) last -= 1;
    if (last > 0) {
      this.#kept += last;
      this.#settled += offset(tail, found[last]?.line ?? 0);
    }
    return { kept, fresh: found.map((each) => each.block) };
  }
}

/** @param {string} source @param {number} line */
function offset(source, line) {
  let at = 0;
  for (let n = 0; n < line; n += 1) at = source.indexOf("\n", at) + 1;
  return at;
}

/** @param {string} source */
const split = (source) => source.split("\n").map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));

/** @param {string} line the blanks it starts with, a tab as four */
function indent(line) {
  let width = 0;
  for (const char of line) {
    if (char === " ") width += 1;
    else if (char === "\t") width += 4;
    else break;
  }
  return width;
}

/** Takes up to `width` blanks off the start. @param {string} line @param {number} width */
function dedent(line, width) {
  let at = 0;
  while (at < width && line[at] === " ") at += 1;
  return at < width && line[at] === "\t" ? line.slice(at + 1) : line.slice(at);
}

/** @param {string} line */
const isBlank = (line) => line.trim() === "";

/** @param {string} line */
function isRule(line) {
  const bare = line.replaceAll(" ", "");
  return bare.length >= 3 && /^(?:-+|\*+|_+)$/.test(bare);
}

/** @param {string} line @returns {{ mark: string, info: string } | null} */
function fence(line) {
  const found = /^(`{3,}|~{3,})(.*)$/.exec(line.trimStart());
  if (!found?.[1] || (found[1][0] === "`" && found[2]?.includes("`"))) return null;
  return { mark: found[1], info: (found[2] ?? "").trim() };
}

/** @param {string} line @param {string} mark */
function closes(line, mark) {
  const bare = line.trim();
  return bare.length >= mark.length && bare === mark.charAt(0).repeat(bare.length);
}

/**
 * The marker of a list item: where its text starts, its kind and number.
 * @param {string} line
 * @returns {{ kind: string, start: number | null, from: number, width: number } | null}
 */
function marker(line) {
  const found = /^([-*+]|(\d{1,9})([.)]))(?=\s|$)/.exec(line.trimStart());
  if (!found?.[1] || isRule(line)) return null;
  const from = line.length - line.trimStart().length;
  const after = from + found[1].length;
  const gap = indent(line.slice(after));
  const width = after + (gap >= 1 && gap <= 4 && !isBlank(line.slice(after)) ? gap : 1);
  return { kind: found[3] ?? found[1], start: found[2] === undefined ? null : Number(found[2]), from, width };
}

/** @param {string | undefined} line @returns {Align[] | null} */
function delimiters(line) {
  if (line === undefined || !line.includes("-") || !/^[ \t|:-]+$/.test(line) || !/[|:]/.test(line)) return null;
  const found = cells(line);
  if (!found.every((cell) => /^:?-+:?$/.test(cell))) return null;
  return found.map((cell) => {
    const right = cell.endsWith(":");
    return cell.startsWith(":") ? (right ? "center" : "left") : right ? "right" : null;
  });
}

/** The cells of a table's row. @param {string} line */
function cells(line) {
  const bare = line.trim();
  /** @type {string[]} */
  const found = [];
  let cell = "";
  for (let at = bare.startsWith("|") ? 1 : 0; at < bare.length; at += 1) {
    if (bare[at] === "\\" && bare[at + 1] === "|") {
      cell += "|";
      at += 1;
    } else if (bare[at] === "|") {
      found.push(cell.trim());
      cell = "";
    } else cell += bare[at];
  }
  if (cell.trim() !== "") found.push(cell.trim());
  return found;
}

/** Whether the line starts a block that ends a paragraph before it. @param {string} line */
function interrupts(line) {
  if (/^ {0,3}(?:#{1,6}(?:\s|$)|>)/.test(line) || fence(line) || isRule(line)) return true;
  const item = marker(line);
  return item !== null && line.length > item.width && (item.start === null || item.start === 1);
}

/**
 * @param {string[]} lines
 * @param {number} depth
 * @returns {{ line: number, block: Block }[]}
 */
function blocks(lines, depth) {
  /** @type {{ line: number, block: Block }[]} */
  const found = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    if (isBlank(line)) {
      at += 1;
      continue;
    }
    const [next, block] = blockAt(lines, at, depth);
    found.push({ line: at, block });
    at = next;
  }
  return found;
}

/**
 * The block that starts at a line, and the line after it.
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[number, Block]}
 */
function blockAt(lines, at, depth) {
  const line = lines[at] ?? "";
  const opened = fence(line);
  if (opened) return code(lines, at, opened);
  const heading = /^ {0,3}(#{1,6})(?:\s(.*))?$/.exec(line);
  if (heading) return [at + 1, { t: "h", level: heading[1]?.length ?? 1, c: inline(unhash(heading[2] ?? "")) }];
  if (isRule(line)) return [at + 1, { t: "hr" }];
  if (depth < DEEP) {
    if (/^ {0,3}>/.test(line)) return quote(lines, at, depth);
    if (marker(line)) return list(lines, at, depth);
  }
  return tableOrText(lines, at);
}

/** A heading without the hashes at its end. @param {string} title */
function unhash(title) {
  const bare = title.trim();
  let end = bare.length;
  while (end > 0 && bare[end - 1] === "#") end -= 1;
  return end === 0 || bare[end - 1] === " " ? bare.slice(0, end).trim() : bare;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {{ mark: string, info: string }} opened
 * @returns {[number, Block]}
 */
function code(lines, at, opened) {
  const width = indent(lines[at] ?? "");
  let end = at + 1;
  while (end < lines.length && !closes(lines[end] ?? "", opened.mark)) end += 1;
  const text = lines.slice(at + 1, end).map((line) => dedent(line, width));
  return [end + 1, { t: "code", lang: opened.info.split(/\s/, 1)[0] ?? "", text: text.join("\n") }];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[number, Block]}
 */
function quote(lines, at, depth) {
  /** @type {string[]} */
  const inner = [];
  let next = at;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (/^ {0,3}>/.test(line)) inner.push(line.replace(/^ {0,3}> ?/, ""));
    else if (isBlank(line) || interrupts(line) || isBlank(inner.at(-1) ?? "")) break;
    else inner.push(line);
  }
  return [next, { t: "quote", c: blocks(inner, depth + 1).map((each) => each.block) }];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {[number, Block]}
 */
function list(lines, at, depth) {
  const first = marker(lines[at] ?? "");
  /** @type {Item[]} */
  const items = [];
  let loose = false;
  let next = at;
  while (next < lines.length) {
    const head = marker(lines[next] ?? "");
    if (!head || head.kind !== first?.kind) break;
    const [after, inner, gap] = itemLines(lines, next, head);
    items.push(item(inner, depth));
    next = after;
    if (gap && next < lines.length && marker(lines[next] ?? "")?.kind === head.kind) loose = true;
    if (inner.some((line, n) => isBlank(line) && n < inner.length - 1)) loose ||= (items.at(-1)?.c.length ?? 0) > 1;
  }
  return [next, { t: "list", start: first?.start ?? null, loose, items }];
}

/**
 * The lines of one item without its indentation, the line after it, and whether blank ones stand between.
 * @param {string[]} lines
 * @param {number} at
 * @param {{ from: number, width: number }} head
 * @returns {[number, string[], boolean]}
 */
function itemLines(lines, at, head) {
  const inner = [(lines[at] ?? "").slice(head.width)];
  // Two blanks are enough below a number too: models write them, and CommonMark would end the list there.
  const needed = head.from + 2;
  let next = at + 1;
  let gap = false;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line)) {
      gap = true;
      inner.push("");
    } else if (indent(line) >= needed) {
      gap = false;
      inner.push(dedent(line, Math.min(head.width, indent(line))));
    } else if (gap || marker(line) || interrupts(line)) break;
    else inner.push(line.trimStart());
  }
  while (inner.length > 1 && inner.at(-1) === "") inner.pop();
  return [next, inner, gap];
}

/** @param {string[]} inner @param {number} depth @returns {Item} */
function item(inner, depth) {
  const task = /^\[([ xX])\] /.exec(inner[0] ?? "");
  if (task) inner[0] = (inner[0] ?? "").slice(4);
  return { c: blocks(inner, depth + 1).map((each) => each.block), done: task ? task[1] !== " " : null };
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {[number, Block]}
 */
function tableOrText(lines, at) {
  if (isTable(lines, at)) return table(lines, at);
  let next = at + 1;
  while (next < lines.length) {
    const line = lines[next] ?? "";
    if (isBlank(line) || interrupts(line) || isTable(lines, next)) break;
    next += 1;
  }
  const text = lines.slice(at, next).map((line) => line.trimStart());
  return [next, { t: "p", c: inline(text.join("\n").trimEnd()) }];
}

/** @param {string[]} lines @param {number} at */
function isTable(lines, at) {
  const line = lines[at] ?? "";
  const align = line.includes("|") ? delimiters(lines[at + 1]) : null;
  return align !== null && cells(line).length === align.length;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {[number, Block]}
 */
function table(lines, at) {
  const align = delimiters(lines[at + 1]) ?? [];
  /** @type {Inline[][][]} */
  const rows = [];
  let next = at + 2;
  for (; next < lines.length; next += 1) {
    const line = lines[next] ?? "";
    if (isBlank(line) || interrupts(line)) break;
    rows.push(cells(line).slice(0, align.length).map(inline));
  }
  return [next, { t: "table", align, head: cells(lines[at] ?? "").map(inline), rows }];
}

// ---- running text ----

/**
 * A run of `*`, `_` or `~` that may open and close marks. What it opens and closes is noted on it.
 * @typedef {{ char: string, left: number, opens: boolean, closes: boolean, size: number,
 *   begin: Mark["t"][], end: number }} Run
 * @typedef {{ href: string } | { closed: true }} LinkEdge
 * @typedef {string | Run | Mark | LinkEdge} Token
 */

const ENTITIES = new Map([
  ["&amp;", "&"],
  ["&lt;", "<"],
  ["&gt;", ">"],
  ["&quot;", '"'],
  ["&#39;", "'"],
  ["&nbsp;", "\u00a0"],
]);
const SPECIAL = /[\\`*_~[\]!<&\n]|https?:\/\//g;
const PUNCTUATION = /[\p{P}\p{S}]/u;

/**
 * @param {string} source
 * @returns {Inline[]}
 */
export function inline(source) {
  return nest(new Scan(source).tokens());
}

/** Cuts a text into strings, finished marks and runs that are matched. */
class Scan {
  /** @param {string} source */
  constructor(source) {
    this.source = source;
    /** @type {Token[]} */
    this.out = [];
    /** @type {Run[]} */
    this.runs = [];
    /**
     * Open brackets: their place among the tokens, how many runs stand before, and whether an image's.
     * @type {{ at: number, runs: number, image: boolean }[]}
     */
    this.brackets = [];
    /** Brackets below this hold a link, and a link holds none. */
    this.spent = 0;
    /** Backtick runs by length, in order. @type {Map<number, number[]> | null} */
    this.ticks = null;
  }

  tokens() {
    const { source } = this;
    let at = 0;
    while (at < source.length) {
      SPECIAL.lastIndex = at;
      const next = SPECIAL.exec(source)?.index ?? source.length;
      if (next > at) this.out.push(source.slice(at, next));
      if (next === source.length) break;
      at = this.special(next);
    }
    match(this.runs, 0);
    return this.out;
  }

  /** Reads what starts at a special character; where it ends. @param {number} at */
  special(at) {
    const char = this.source.charAt(at);
    switch (char) {
      case "\\":
        return this.escape(at);
      case "`":
        return this.code(at);
      case "*":
      case "_":
      case "~":
        return this.run(at, char);
      case "!":
        // An image is never loaded, so that an answer can reach nobody: it becomes a link.
        return this.source[at + 1] === "[" ? this.bracket("![", at) : this.plain(char, at + 1);
      case "[":
        return this.bracket(char, at);
      case "]":
        return this.close(at);
      case "<":
        return this.angle(at);
      case "&":
        return this.entity(at);
      case "\n":
        return this.newline(at);
      default:
        return this.bare(at);
    }
  }

  /** @param {string} text @param {number} next */
  plain(text, next) {
    this.out.push(text);
    return next;
  }

  /** @param {string} text @param {number} at */
  bracket(text, at) {
    this.brackets.push({ at: this.out.length, runs: this.runs.length, image: text.length > 1 });
    return this.plain(text, at + text.length);
  }

  /** @param {number} at */
  escape(at) {
    const next = this.source.charAt(at + 1);
    if (next === "\n") {
      this.out.push({ t: "br", c: [] });
      return at + 2;
    }
    return /[!-/:-@[-`{-~]/.test(next) ? this.plain(next, at + 2) : this.plain("\\", at + 1);
  }

  /** @param {number} at */
  code(at) {
    let end = at;
    while (this.source[end] === "`") end += 1;
    const width = end - at;
    const closer = this.closer(width, end);
    if (closer < 0) return this.plain(this.source.slice(at, end), end);
    let text = this.source.slice(end, closer).replaceAll("\n", " ");
    if (text.startsWith(" ") && text.endsWith(" ") && text.trim()) text = text.slice(1, -1);
    this.out.push({ t: "code", c: [text] });
    return closer + width;
  }

  /** Where the next run of as many backticks starts; -1: nowhere. @param {number} width @param {number} from */
  closer(width, from) {
    if (!this.ticks) {
      this.ticks = new Map();
      for (const found of this.source.matchAll(/`+/g)) {
        const same = this.ticks.get(found[0].length);
        if (same) same.push(found.index);
        else this.ticks.set(found[0].length, [found.index]);
      }
      for (const places of this.ticks.values()) places.reverse();
    }
    const places = this.ticks.get(width);
    while (places?.length && (places.at(-1) ?? 0) < from) places.pop();
    return places?.at(-1) ?? -1;
  }

  /** @param {number} at @param {string} char */
  run(at, char) {
    let end = at;
    while (this.source[end] === char) end += 1;
    const before = this.source.charAt(at - 1);
    const after = this.source.charAt(end);
    const blankBefore = before.trim() === "";
    const blankAfter = after.trim() === "";
    const marksBefore = PUNCTUATION.test(before);
    const marksAfter = PUNCTUATION.test(after);
    const left = !blankAfter && (!marksAfter || blankBefore || marksBefore);
    const right = !blankBefore && (!marksBefore || blankAfter || marksAfter);
    const word = char === "_";
    const size = end - at;
    if (char === "~" && size !== 2) return this.plain(this.source.slice(at, end), end);
    const opens = left && (!word || !right || marksBefore);
    const shuts = right && (!word || !left || marksAfter);
    /** @type {Run} */
    const run = { char, left: size, opens, closes: shuts, size, begin: [], end: 0 };
    this.out.push(run);
    if (opens || shuts) this.runs.push(run);
    return end;
  }

  /** @param {number} at */
  close(at) {
    const opener = this.brackets.pop();
    const outer = this.brackets.length;
    const spent = outer < this.spent;
    this.spent = Math.min(this.spent, outer);
    const target = opener && !spent && this.source[at + 1] === "(" ? destination(this.source, at + 2) : null;
    if (!opener || !target) return this.plain("]", at + 1);
    match(this.runs, opener.runs);
    this.runs.length = opener.runs;
    this.out[opener.at] = { href: target.href };
    this.out.push({ closed: true });
    if (!opener.image) this.spent = outer;
    return target.end;
  }

  /** @param {number} at */
  angle(at) {
    const tail = this.source.slice(at, at + ADDRESS);
    const link = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(tail);
    if (link?.[1]) {
      this.out.push({ t: "link", href: link[1], c: [link[1].replace(/^mailto:/i, "")] });
      return at + link[0].length;
    }
    // The one tag that is read: models use it to break lines inside a table.
    const wrap = /^<br ?\/?>/i.exec(tail);
    if (!wrap) return this.plain("<", at + 1);
    this.out.push({ t: "br", c: [] });
    return at + wrap[0].length;
  }

  /** @param {number} at */
  entity(at) {
    const end = this.source.slice(at, at + 8).indexOf(";") + 1;
    const known = end > 0 ? ENTITIES.get(this.source.slice(at, at + end)) : undefined;
    return known === undefined ? this.plain("&", at + 1) : this.plain(known, at + end);
  }

  /** @param {number} at */
  newline(at) {
    const last = this.out.at(-1);
    const hard = typeof last === "string" && last.endsWith("  ");
    if (typeof last === "string") this.out[this.out.length - 1] = last.trimEnd();
    this.out.push(hard ? { t: "br", c: [] } : "\n");
    return at + 1;
  }

  /** An address in running text, without the full stop behind it. @param {number} at */
  bare(at) {
    if (/\w/.test(this.source.charAt(at - 1))) return this.plain(this.source.charAt(at), at + 1);
    let end = at;
    while (end < this.source.length && !/[\s<>`|"]/.test(this.source.charAt(end))) end += 1;
    const text = this.source.slice(at, end);
    let length = text.length;
    let extra = text.split(")").length - text.split("(").length;
    for (; length > 0; length -= 1) {
      const last = text.charAt(length - 1);
      if (last === ")" && extra > 0) extra -= 1;
      else if (!/[.,:;!?'*_~\]]/.test(last)) break;
    }
    const href = text.slice(0, length);
    if (/^https?:\/\/$/.test(href)) return this.plain(href, at + length);
    this.out.push({ t: "link", href, c: [href] });
    return at + length;
  }
}

/**
 * The address in the parentheses of a link, a title behind it left out, and where they end.
 * @param {string} source
 * @param {number} from
 * @returns {{ href: string, end: number } | null}
 */
function destination(source, from) {
  const tail = source.slice(from, from + ADDRESS);
  const angled = /^<([^<>\n]*)>/.exec(tail);
  let depth = 0;
  let at = angled ? angled[0].length : 0;
  for (; !angled && at < tail.length; at += 1) {
    const char = tail.charAt(at);
    if (char === "(") depth += 1;
    else if (char === ")" && depth-- === 0) break;
    else if (char <= " ") break;
  }
  const href = angled ? (angled[1] ?? "") : tail.slice(0, at);
  const end = /^(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/.exec(tail.slice(at));
  return end ? { href, end: from + at + end[0].length } : null;
}

/**
 * Pairs the runs from `bottom` on, as CommonMark does: each closing one with the nearest that opens.
 * @param {Run[]} runs
 * @param {number} bottom
 */
function match(runs, bottom) {
  /** Where no opener was found below, by kind of the closing run. @type {Map<string, number>} */
  const floors = new Map();
  /** @type {Run[]} */
  const open = [];
  for (const run of runs.slice(bottom)) {
    while (run.closes && run.left > 0) {
      const kind = `${run.char}${run.opens}${run.size % 3}`;
      const floor = floors.get(kind) ?? 0;
      let at = open.length - 1;
      while (at >= floor && !pairs(open[at], run)) at -= 1;
      const opener = at >= floor ? open[at] : undefined;
      if (!opener) {
        floors.set(kind, open.length);
        break;
      }
      const two = run.char === "~" || (opener.left >= 2 && run.left >= 2);
      opener.begin.push(run.char === "~" ? "del" : two ? "strong" : "em");
      opener.left -= two ? 2 : 1;
      run.left -= two ? 2 : 1;
      run.end += 1;
      open.length = opener.left > 0 ? at + 1 : at;
      for (const [each, level] of floors) if (level > open.length) floors.set(each, open.length);
    }
    if (run.opens && run.left > 0) open.push(run);
  }
}

/** @param {Run | undefined} opener @param {Run} closer */
function pairs(opener, closer) {
  if (!opener || opener.char !== closer.char) return false;
  const both = opener.closes || closer.opens;
  return !both || (opener.size + closer.size) % 3 !== 0 || (opener.size % 3 === 0 && closer.size % 3 === 0);
}

/**
 * The tokens as a tree.
 * @param {Token[]} tokens
 * @returns {Inline[]}
 */
function nest(tokens) {
  /** @type {Inline[]} */
  const top = [];
  /** @type {Inline[][]} */
  const stack = [top];
  let link = 0;
  const put = (/** @type {Inline} */ piece) => {
    const into = stack.at(-1) ?? top;
    const last = into.at(-1);
    if (typeof piece === "string" && typeof last === "string") into[into.length - 1] = last + piece;
    else if (piece !== "") into.push(piece);
  };
  const begin = (/** @type {Mark} */ mark) => {
    // Too deep: what is inside goes to where it stands, without the mark.
    if (stack.length > DEEP) stack.push(stack.at(-1) ?? top);
    else {
      put(mark);
      stack.push(mark.c);
    }
  };
  for (const token of tokens) {
    if (typeof token === "string" || "t" in token) put(token);
    else if ("href" in token) {
      if (link++ === 0) begin({ t: "link", href: token.href, c: [] });
      else stack.push(stack.at(-1) ?? top);
    } else if ("closed" in token) {
      link -= 1;
      stack.pop();
    } else {
      for (let n = 0; n < token.end; n += 1) stack.pop();
      put(token.char.repeat(token.left));
      for (const kind of token.begin.toReversed()) begin({ t: kind, c: [] });
    }
  }
  return top;
}
