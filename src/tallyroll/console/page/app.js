// @ts-check
// Which view is shown, when it asks for what, and what is said of the answers; and Tonight.
import {
  ask, both, by, clock, el, HERE, instant, name, number, rate, redraw, say, span, sum, table, visible,
} from "./dom.js";
import { begin, views as others } from "./views.js";

/** @import { Counted, Tonight } from "./answers" */

/**
 * @typedef {object} Need an answer that a view is drawn from
 * @property {string} path
 * @property {number} every ms
 * @property {() => URLSearchParams} [query]
 * @property {(answer: any) => string | void} draw gives what is to be said of it
 * @property {Promise<any>} [asking] one at a time
 * @property {string} [said]
 * @property {number} [good] when it was answered last
 */
/** @typedef {{ needs: Need[], shown?: (detail: string) => void }} View */

const WAIT_MS = 1_000, WAIT_MAX_MS = 60_000;

/** Counts what is asked for; older questions end. */
let round = 0;

function current() {
  const [view = "", detail = ""] = location.hash.slice(1).split("/");
  return { view: view in views ? view : "tonight", detail };
}

function show() {
  const { view, detail } = current();
  for (const [name] of Object.entries(views)) by(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a"))
    if (link.getAttribute("href") === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  document.title = `${by(view).querySelector("h2")?.textContent} – Tallyroll`;
  views[view]?.shown?.(detail);
  renew();
}

const needed = () => views[current().view]?.needs ?? [];

/** Ask at once for what the view needs. */
function renew() {
  round += 1;
  for (const need of needed()) {
    need.said = "asking";
    void keep(need, round);
  }
  tell();
}

/** Ask for it again and again; while it fails, ever less. @param {Need} need @param {number} of */
async function keep(need, of) {
  for (let failures = 0; ;) {
    await need.asking?.catch(() => null);
    if (of !== round || document.hidden) return;
    const began = Date.now();
    let due = began + need.every;
    try {
      need.asking = ask(need.path, need.query?.());
      const answer = await need.asking;
      if (of !== round) return;
      failures = 0;
      need.said = need.draw(answer) ?? "";
      need.good = Date.now();
      say(by("pipeline"), answer.pipeline);
      say(by("cost"), `This page takes ${rate(answer.read_units_a_minute)} read units a minute.`);
    } catch (/** @type {any} */ error) {
      if (of !== round) return;
      failures += 1;
      const wait = Math.min(WAIT_MAX_MS, WAIT_MS * 2 ** failures);
      due = Date.now() + wait;
      const since = need.good ? ` since ${both(need.good).slice(11)}` : "";
      const none = error.body?.status < 500 ? "" : `no answer of ${need.path}${since}: `;
      need.said = `${none}${error.message}; asking again in ${wait / 1000} s`;
    }
    tell();
    await new Promise((resolve) => setTimeout(resolve, Math.max(100, due - Date.now())));
  }
}

/** Say how the view's answers are, and when the first of them came last. */
function tell() {
  const needs = needed(), good = needs[0]?.good;
  const said = [...new Set(needs.map((need) => need.said))].filter(Boolean).join("; ");
  const text = document.hidden ? "paused" : said || (needs.length ? "up to date" : "ready");
  say(by("status"), text);
  by("status").className = /^(exact|up|ask|ready)[^;]*$/.test(text) ? "good" : "poor";
  by("last").setAttribute("datetime", good ? new Date(good).toISOString() : "");
  say(by("last"), good ? both(good) : "");
}

// Tonight: the largest keys and those that are followed

/** @typedef {{ as_of: number, events: number }} Seen */

const SAMPLES = 30, LINES = 6, OLD_MS = 3_000;
const asked = new URLSearchParams(location.search);
/** @type {Map<string, Line>} */
const lines = new Map();
/** @type {Seen[]} */
let paced = [];
let pacedOver = "", drawn = "", ahead = 0;
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
  renew();
}

function beginTonight() {
  const form = /** @type {HTMLFormElement} */ (by("range"));
  for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
    field.value = asked.get(field.name) ?? { range: "24h", zone: "UTC", by: "events" }[field.name] ?? "";
  form.addEventListener("change", () => {
    for (const field of /** @type {Iterable<HTMLInputElement>} */ (form.elements))
      if (field.value) asked.set(field.name, field.value);
      else asked.delete(field.name);
    store();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  by("table").addEventListener("toggle", () => (drawn = ""));
  const adding = /** @type {HTMLFormElement} */ (by("follow"));
  adding.addEventListener("submit", (event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (adding.elements.namedItem("key"));
    if (input.value && !followed().includes(input.value)) toggle(input.value);
    input.value = "";
  });
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
  const hours = /** @type {Record<string, number>} */ ({ window: 0, "1h": 1, "24h": 24 })[range];
  if (hours !== undefined) found.set("since", String(now - hours * 3_600_000));
  if (range === "today") found.set("since", String(instant(`${clock(now, zone()).slice(0, 10)}T00:00`, zone())));
  if (range === "custom")
    for (const side of ["since", "until"])
      if (value(side)) found.set(side, String(instant(value(side), zone())));
  for (const key of followed()) found.append("key", key);
  return found;
}

/** @param {Tonight} answer */
function drawTonight(answer) {
  const { ranking } = answer;
  ahead = answer.now - Date.now();
  const bySum = value("by") === "sum";
  say(by("spans"), spans(answer));
  say(by("measure"), bySum ? "sum" : "events");
  if (ranking) {
    const range = `${answer.since} ${answer.until} ${bySum}`;
    if (pacedOver !== range)
      for (const seen of [paced, ...[...lines.values()].map((line) => line.seen)]) seen.length = 0;
    pacedOver = range;
    if (ranking.complete) note(paced, ranking);
  }
  say(by("events"), number(ranking?.events ?? NaN));
  say(by("keys"), number(ranking?.keys ?? NaN));
  say(by("pace"), rate((ranking && paceOf(paced)) ?? NaN));
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
  return `${zones.map(shown).join("; ")}. Current window: ${answer.window}, ${answer.state}.`;
}

/** What is to be said of the numbers. @param {Tonight} answer */
function words(answer) {
  const missing = Object.entries(answer.missing);
  if (!missing.length) return "exact";
  const named = missing.slice(0, 3).map(([id, why]) => `${id} (${why})`);
  if (missing.length > 3) named.push(`${missing.length - 3} more`);
  return `incomplete: ${named.join(", ")}; the rest is counted`;
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
    say(line.events, (bySum ? sum(one.sum) : number(one.events)) + (one.complete ? "" : bySum ? " incomplete" : " or more"));
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
  const focused = document.activeElement;
  lines.clear();
  ordered.forEach(([line, key], at) => {
    lines.set(key, line);
    if (body.children[at] !== line.tr) body.insertBefore(line.tr, body.children[at] ?? null);
    const from = was.get(line.tr);
    if (glides && from !== undefined && from !== at)
      line.tr.animate([{ transform: `translateY(${(from - at) * height}px)` }, { transform: "none" }],
        { duration: 400, easing: "ease-out" });
  });
  if (focused instanceof HTMLElement && body.contains(focused)) focused.focus({ preventScroll: true });
}

/** @param {Tonight} answer @param {Counted[]} shown */
function curve(answer, shown) {
  for (const [key, line] of lines)
    line.swatch.style.background = `var(--line-${shown.findIndex((one) => one.key === key) + 1})`;
  const starts = [...new Set(shown.flatMap((one) => one.parts?.map(([start]) => start) ?? []))]
    .sort((a, b) => a - b);
  const last = Math.min(answer.until, answer.now);
  const columns = shown.map((one) => {
    const events = new Map(one.parts);
    return starts.map((start) => (events.has(start) ? events.get(start) ?? null : 0));
  });
  const key = JSON.stringify([starts, columns, shown.map((one) => one.key), zone()]);
  if (key === drawn) return;
  drawn = key;
  const seconds = starts.map((start, at) => Math.max(1, ((starts[at + 1] ?? Math.max(last, start + 1)) - start) / 1000));
  const data = [
    [...starts, Math.max(last, (starts.at(-1) ?? 0) + 1)].map((start) => start / 1000),
    ...columns.map((column) => {
      const rates = column.map((events, at) => events && events / (seconds[at] ?? 1));
      return [...rates, rates.findLast((rate) => rate !== null) ?? 0]; // or the line ends before a gap
    }),
  ];
  draught(data, shown.map((one) => one.key));
  if (/** @type {HTMLDetailsElement} */ (by("table")).open)
    redraw(by("rows"), table("events by window, or by day and month where they are summed up",
      [`from (${zone()})`, ...shown.map((one) => visible(one.key))], starts.map((start, at) =>
        [clock(start, zone()), ...columns.map((column) => column[at] ?? "not read")])));
}

/** Draw the curve, with gaps. @param {(number | null)[][]} data @param {string[]} keys */
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
      { ...axis, size: 60, label: "events a second", values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(rate) }],
    series: [{}, ...keys.map((_, line) => ({ stroke: colour(`--line-${line + 1}`), width: 2,
      paths: UPlot.paths.stepped({ align: 1, alignGaps: 1 }), points: { show: false } }))],
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
  say(by("waiting"), number(queue ? queue.visible + queue.in_flight + queue.delayed : NaN));
}

/** @type {View} */
const tonight = {
  needs: [
    { path: "tonight", every: 1_000, query, draw: drawTonight },
    { path: "health", every: 15_000, draw: waiting },
  ],
};

/** @type {Record<string, View>} */
const views = { tonight, ...others };
document.addEventListener("visibilitychange", renew);
addEventListener("hashchange", show);
beginTonight();
begin();
for (const zone of ["UTC", ...Intl.supportedValuesOf("timeZone")])
  by("zones").append(el("option", { value: zone }));
show();
