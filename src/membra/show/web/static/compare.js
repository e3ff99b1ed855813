// Two photographs at one letter height, moved together or apart; matched letters; verdicts by key.
import { letterOf } from "./keys.js";
import { fillScreen, tieTogether } from "./tied.js";
import { Viewer, choosable, indices, tools } from "./viewer.js";

const pair = [...document.querySelectorAll("[data-viewer]")];
const both = document.querySelector("[data-both]");
const links = [...document.querySelectorAll(".match")];
let choose = null;

if (pair.length === 2 && window.OpenSeadragon) {
  const viewers = pair.map((element) => new Viewer(element));
  await Promise.all(viewers.map((viewer) => viewer.ready));
  both.hidden = false;
  const tied = both.querySelector('[data-do="tied"]');
  const all = both.querySelector('[data-do="all"]');
  const { home } = tieTogether(viewers, tied);
  for (const viewer of viewers) {
    tools(viewer, document.querySelector(`[data-tools="${viewer.element.dataset.viewer}"]`), () => (tied.checked ? home() : viewer.show(viewer.fitting, viewer.middle)));
  }
  fillScreen(both.querySelector('[data-do="fill"]'), document.querySelector(".desk"), home);
  all.addEventListener("change", () => viewers.forEach((viewer) => viewer.all(all.checked)));
  choose = choosable(links, (link) => viewers.forEach((viewer, at) => viewer.light(indices(at ? link?.dataset.b : link?.dataset.a))));
  home();
  pair.forEach((element) => { element.dataset.ready = "true"; });
  window.membra = { viewers, home };
}

// Keys: J H U N decide, left and right go to the candidates before and after, up and down through the matches.
const keys = both?.querySelector('[data-do="keys"]');
try { if (keys && localStorage.getItem("membra:keys") === "off") keys.checked = false; } catch { /* nothing is kept */ }
keys?.addEventListener("change", () => { try { localStorage.setItem("membra:keys", keys.checked ? "on" : "off"); } catch { /* nothing is kept */ } });

// htmx drops what is asked of a form that it is about to replace, and leaving the page would end what is under way: keys
// pressed meanwhile wait, in their order, until the answer stands. Once the page is being left, keys are dropped: until
// the next page is there, whoever presses one may mean its pair, and it would decide this one.
let busy = false, leaving = false;
const waiting = [];
const next = () => { while (!busy && !leaving && waiting.length) waiting.shift()(); };
const soon = (act) => { if (!leaving) { waiting.push(act); next(); } };
const free = () => { busy = false; next(); };
const leave = () => { leaving = true; waiting.length = 0; };
document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.closest("#verdict")) busy = true; });
document.addEventListener("htmx:afterSettle", free);
document.addEventListener("htmx:afterRequest", (event) => { if (!event.detail.successful) free(); });
document.addEventListener("click", (event) => {
  const elsewhere = event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey;  // in another tab
  if (event.target.closest(".walk a") && !elsewhere) leave();
});
// Without htmx a verdict replaces the page.
document.addEventListener("submit", (event) => { if (event.target.closest("#verdict") && !event.defaultPrevented) leave(); });
addEventListener("pageshow", (event) => { if (event.persisted) busy = leaving = false; });  // brought back as it was left
const answer = (key) => document.querySelector(`#verdict button[data-key="${CSS.escape(key)}"]`);
const decide = (key) => {
  const button = answer(key), name = button.form.elements.by;
  if (!name.value.trim()) { name.focus(); name.reportValidity(); return; }
  busy = Boolean(window.htmx);  // htmx begins a moment after the click
  button.click();
};

addEventListener("keydown", (event) => {
  if ((keys && !keys.checked) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  const key = letterOf(event);
  if (answer(key)) {
    event.preventDefault();
    if (!event.repeat) soon(() => decide(key));  // a key that is still held may have been meant for the pair before
    return;
  }
  if (event.target.closest(".osd")) return;  // there arrows move the photograph
  const rtl = document.documentElement.dir === "rtl";
  const rel = { ArrowLeft: rtl ? "next" : "prev", ArrowRight: rtl ? "prev" : "next" }[event.key];
  const way = rel && document.querySelector(`.walk a[rel=${rel}]`);
  if (way) { event.preventDefault(); soon(() => way.click()); return; }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && choose && links.length) {
    event.preventDefault();
    const at = links.findIndex((link) => link.hasAttribute("aria-current"));
    const there = links[Math.min(Math.max(at + step, 0), links.length - 1)];
    if (!there.hasAttribute("aria-current")) choose(there);
    there.scrollIntoView({ block: "nearest" });
  }
});
