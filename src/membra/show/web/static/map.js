// The map: tens of thousands of points on one canvas; thumbnails where few are in sight, groups named, colours by a column.

const root = document.querySelector("[data-map]");
const { at, near, by, said } = JSON.parse(root.dataset.map);
const box = root.querySelector(".plane-box"), canvas = box.querySelector("canvas"), pen = canvas.getContext("2d");
const bar = root.querySelector("[data-map-tools]"), legend = root.querySelector("[data-legend]"), status = root.querySelector("[data-said]");
const find = (name) => bar.querySelector(`[data-do="${name}"]`);
// Okabe and Ito's colours, which the colour-blind can tell apart; the last is for the rest.
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#b5a90c", "#8a6d3b"], REST = "#9a938a";
const RAMP = ["#3b4cc0", "#6f92f3", "#aac7fd", "#e0a070", "#d65244", "#8b0f28"];
const THUMBS = 90, THUMB = 58;  // fragments in sight up to which their photographs are shown, and how large, px

let map = { ids: [], names: [], x: [], y: [], groups: [], doubtful: [] };
let view = { x: 0.5, y: 0.5, zoom: 1 };  // the middle of what is seen, and how many times larger than all of it
let column = null, only = null, chosen = -1, wanted = null;
const pictures = new Map();

const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });
const scale = () => { const { width, height } = size(); return { x: (width - 80) * view.zoom, y: (height - 80) * view.zoom }; };
const toScreen = (n) => { const s = scale(), { width, height } = size(); return [(map.x[n] - view.x) * s.x + width / 2, (map.y[n] - view.y) * s.y + height / 2]; };

let asked = false;
const draw = () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; paint(); }); } };

function colourOf(n) {
  if (!column) return REST;
  const value = column.values[n];
  if (value === null || value === undefined) return REST;
  if (column.labels.length) return COLOURS[value];
  const share = (value - column.low) / Math.max(column.high - column.low, 1e-9);
  return RAMP[Math.min(RAMP.length - 1, Math.max(0, Math.floor(share * RAMP.length)))];
}

function paint() {
  const { width, height } = size(), dense = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * dense) || canvas.height !== Math.round(height * dense)) { canvas.width = Math.round(width * dense); canvas.height = Math.round(height * dense); }
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.clearRect(0, 0, width, height);
  const style = getComputedStyle(root), ink = style.getPropertyValue("--ink"), sheet = style.getPropertyValue("--sheet"), strong = style.getPropertyValue("--strong");
  const s = scale(), left = view.x - width / 2 / s.x, top = view.y - height / 2 / s.y, seen = [];
  const right = left + width / s.x, bottom = top + height / s.y;
  for (let n = 0; n < map.ids.length; n++) if (map.x[n] >= left && map.x[n] <= right && map.y[n] >= top && map.y[n] <= bottom) seen.push(n);
  const radius = Math.min(7, Math.max(1.6, 60 / Math.sqrt(Math.max(seen.length, 1))));
  const buckets = new Map();
  for (const n of seen) {
    const colour = colourOf(n), faint = (only !== null && column?.values[n] !== only) || (wanted && !wanted.has(n));
    const key = faint ? `${colour}33` : colour;
    if (!buckets.has(key)) buckets.set(key, []);
    buckets.get(key).push(n);
  }
  for (const [colour, some] of buckets) {
    pen.fillStyle = colour;
    pen.beginPath();
    for (const n of some) { const [x, y] = toScreen(n); pen.moveTo(x + radius, y); pen.arc(x, y, radius, 0, 7); }
    pen.fill();
  }
  if (seen.length <= THUMBS) for (const n of seen) thumbnail(n, colourOf(n));
  const here = map.index?.get(at);
  if (here !== undefined) {
    pen.strokeStyle = REST;
    pen.lineWidth = 1;
    const [x0, y0] = toScreen(here);
    near.forEach((id, rank) => {
      const n = map.index.get(id);
      if (n === undefined) return;
      const [x, y] = toScreen(n);
      pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x, y); pen.stroke();
      badge(x, y, rank + 1, ink, sheet);
    });
    pen.strokeStyle = strong; pen.lineWidth = 4;
    pen.strokeRect(x0 - 12, y0 - 12, 24, 24);
  }
  if (chosen >= 0) { const [x, y] = toScreen(chosen); pen.strokeStyle = ink; pen.lineWidth = 3; pen.beginPath(); pen.arc(x, y, radius + 6, 0, 7); pen.stroke(); }
  names(seen, ink, sheet);
  root.dataset.seen = seen.length;
}

function badge(x, y, text, ink, sheet) {
  pen.fillStyle = ink; pen.beginPath(); pen.arc(x, y, 10, 0, 7); pen.fill();
  pen.fillStyle = sheet; pen.font = "700 12px system-ui"; pen.textAlign = "center"; pen.textBaseline = "middle"; pen.fillText(text, x, y);
}

function thumbnail(n, colour) {
  const id = map.ids[n], [x, y] = toScreen(n);
  if (!pictures.has(id)) {
    const image = new Image();
    image.onload = draw;
    image.src = `/image/small?id=${encodeURIComponent(id)}`;
    pictures.set(id, image);
    if (pictures.size > 600) pictures.delete(pictures.keys().next().value);
  }
  const image = pictures.get(id);
  if (!image.complete || !image.naturalWidth) return;
  const fit = THUMB / Math.max(image.naturalWidth, image.naturalHeight), w = image.naturalWidth * fit, h = image.naturalHeight * fit;
  pen.drawImage(image, x - w / 2, y - h / 2, w, h);
  pen.strokeStyle = colour; pen.lineWidth = 2; pen.strokeRect(x - w / 2, y - h / 2, w, h);
}

// The groups that lie together in what is seen: the nearest to its middle get their names, none over another.
function names(seen, ink, sheet) {
  const { width, height } = size(), inside = new Set(seen), found = [];
  for (const group of map.groups) {
    const own = group.members.filter((n) => inside.has(n));
    if (own.length < 2) continue;
    const spots = own.map(toScreen), x = spots.reduce((sum, one) => sum + one[0], 0) / own.length, y = spots.reduce((sum, one) => sum + one[1], 0) / own.length;
    if (Math.max(...spots.map(([u, v]) => Math.hypot(u - x, v - y))) > 0.2 * width) continue;
    found.push({ name: group.name, x, y, far: Math.hypot(x - width / 2, y - height / 2) });
  }
  found.sort((one, other) => one.far - other.far);
  const taken = [];
  pen.font = "600 12px system-ui"; pen.textAlign = "center"; pen.textBaseline = "middle";
  for (const { name, x, y } of found) {
    if (taken.length >= 14) break;
    const wide = pen.measureText(name).width + 10, spot = [x - wide / 2, y + 12, wide, 18];
    if (taken.some(([a, b, w, h]) => spot[0] < a + w && a < spot[0] + spot[2] && spot[1] < b + h && b < spot[1] + spot[3])) continue;
    taken.push(spot);
    pen.fillStyle = sheet; pen.globalAlpha = 0.85; pen.fillRect(...spot); pen.globalAlpha = 1;
    pen.fillStyle = ink; pen.fillText(name, x, y + 21);
  }
  root.dataset.named = taken.length;
}

const nearest = (x, y, reach) => {
  let best = -1, far = reach;
  for (let n = 0; n < map.ids.length; n++) { const [u, v] = toScreen(n), d = Math.hypot(u - x, v - y); if (d < far) { far = d; best = n; } }
  return best;
};
const choose = (n) => { chosen = n; status.textContent = n >= 0 ? map.names[n] : ""; draw(); };
const go = (n) => { if (n >= 0) { const to = new URL(location); to.searchParams.set("at", map.ids[n]); location.assign(to); } };
const zoom = (factor, x = size().width / 2, y = size().height / 2) => {
  const { width, height } = size(), s = scale(), u = view.x + (x - width / 2) / s.x, v = view.y + (y - height / 2) / s.y;
  view.zoom = Math.min(2000, Math.max(0.8, view.zoom * factor));
  const now = scale();
  view.x = u - (x - width / 2) / now.x; view.y = v - (y - height / 2) / now.y;
  draw();
};
const home = () => { view = { x: 0.5, y: 0.5, zoom: 1 }; draw(); };
// Where one stands in the middle, its neighbours around it.
const closer = () => {
  const here = map.index.get(at);
  if (here === undefined) return home();
  const some = near.slice(0, 6).map((id) => map.index.get(id)).filter((n) => n !== undefined);
  const reach = Math.max(0.01, ...some.map((n) => Math.max(Math.abs(map.x[n] - map.x[here]), Math.abs(map.y[n] - map.y[here]))));
  view = { x: map.x[here], y: map.y[here], zoom: Math.min(40, Math.max(1, 0.45 / reach)) };
  draw();
};

const down = new Map();
let moved = 0;
const on = (event) => { const r = canvas.getBoundingClientRect(); return [event.clientX - r.left, event.clientY - r.top]; };
canvas.addEventListener("pointerdown", (event) => { down.set(event.pointerId, on(event)); moved = 0; canvas.setPointerCapture(event.pointerId); });
canvas.addEventListener("pointermove", (event) => {
  const before = down.get(event.pointerId), [x, y] = on(event);
  if (!before) return choose(nearest(x, y, 16));
  const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
  if (other) zoom(Math.hypot(x - other[0], y - other[1]) / Math.max(1, Math.hypot(before[0] - other[0], before[1] - other[1])), other[0], other[1]);
  else { const s = scale(); view.x -= (x - before[0]) / s.x; view.y -= (y - before[1]) / s.y; draw(); }
  moved += Math.hypot(x - before[0], y - before[1]);
  down.set(event.pointerId, [x, y]);
});
canvas.addEventListener("pointerup", (event) => { down.delete(event.pointerId); if (moved < 6) go(nearest(...on(event), THUMB / 2)); });
canvas.addEventListener("pointercancel", (event) => down.delete(event.pointerId));
canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY < 0 ? 1.25 : 0.8, ...on(event)); }, { passive: false });
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (way) {
    event.preventDefault();
    const { width, height } = size(), [x, y] = chosen >= 0 ? toScreen(chosen) : [width / 2, height / 2];
    let best = -1, far = Infinity;
    for (let n = 0; n < map.ids.length; n++) {
      const [u, v] = toScreen(n), along = (u - x) * way[0] + (v - y) * way[1], aside = Math.abs((u - x) * way[1]) + Math.abs((v - y) * way[0]);
      if (n !== chosen && along > 0.5 && aside <= along && along + 2 * aside < far) { far = along + 2 * aside; best = n; }
    }
    if (best < 0) return;
    choose(best);
    const [u, v] = toScreen(best);
    if (u < 20 || v < 20 || u > width - 20 || v > height - 20) { view.x = map.x[best]; view.y = map.y[best]; draw(); }
    return;
  }
  const acts = { Enter: () => go(chosen), "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: home };
  if (acts[event.key]) { event.preventDefault(); acts[event.key](); }
});

// Colours by a column, and what they mean; a meaning that is chosen is shown alone.
async function colour(name) {
  only = null;
  legend.replaceChildren();
  column = name ? await (await fetch(`/api/map/column?name=${encodeURIComponent(name)}`)).json() : null;
  if (column && column.values.length !== map.ids.length) return load();  // something was added meanwhile
  const line = (swatch, text, value) => {
    const item = document.createElement("li"), button = document.createElement("button"), spot = document.createElement("span"), bdi = document.createElement("bdi");
    spot.className = "swatch"; spot.style.background = swatch; bdi.textContent = text;
    button.type = "button"; button.className = "quiet"; button.append(spot, " ", bdi);
    if (value === undefined) button.disabled = true;
    else button.addEventListener("click", () => { only = only === value ? null : value; for (const one of legend.querySelectorAll("button")) one.setAttribute("aria-pressed", one === button && only !== null); draw(); });
    item.append(button);
    legend.append(item);
  };
  if (column?.labels.length) { column.labels.forEach((label, code) => line(COLOURS[code], label, code)); line(REST, said.other, null); }
  else if (column) RAMP.forEach((swatch, step) => line(swatch, (column.low + ((column.high - column.low) * (step + 0.5)) / RAMP.length).toPrecision(3)));
  root.dataset.coloured = name;
  draw();
}
find("by").addEventListener("change", () => {
  const to = new URL(location);
  if (find("by").value) to.searchParams.set("by", find("by").value); else to.searchParams.delete("by");
  history.replaceState(null, "", to);
  colour(find("by").value);
});
find("find").addEventListener("input", () => {
  const words = find("find").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
  wanted = words.length ? new Set(map.names.flatMap((name, n) => (words.every((word) => name.toLowerCase().includes(word)) ? [n] : []))) : null;
  status.textContent = wanted ? said.found.replace("{n}", wanted.size) : "";
  if (wanted?.size) { const [first] = wanted; chosen = first; view.x = map.x[first]; view.y = map.y[first]; }
  draw();
});
find("find").addEventListener("keydown", (event) => { if (event.key === "Enter" && wanted?.size) go([...wanted][0]); });
find("in").addEventListener("click", () => zoom(1.5));
find("out").addEventListener("click", () => zoom(1 / 1.5));
find("home").addEventListener("click", home);
new ResizeObserver(draw).observe(canvas);

// A first look is there at once; when neighbours have been brought together the points go where they belong.
async function load() {
  const found = await (await fetch("/api/map/points")).json();
  const same = map.ids.length === found.ids.length && map.ids.every((id, n) => id === found.ids[n]);
  const from = same ? { x: map.x, y: map.y } : null, began = performance.now();
  map = { ...found, index: new Map(found.ids.map((id, n) => [id, n])) };
  if (from && !matchMedia("(prefers-reduced-motion: reduce)").matches) {
    const step = () => {
      const share = Math.min(1, (performance.now() - began) / 700);
      map.x = found.x.map((x, n) => from.x[n] + (x - from.x[n]) * share); map.y = found.y.map((y, n) => from.y[n] + (y - from.y[n]) * share);
      paint();
      if (share < 1) requestAnimationFrame(step); else if (at) closer();
    };
    step();
  } else if (at) closer();
  if (!same && find("by").value) await colour(find("by").value);
  draw();
  root.dataset.ready = "true";
  root.dataset.fine = found.fine;
  if (!found.fine) setTimeout(() => load().catch(() => {}), 2500);
}
bar.hidden = box.hidden = false;
await load();
window.membra = { map: () => map, view: () => view, toScreen };
