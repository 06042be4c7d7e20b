// @ts-check
// The largest keys and those that are followed: bars, numbers and their curve.
import {
  by, clock, el, HERE, instant, name, number, rate, row, say, span, sum, visible,
} from "./dom.js";

/** @import { Counted, Tonight } from "./answers" */
/** @typedef {{ as_of: number, events: number }} Seen */

const SAMPLES = 30, LINES = 6, OLD_MS = 3_000;
const asked = new URLSearchParams(location.search);
/** @type {Map<string, Line>} */
const lines = new Map();
/** @type {Seen[]} */
let paced = [];
let pacedSince = 0, drawn = "", ahead = 0;
/** @type {any} */
let plot;

/** A row of the board. */
class Line {
  /** @param {string} key */
  constructor(key) {
    /** @type {Seen[]} */
    this.seen = [];
    this.fill = el("div", { class: "fill" });
    this.events = el("td", { class: "number", "data-events": "" });
    this.pace = el("td", { class: "number" });
    this.swatch = el("i", {});
    this.pin = el("button", { type: "button" }, el("span", { class: "unseen" }, `keep ${visible(key)} in view`), "+");
    this.pin.addEventListener("click", () => toggle(key));
    this.tr = el("tr", {}, el("th", { scope: "row" }, this.swatch, name(key)),
      el("td", { class: "track" }, this.fill), this.events, this.pace, el("td", {}, this.pin));
    this.tr.dataset.key = key;
  }
}

/** @type {() => void} */
let renewed = () => {};
const followed = () => asked.getAll("key");

/** @param {string} key */
function toggle(key) {
  const rest = followed().filter((each) => each !== key);
  if (rest.length === followed().length) rest.push(key);
  asked.delete("key");
  for (const each of rest) asked.append("key", each);
  store();
}

function store() {
  history.replaceState(null, "", `${location.pathname}?${asked}${location.hash}`);
  renewed();
}

/** @param {() => void} renew */
export function begin(renew) {
  const form = /** @type {HTMLFormElement} */ (by("range"));
  for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
    field.value = asked.get(field.name) ?? { range: "24h", zone: "UTC", by: "events" }[field.name] ?? "";
  const custom = () => form.classList.toggle("is-custom", value("range") === "custom");
  form.addEventListener("change", () => {
    for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
      if (field.value) asked.set(field.name, field.value);
      else asked.delete(field.name);
    custom();
    store();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  custom();
  const adding = /** @type {HTMLFormElement} */ (by("follow"));
  adding.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (adding.elements.namedItem("key"));
    if (input.value && !followed().includes(input.value)) toggle(input.value);
    input.value = "";
  });
  renewed = renew;
}

/** @param {string} field */
function value(field) {
  const form = /** @type {HTMLFormElement} */ (by("range"));
  return /** @type {HTMLInputElement} */ (form.elements.namedItem(field)).value;
}

/** The zone that is chosen, if it is one. */
function zone() {
  try {
    clock(0, value("zone"));
    return value("zone");
  } catch {
    return "UTC";
  }
}

function query() {
  const now = Date.now() + ahead, range = value("range");
  const found = new URLSearchParams({ by: value("by") });
  if (range === "window") found.set("since", "window");
  if (range === "1h" || range === "24h") found.set("since", `-${range}`);
  if (range === "today") found.set("since", String(instant(`${clock(now, zone()).slice(0, 10)}T00:00`, zone())));
  if (range === "custom")
    for (const side of ["since", "until"])
      if (value(side)) found.set(side, String(instant(value(side), zone())));
  for (const key of followed()) found.append("key", key);
  return found;
}

/** @param {Tonight} answer */
function draw(answer) {
  const { ranking } = answer;
  ahead = answer.now - Date.now();
  const bySum = value("by") === "sum";
  say(by("spans"), spans(answer));
  say(by("measure"), bySum ? "sum" : "events");
  if (ranking) {
    if (pacedSince !== answer.since) paced = [];
    pacedSince = answer.since;
    note(paced, ranking);
  }
  say(by("events"), ranking ? number(ranking.events) : "–");
  say(by("keys"), ranking ? number(ranking.keys) : "–");
  const pace = ranking ? paceOf(paced) : null;
  say(by("pace"), pace === null ? "–" : rate(pace));
  const old = ranking ? answer.now - ranking.as_of : 0;
  say(by("age"), old > OLD_MS ? `the largest keys, as of ${span(old)} ago` : "the largest keys");
  board(answer.counts, bySum);
  curve(answer, answer.counts.filter((one) => one.parts).slice(0, LINES));
  return words(answer);
}

/** @param {Tonight} answer */
function spans(answer) {
  const shown = (/** @type {string} */ where) =>
    `${clock(answer.since, where)} to ${clock(answer.until, where)} ${where}`;
  const zones = [...new Set(["UTC", zone(), HERE])];
  return `${zones.map(shown).join("; ")}. Current window: ${answer.window.id}, ${answer.window.state ?? "not made"}.`;
}

/** What is to be said of the numbers. @param {Tonight} answer */
function words(answer) {
  const missing = new Map(Object.entries(answer.missing));
  for (const each of answer.ranking?.missing ?? [])
    if (!missing.has(each)) missing.set(each, "not read in time");
  if (missing.size) {
    const named = [...missing].slice(0, 3).map(([id, why]) => `${id} (${why})`);
    if (missing.size > 3) named.push(`${missing.size - 3} more`);
    return `incomplete: ${named.join(", ")}; the rest is counted`;
  }
  if (answer.unranked) return `exact for followed keys; the largest are not known: ${answer.unranked}`;
  return "exact";
}

/** @param {Seen[]} seen @param {Seen} now */
function note(seen, now) {
  const before = seen.at(-1);
  if (before && before.as_of >= now.as_of) return;
  if (before && now.events < before.events) seen.length = 0;
  seen.push({ as_of: now.as_of, events: now.events });
  if (seen.length > SAMPLES) seen.shift();
}

/** Events a second over the last samples. @param {Seen[]} seen */
function paceOf(seen) {
  const first = seen[Math.max(0, seen.length - 8)], last = seen.at(-1);
  if (!first || !last || first === last) return null;
  return (1000 * (last.events - first.events)) / Math.max(1, last.as_of - first.as_of);
}

/** @param {Counted[]} counts @param {boolean} bySum */
function board(counts, bySum) {
  const size = (/** @type {Counted} */ one) => (bySum ? Number(one.sum) : one.events);
  counts.sort((a, b) => size(b) - size(a) || (a.key < b.key ? -1 : 1));
  const most = Math.max(1, ...counts.map((one) => Math.abs(size(one))));
  const body = by("board");
  const before = new Map([...lines.values()].map((line, at) => [line, at]));
  const gone = new Set(lines.keys());
  /** @type {[Line, string, number][]} */
  const ordered = [];
  for (const one of counts) {
    let line = lines.get(one.key);
    if (!line) line = new Line(one.key);
    gone.delete(one.key);
    if (one.complete) note(line.seen, one);
    const pace = paceOf(line.seen);
    say(line.events, (bySum ? sum(one.sum) : number(one.events)) + (one.complete ? "" : " or more"));
    say(line.pace, pace ? `+${rate(pace)}` : "");
    line.fill.style.transform = `scaleX(${Math.max(0, size(one)) / most})`;
    line.pin.setAttribute("aria-pressed", String(one.followed));
    line.tr.classList.toggle("followed", one.followed);
    ordered.push([line, one.key, before.get(line) ?? -1]);
  }
  for (const key of gone) {
    lines.get(key)?.tr.remove();
    lines.delete(key);
  }
  arrange(body, ordered);
}

/** Put rows in their order; those that have moved glide. @param {HTMLElement} body
 * @param {[Line, string, number][]} ordered
 */
function arrange(body, ordered) {
  if (!ordered.some(([line], at) => body.children[at] !== line.tr)) return;
  const glides = matchMedia("(prefers-reduced-motion: no-preference)").matches;
  const height = body.firstElementChild instanceof HTMLElement ? body.firstElementChild.offsetHeight : 0;
  const was = new Map([...body.children].map((tr, at) => [tr, at]));
  lines.clear();
  ordered.forEach(([line, key], at) => {
    lines.set(key, line);
    if (body.children[at] !== line.tr) body.insertBefore(line.tr, body.children[at] ?? null);
    const from = was.get(line.tr);
    if (glides && from !== undefined && from !== at)
      line.tr.animate([{ transform: `translateY(${(from - at) * height}px)` }, { transform: "none" }],
        { duration: 400, easing: "ease-out" });
  });
}

/** @param {Tonight} answer @param {Counted[]} shown */
function curve(answer, shown) {
  for (const [key, line] of lines)
    line.swatch.className = `line-${shown.findIndex((one) => one.key === key) + 1}`;
  const starts = [...new Set(shown.flatMap((one) => one.parts?.map(([start]) => start) ?? []))]
    .sort((a, b) => a - b);
  const last = Math.min(answer.until, answer.now);
  const columns = shown.map((one) => {
    const events = new Map(one.parts);
    return starts.map((start) => /** @type {number} */ (events.get(start) ?? 0));
  });
  const key = JSON.stringify([starts, columns, shown.map((one) => one.key), zone()]);
  if (key === drawn) return;
  drawn = key;
  const seconds = starts.map((start, at) => Math.max(1, ((starts[at + 1] ?? Math.max(last, start + 1)) - start) / 1000));
  const data = [
    [...starts, Math.max(last, (starts.at(-1) ?? 0) + 1)].map((start) => start / 1000),
    ...columns.map((column) => {
      const rates = column.map((events, at) => events / (seconds[at] ?? 1));
      return [...rates, rates.at(-1) ?? 0];
    }),
  ];
  draught(data, shown.map((one) => one.key));
  if (by("curve-rows").closest("details")?.open) tabulate(starts, columns, shown);
  else curveTable = () => tabulate(starts, columns, shown);
}

/** @type {(() => void) | undefined} */
let curveTable;
by("curve-rows").closest("details")?.addEventListener("toggle", () => curveTable?.());

/** @param {number[]} starts @param {number[][]} columns @param {Counted[]} shown */
function tabulate(starts, columns, shown) {
  curveTable = undefined;
  by("curve-head").replaceChildren(el("tr", {}, el("th", { scope: "col" }, `from (${zone()})`),
    ...shown.map((one) => el("th", { scope: "col" }, name(one.key)))));
  by("curve-rows").replaceChildren(...starts.map((start, at) =>
    row([clock(start, zone()), ...columns.map((column) => column[at] ?? 0)])));
}

/** Draw the curve. @param {number[][]} data @param {string[]} keys */
function draught(data, keys) {
  const at = by("curve"), UPlot = /** @type {any} */ (globalThis).uPlot, where = zone();
  const style = getComputedStyle(document.documentElement);
  const colour = (/** @type {string} */ of) => style.getPropertyValue(of);
  const like = String([keys.length, at.clientWidth, where, colour("--ink")]);
  if (plot?.like === like) {
    plot.setData(data);
    return;
  }
  plot?.destroy();
  plot = undefined;
  if (!keys.length || !UPlot) return;
  const axis = { stroke: colour("--ink"), grid: { stroke: colour("--line"), width: 1 } };
  plot = new UPlot({
    width: at.clientWidth,
    height: 260,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (/** @type {any} */ _, /** @type {any} */ __, /** @type {number} */ most) => [0, most || 1] } },
    axes: [{ ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((s) => shortly(s * 1000, where)) },
      { ...axis, size: 60, label: "events a second" }],
    series: [{}, ...keys.map((_, line) => ({ stroke: colour(`--line-${line + 1}`), width: 2,
      paths: UPlot.paths.stepped({ align: 1 }), points: { show: false } }))],
  }, data, at);
  plot.like = like;
}

/** The time of day, or at midnight the date. @param {number} ms @param {string} where */
function shortly(ms, where) {
  const [day = "", time = ""] = clock(ms, where).split(" ");
  return time === "00:00:00" ? day.slice(5) : time.endsWith(":00") ? time.slice(0, 5) : time;
}

/** @param {import("./answers").Health} answer */
function waiting(answer) {
  const queue = answer.status.queue;
  say(by("waiting"), queue ? number(queue.visible + queue.in_flight + queue.delayed) : "–");
}

/** @type {import("./app.js").Need[]} */
export const needs = [
  { path: "tonight", every: 1_000, query, draw },
  { path: "health", every: 15_000, draw: waiting },
];
