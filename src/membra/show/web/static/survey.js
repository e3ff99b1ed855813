// Up to nine photographs at one letter height under one zoom.
import { fillScreen, tieTogether } from "./tied.js";
import { Viewer } from "./viewer.js";

const elements = [...document.querySelectorAll("[data-viewer]")];
const bar = document.querySelector("[data-both]");
const find = (name) => bar.querySelector(`[data-do="${name}"]`);

if (elements.length && window.OpenSeadragon) {
  const viewers = elements.map((element) => new Viewer(element));
  await Promise.all(viewers.map((viewer) => viewer.ready));
  bar.hidden = false;
  const { home, lead } = tieTogether(viewers, find("tied"));
  const zoom = (by) => {
    lead(viewers[0]);
    for (const viewer of find("tied").checked ? viewers.slice(0, 1) : viewers) { viewer.osd.viewport.zoomBy(by); viewer.osd.viewport.applyConstraints(); }
  };
  find("in").addEventListener("click", () => zoom(1.4));
  find("out").addEventListener("click", () => zoom(1 / 1.4));
  find("home").addEventListener("click", home);
  find("all").addEventListener("change", () => viewers.forEach((viewer) => viewer.all(find("all").checked)));
  // A page that is all photographs must still scroll under a finger: there they move only when asked to.
  const fingers = find("fingers");
  const touch = () => {
    const moved = fingers.checked || !matchMedia("(pointer: coarse)").matches;
    for (const viewer of viewers) {
      viewer.osd.setMouseNavEnabled(moved);
      viewer.element.classList.toggle("still", !moved);
    }
  };
  fingers.addEventListener("change", touch);
  fillScreen(find("fill"), document.querySelector(".surveyed"), home);
  touch();
  home();
  elements.forEach((element) => { element.dataset.ready = "true"; });
  window.membra = { viewers, home };
}

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, .osd")) return;
  const rtl = document.documentElement.dir === "rtl";
  const rel = { ArrowLeft: rtl ? "next" : "prev", ArrowRight: rtl ? "prev" : "next" }[event.key];
  const way = rel && document.querySelector(`.pager a[rel=${rel}]`);
  if (way) { event.preventDefault(); way.click(); }
});
