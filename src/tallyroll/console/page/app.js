// @ts-check
// Which view is shown, when it asks for what, and what is said of the answers.
import { ask, both, by, el, Problem, rate, say } from "./dom.js";
import * as tonight from "./tonight.js";
import { begin, views as others } from "./views.js";

/**
 * @typedef {object} Need an answer that a view is drawn from
 * @property {string} path
 * @property {number} every ms
 * @property {() => URLSearchParams} [query]
 * @property {(answer: any) => string | void} draw gives what is to be said of it
 */
/** @typedef {{ needs: Need[], shown?: (detail: string) => void }} View */

/** @type {Record<string, View>} */
const views = { tonight, ...others };
const PROBE_MS = 5_000, WAIT_MS = 1_000, WAIT_MAX_MS = 60_000;

/** @type {Map<Need, number>} when each was answered */
const answered = new Map();
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
let asking = false, again = false, failures = 0, last = 0, said = "";

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
  said = "";
  renew();
}

/** Ask at once for what the view needs. */
export function renew() {
  answered.clear();
  failures = 0;
  if (asking) again = true;
  else void look();
}

async function look() {
  clearTimeout(timer);
  if (document.hidden) {
    tell("paused");
    return;
  }
  asking = true;
  again = false;
  const { view } = current();
  const needs = views[view]?.needs ?? [];
  for (const need of needs)
    if (!document.hidden && !again && Date.now() - (answered.get(need) ?? 0) >= need.every - 50)
      if (!(await answer(need))) break;
  asking = false;
  if (!needs.length) tell("ready");
  if (again) void look();
  else timer = setTimeout(look, failures ? wait() : next(needs));
}

const wait = () => Math.min(WAIT_MAX_MS, WAIT_MS * 2 ** failures);

/** @param {Need[]} needs */
function next(needs) {
  const due = needs.map((need) => (answered.get(need) ?? 0) + need.every - Date.now());
  return Math.max(100, Math.min(PROBE_MS, ...due));
}

/** Whether it was answered. @param {Need} need */
async function answer(need) {
  const began = Date.now();
  try {
    const answer = await ask(need.path, need.query?.());
    if (again) return false; // the view or its range is another one now
    answered.set(need, began);
    failures = 0;
    draw(need, answer);
    return true;
  } catch (error) {
    if (error instanceof Problem && error.body.status < 500) {
      answered.set(need, began);
      tell(error.message);
      return true;
    }
    failures += 1;
    const since = last ? ` since ${both(last).slice(11)}` : "";
    const why = error instanceof Problem ? `: ${error.message}` : "";
    tell(`no answer${since}${why}; asking again in ${wait() / 1000} s`);
    return false;
  }
}

/** @param {Need} need @param {import("./answers").Told} answer */
function draw(need, answer) {
  performance.clearMarks();
  performance.clearMeasures();
  performance.mark("tallyroll:begin");
  const words = need.draw(answer);
  if (words !== undefined) said = words;
  last = Date.now();
  tell(said || "up to date");
  const at = /** @type {HTMLTimeElement} */ (by("last"));
  at.dateTime = new Date(last).toISOString();
  say(at, both(last));
  say(by("pipeline"), answer.pipeline);
  say(by("cost"), `This page takes ${rate(answer.read_units_a_minute)} read units a minute.`);
  void document.body.offsetHeight; // what is measured includes the layout
  performance.measure("tallyroll:update", "tallyroll:begin");
  performance.mark("tallyroll:drawn", { detail: { as_of: answer.as_of, path: need.path } });
}

/** @param {string} text */
function tell(text) {
  say(by("status"), text);
  by("status").className = /^(exact|up|ask|ready)/.test(text) ? "good" : "poor";
}

document.addEventListener("visibilitychange", () => (document.hidden ? look() : renew()));
addEventListener("hashchange", show);
tonight.begin(renew);
begin();
for (const zone of ["UTC", ...Intl.supportedValuesOf("timeZone")])
  by("zones").append(el("option", { value: zone }));
show();
