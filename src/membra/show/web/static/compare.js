// Two photographs at one letter height, moved together or apart; matched letters; verdicts by key.
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
  const height = (viewer) => viewer.shown.letter || 1;
  const other = (viewer) => viewers[1 - viewers.indexOf(viewer)];
  // Where the two stand when they are tied; from there both move by as many letters.
  let anchors = null;
  const tie = () => { anchors = new Map(viewers.map((viewer) => [viewer, viewer.centre])); };
  // Both whole, with letters of one height: the one that needs more room decides.
  const home = () => {
    const letter = Math.min(...viewers.map((viewer) => viewer.fitting * height(viewer)));
    anchors = null;
    for (const viewer of viewers) viewer.show(letter / height(viewer), viewer.middle);
    tie();
  };
  // Only the one that a hand is on leads; what the other does, it was made to do.
  let leader = viewers[0];
  const follow = (viewer) => {
    if (!tied.checked || !anchors || viewer !== leader) return;
    const follower = other(leader), ratio = height(follower) / height(leader);
    const turn = ((leader.rotation - follower.rotation) * Math.PI) / 180;
    const from = anchors.get(leader), to = anchors.get(follower), now = leader.centre;
    const dx = (now.x - from.x) * ratio, dy = (now.y - from.y) * ratio;
    const centre = { x: to.x + dx * Math.cos(turn) - dy * Math.sin(turn), y: to.y + dx * Math.sin(turn) + dy * Math.cos(turn) };
    follower.show(leader.scale / ratio, centre);
  };
  for (const viewer of viewers) {
    viewer.osd.addHandler("viewport-change", () => follow(viewer));
    const lead = () => { if (leader !== viewer) { leader = viewer; tie(); } };
    for (const event of ["pointerenter", "pointerdown", "wheel", "focusin"]) viewer.element.closest(".side").addEventListener(event, lead, { capture: true, passive: true });
    tools(viewer, document.querySelector(`[data-tools="${viewer.element.dataset.viewer}"]`), () => (tied.checked ? home() : viewer.show(viewer.fitting, viewer.middle)));
    // A turn is no movement: both stay where they are, and are tied anew.
    viewer.osd.addHandler("rotate", tie);
  }
  tied.addEventListener("change", () => { tie(); if (tied.checked) follow(leader); });
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
// pressed meanwhile wait, in their order, until the answer stands.
let busy = false;
const waiting = [];
const next = () => { while (!busy && waiting.length) waiting.shift()(); };
const soon = (act) => { waiting.push(act); next(); };
const free = () => { busy = false; next(); };
document.addEventListener("htmx:beforeRequest", (event) => { if (event.target.closest("#verdict")) busy = true; });
document.addEventListener("htmx:afterSettle", free);
document.addEventListener("htmx:afterRequest", (event) => { if (!event.detail.successful) free(); });
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
  const key = event.key.toLowerCase();
  if (answer(key)) { event.preventDefault(); soon(() => decide(key)); return; }
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
