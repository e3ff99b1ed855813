// A fragment's page: its letters marked, and those of a word when one points at it.
import { Viewer, choosable, indices, tools } from "./viewer.js";

const element = document.querySelector("[data-viewer]");
if (element && window.OpenSeadragon) {
  const viewer = new Viewer(element);
  await viewer.ready;
  const bar = document.querySelector("[data-tools]");
  tools(viewer, bar, () => viewer.show(viewer.fitting, viewer.middle, false));
  const all = bar.querySelector('[data-do="all"]');
  all.addEventListener("change", () => viewer.all(all.checked));
  viewer.all(all.checked);
  const outline = bar.querySelector('[data-do="outline"]');
  outline?.addEventListener("change", () => viewer.outline.toggleAttribute("hidden", !outline.checked));
  viewer.show(viewer.fitting, viewer.middle);
  choosable([...document.querySelectorAll(".word")], (link) => viewer.light(indices(link?.dataset.letters)));
  element.dataset.ready = "true";
  window.membra = { viewers: [viewer] };
}
