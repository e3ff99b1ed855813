// One photograph: deep zoom by OpenSeadragon, and over it the letters' boxes in the photograph's own pixels.
import { letterOf } from "./keys.js";

const TILE = 512;
const SVG = "http://www.w3.org/2000/svg";

// OpenSeadragon adds a style of its own that hides the focus, unless one of this name is there. Ours stays visible, and
// an element that is a style only by name breaks no policy.
const instead = document.createElementNS("urn:membra", "style");
instead.setAttribute("data-openseadragon-mobile-css", "");
document.head.append(instead);

// Degrees from -180 up to 180.
const within = (degrees) => ((((degrees + 180) % 360) + 360) % 360) - 180;

export class Viewer {
  constructor(element) {
    this.element = element;
    this.shown = JSON.parse(element.dataset.shown);
    this.kept = `membra:${location.host}:${this.shown.id || this.shown.upload}`;
    this.upright = this.shown.angle;  // degrees clockwise that set the writing upright; what a person turns comes on top
    const stage = document.createElement("div");
    stage.className = "osd";
    element.append(stage);
    this.osd = OpenSeadragon({
      element: stage,
      tileSources: [this.source()],
      drawer: "canvas",
      showNavigationControl: false,
      animationTime: 0.4,
      minZoomImageRatio: 0.4,
      maxZoomPixelRatio: 8,
      visibilityRatio: 0.2,
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true },
      gestureSettingsTouch: { pinchRotate: false },
      degrees: this.upright + this.remembered(),
    });
    stage.querySelector(".openseadragon-canvas")?.setAttribute("aria-label", element.querySelector("svg").getAttribute("aria-label"));
    stage.querySelector(".openseadragon-canvas")?.setAttribute("role", "application");
    // OpenSeadragon's own keys: F would mirror the photograph, and a mirrored letter is no letter; R turns as our buttons do.
    this.osd.addHandler("canvas-key", (event) => {
      const { shiftKey, ctrlKey, altKey, metaKey } = event.originalEvent, key = letterOf(event.originalEvent);
      if (!["f", "r"].includes(key) || ctrlKey || altKey || metaKey) return;
      event.preventDefaultAction = true;
      if (key === "r") { this.turn += shiftKey ? -90 : 90; this.turned?.(); }
    });
    this.draw();
    for (const event of ["update-viewport", "open", "resize", "rotate", "animation"]) this.osd.addHandler(event, () => this.place());
    this.ready = new Promise((resolve) => this.osd.addOnceHandler("open", () => { element.classList.add("live"); resolve(); }));
    this.osd.addHandler("open", () => {
      this.osd.world.getItemAt(0).addHandler("fully-loaded-change", (event) => { element.dataset.loaded = event.fullyLoaded; });
    });
  }

  source() {
    const { id, upload, v, width, height, least, most } = this.shown;
    const whose = upload ? `upload=${encodeURIComponent(upload)}` : `id=${encodeURIComponent(id)}`;
    return {
      width, height, tileSize: TILE, minLevel: least, maxLevel: most,
      hasTransparency: () => false,  // whatever is called .png here: clearing below a tile leaves seams once it is turned
      getTileUrl: (level, x, y) => `/image/tile?${whose}&v=${v}&level=${level}&x=${x}&y=${y}`,
    };
  }

  draw() {
    this.overlay = document.createElementNS(SVG, "svg");
    this.overlay.setAttribute("class", "overlay");
    this.overlay.setAttribute("aria-hidden", "true");
    this.pixels = document.createElementNS(SVG, "g");  // in the photograph's own pixels
    this.outlined();
    // Letters' frames run along the lines of writing; this is the way back from there to the photograph.
    const [a, b, c, d, e, f] = this.shown.view;
    this.boxes = document.createElementNS(SVG, "g");
    this.boxes.setAttribute("transform", `matrix(${[a, c, b, d, -(a * e + b * f), -(c * e + d * f)].join(" ")})`);
    for (const [x, y, width, height] of this.shown.frames) {
      const box = document.createElementNS(SVG, "rect");
      for (const [name, value] of Object.entries({ x, y, width, height })) box.setAttribute(name, value);
      this.boxes.append(box);
    }
    this.pixels.append(this.boxes);
    this.overlay.append(this.pixels);
    this.element.append(this.overlay);
  }

  // The edge of the writing surface; of several pieces the others are dimmed.
  outlined() {
    const { outline, piece, width, height } = this.shown;
    this.outline = document.createElementNS(SVG, "g");
    this.outline.setAttribute("class", "outline");
    this.outline.toggleAttribute("hidden", !piece);
    const path = (className, d) => {
      const made = document.createElementNS(SVG, "path");
      made.setAttribute("class", className);
      made.setAttribute("d", d);
      this.outline.append(made);
    };
    if (!outline.length) return;
    const line = `M${outline.map((point) => point.join(",")).join(" ")}Z`;
    if (piece) path("shade", `M0 0H${width}V${height}H0Z ${line}`);
    path("edge", line);
    this.pixels.append(this.outline);
  }

  // The photograph's pixels as the screen shows them now: three corners tell scale, turn and place.
  place() {
    const item = this.osd.world.getItemAt(0);
    if (!item) return;
    const on = (x, y) => this.osd.viewport.viewportToViewerElementCoordinates(item.imageToViewportCoordinates(x, y, true));
    const zero = on(0, 0), right = on(1000, 0), down = on(0, 1000);
    const matrix = [right.x - zero.x, right.y - zero.y, down.x - zero.x, down.y - zero.y].map((value) => value / 1000);
    this.pixels.setAttribute("transform", `matrix(${matrix.join(" ")} ${zero.x} ${zero.y})`);
    this.overlay.classList.toggle("small", this.shown.letter * Math.hypot(matrix[0], matrix[1]) < 26);
  }

  light(letters) {
    const lit = new Set(letters);
    [...this.boxes.children].forEach((box, at) => box.classList.toggle("lit", lit.has(at)));
  }

  all(on) {
    for (const box of this.boxes.children) box.classList.toggle("all", on);
  }

  // Screen pixels for one pixel of the photograph.
  get scale() {
    return this.osd.world.getItemAt(0).viewportToImageZoom(this.osd.viewport.getZoom(true));
  }

  // How far the fragment reaches along the screen's axes, and its middle, in the photograph's pixels; all of the
  // photograph where its outline was not seen.
  get extent() {
    const { outline, width, height } = this.shown;
    const points = outline.length ? outline : [[0, 0], [width, 0], [0, height], [width, height]];
    const turn = (this.rotation * Math.PI) / 180, cos = Math.cos(turn), sin = Math.sin(turn);
    const across = points.map(([x, y]) => x * cos - y * sin), down = points.map(([x, y]) => x * sin + y * cos);
    const [left, right, top, bottom] = [Math.min(...across), Math.max(...across), Math.min(...down), Math.max(...down)];
    const u = (left + right) / 2, v = (top + bottom) / 2;
    return { width: right - left, height: bottom - top, middle: { x: u * cos + v * sin, y: v * cos - u * sin } };
  }

  get fitting() {
    const size = this.osd.viewport.getContainerSize(), { width, height } = this.extent;
    return 0.97 * Math.min(size.x / width, size.y / height);
  }

  get centre() {
    return this.osd.world.getItemAt(0).viewportToImageCoordinates(this.osd.viewport.getCenter(true));
  }

  show(scale, centre, immediately = true) {
    const item = this.osd.world.getItemAt(0);
    this.osd.viewport.zoomTo(item.imageToViewportZoom(scale), null, immediately);
    this.osd.viewport.panTo(item.imageToViewportCoordinates(centre.x, centre.y), immediately);
    this.osd.forceRedraw();
  }

  get middle() {
    return this.extent.middle;
  }

  // Of the photograph on the screen, clockwise; and what of it a person turned beyond upright.
  get rotation() {
    return this.osd.viewport.getRotation();
  }

  get turn() {
    return within(this.rotation - this.upright);
  }

  set turn(degrees) {
    this.osd.viewport.setRotation(this.upright + within(degrees), true);
    try { localStorage.setItem(`${this.kept}:turned`, within(degrees)); } catch { /* private windows keep nothing */ }
  }

  remembered() {
    try { return Number(localStorage.getItem(`${this.kept}:turned`)) || 0; } catch { return 0; }
  }

  adjust(brightness, contrast) {
    this.osd.canvas.style.filter = `brightness(${brightness}%) contrast(${contrast}%)`;
  }
}

// The buttons below a photograph. `home` is what "whole" means on this page.
export function tools(viewer, element, home) {
  if (!element) return;
  element.hidden = false;
  const find = (name) => element.querySelector(`[data-do="${name}"]`);
  const range = { turn: find("turn"), brightness: find("brightness"), contrast: find("contrast") };
  const turned = viewer.turned = () => { if (range.turn) range.turn.value = viewer.turn; };
  const zoom = (by) => { viewer.osd.viewport.zoomBy(by); viewer.osd.viewport.applyConstraints(); };
  const acts = {
    in: () => zoom(1.4), out: () => zoom(1 / 1.4), home,
    left: () => { viewer.turn -= 90; turned(); }, right: () => { viewer.turn += 90; turned(); },
  };
  for (const [name, act] of Object.entries(acts)) find(name)?.addEventListener("click", act);
  range.turn?.addEventListener("input", () => { viewer.turn = Number(range.turn.value); });
  const adjust = () => viewer.adjust(range.brightness.value, range.contrast.value);
  range.brightness?.addEventListener("input", adjust);
  range.contrast?.addEventListener("input", adjust);
  turned();
}

// Links of which one can be chosen and each can be pointed at; `lit` is told the one to light up, or nothing.
export function choosable(links, lit) {
  let chosen = links.find((link) => link.hasAttribute("aria-current"));
  const choose = (link) => {
    chosen?.removeAttribute("aria-current");
    chosen = link === chosen ? undefined : link;
    chosen?.setAttribute("aria-current", "true");
    lit(chosen);
    const address = new URL(location);
    const word = chosen ? new URL(chosen.href).searchParams.get("word") : null;
    if (word === null) address.searchParams.delete("word"); else address.searchParams.set("word", word);
    history.replaceState(null, "", address);
  };
  for (const link of links) {
    link.addEventListener("click", (event) => { event.preventDefault(); choose(link); });
    for (const event of ["mouseenter", "focus"]) link.addEventListener(event, () => lit(link));
    for (const event of ["mouseleave", "blur"]) link.addEventListener(event, () => lit(chosen));
  }
  lit(chosen);
  const list = chosen?.closest("ol");  // an address that names one shows it, without moving the page
  if (list) list.scrollTop += chosen.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 3;
  return choose;
}

export const indices = (text) => (text ? text.split(",").map(Number) : []);
