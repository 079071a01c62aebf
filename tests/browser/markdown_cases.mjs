// The Markdown parser without a browser: what becomes of a text, and that nasty ones cost no more than their length.
// Prints one line a failed case; run by test_chat.py.

import { readFileSync } from "node:fs";

// A data: address, so that node takes the page's .js for the module it is, without a package.json beside it.
const source = readFileSync(new URL("../../tandem/http/dashboard/js/chat/markdown.js", import.meta.url), "utf8");
const { Growing, parse } = await import(`data:text/javascript;base64,${Buffer.from(source).toString("base64")}`);

const flat = (c) => c.map((each) => (typeof each === "string" ? each : `<${each.t}${each.href ? ` ${each.href}` : ""}>${flat(each.c)}</>`)).join("");
const write = (block) => {
  switch (block.t) {
    case "p":
      return flat(block.c);
    case "h":
      return `h${block.level}(${flat(block.c)})`;
    case "code":
      return `code:${block.lang}(${block.text})`;
    case "quote":
      return `quote(${block.c.map(write).join("|")})`;
    case "list":
      return `list:${block.start}${block.loose ? "~" : ""}(${block.items.map((item) => (item.done === null ? "" : item.done ? "[x]" : "[ ]") + item.c.map(write).join("|")).join(", ")})`;
    case "table":
      return `table:${block.align}(${[block.head, ...block.rows].map((row) => row.map(flat).join(",")).join(" / ")})`;
    default:
      return block.t;
  }
};
const text = (markdown) => parse(markdown).map(write).join(" ¶ ");

const CASES = [
  ["# A *b* #", "h1(A <em>b</>)"],
  ["#hashtag", "#hashtag"],
  ["a\nb", "a\nb"],
  ["a  \nb\\\nc", "a<br></>b<br></>c"],
  ["**a *b* c** ~~d~~ _e_ f_g_h 2 * 3 * 4", "<strong>a <em>b</> c</> <del>d</> <em>e</> f_g_h 2 * 3 * 4"],
  ["***a***", "<em><strong>a</></>"],
  ["**a*", "*<em>a</>"],
  ["`a * b` ``c ` d`` `open", "<code>a * b</> <code>c ` d</> `open"],
  ["\\*a\\* &lt;b&gt; &amp;&copy;", "*a* <b> &&copy;"],
  ["<script>alert(1)</script><img src=x onerror=y>", "<script>alert(1)</script><img src=x onerror=y>"],
  ["[a](http://b \"t\") [c](<http://d e>)", "<link http://b>a</> <link http://d e>c</>"],
  ["[a](b", "[a](b"],
  ["![alt](http://i) [![b](http://c)](http://d)", "<link http://i>alt</> <link http://d>b</>"],
  ["[a [b](http://c) d](e) [f](http://g)", "[a <link http://c>b</> d](e) <link http://g>f</>"],
  ["**[a**](http://b)", "**<link http://b>a**</>"],
  ["see http://a.b/c_(d). <https://e.f> x", "see <link http://a.b/c_(d)>http://a.b/c_(d)</>. <link https://e.f>https://e.f</> x"],
  ["```js x\na\n\n b\n```\nc", "code:js(a\n\n b) ¶ c"],
  ["~~~\n```\n~~~", "code:(```)"],
  ["```\nopen", "code:(open)"],
  ["- a\n- b\n  - c\n\n  d", "list:null~(a, b|list:null(c)|d)"],
  ["3. a\n  - b\n4. c", "list:3(a|list:null(b), c)"],
  ["- [x] a\n- [ ] b\n- [c]", "list:null([x]a, [ ]b, [c])"],
  ["1. a\n\n2. b", "list:1~(a, b)"],
  ["- a\n\nb", "list:null(a) ¶ b"],
  ["- ```py\n  x\n  ```", "list:null(code:py(x))"],
  ["> a\nb\n> - c\n\nd", "quote(a\nb|list:null(c)) ¶ d"],
  ["> > a", "quote(quote(a))"],
  ["a\n---\n* * *", "a ¶ hr ¶ hr"],
  ["x\n| a | b |\n|:-|-:|\n| `1` | 2\\|3 | 4 |\n| only |\n\ny", "x ¶ table:left,right(a,b / <code>1</>,2|3 / only) ¶ y"],
  ["a | b", "a | b"],
  ["a\r\nb\r\n\r\n# c\r\n", "a\nb ¶ h1(c)"],
  ["", ""],
];
for (const [given, wanted] of CASES) {
  const found = text(given);
  if (found !== wanted) console.log(`${JSON.stringify(given)}\n  is     ${JSON.stringify(found)}\n  not    ${JSON.stringify(wanted)}`);
}

// A text that grows a character at a time is the same in the end, and what is settled does not change.
const whole = CASES.map(([given]) => given).filter((given) => !given.includes("open")).join("\n\n");
const growing = new Growing();
let blocks = [];
for (let at = 1; at <= whole.length; at += 1) {
  const { kept, fresh } = growing.take(whole.slice(0, at));
  blocks = [...blocks.slice(0, kept), ...fresh];
}
if (JSON.stringify(blocks) !== JSON.stringify(parse(whole))) console.log("a text that grows reads otherwise in the end");

// Twice the text may cost about twice, never four times. A quadratic reading of these takes minutes.
const NASTY = {
  stars: (n) => "*".repeat(n),
  openers: (n) => "*a ".repeat(n),
  nested: (n) => "*a ".repeat(n) + "a* ".repeat(n),
  mixed: (n) => "_*a_*".repeat(n),
  brackets: (n) => "[".repeat(n),
  pairs: (n) => "[".repeat(n) + "](a)".repeat(n),
  targets: (n) => "[a](".repeat(n),
  images: (n) => "![".repeat(n),
  quotes: (n) => ">".repeat(n),
  dashes: (n) => "- ".repeat(n) + "a",
  ticks: (n) => "`a``b".repeat(n),
  pipes: (n) => "|".repeat(n) + "\n" + "|-".repeat(n),
  hashes: (n) => "# a" + " #".repeat(n) + "b",
  blanks: (n) => "```" + " ".repeat(n) + "`",
  angles: (n) => "<http://".repeat(n),
  lines: (n) => "a\n".repeat(n),
  entities: (n) => "&".repeat(n),
  wide: (n) => `${"|a".repeat(200)}\n${"|-".repeat(200)}\n${"|\n".repeat(n)}`,
};
for (const [name, make] of Object.entries(NASTY)) {
  parse(make(10_000));
}
const steps = Array.from({ length: 400 }, (_, n) => `${"  ".repeat(n)}- a`).join("\n");
let depth = 0;
for (let [list] = parse(steps); list?.t === "list"; list = list.items[0].c.find((each) => each.t === "list")) depth += 1;
if (depth !== 12) console.log(`lists are ${depth} deep`);
console.log("done");
