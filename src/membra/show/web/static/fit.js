// Two fragments on one table: dragged, turned by two fingers, wheel or keys; the numbers beside are what is kept.
const root = document.querySelector("[data-fit]");
const data = JSON.parse(root.dataset.fit);
const table = root.querySelector(".table");
const form = root.querySelector("form.lay");
const bar = root.querySelector("[data-table-tools]");
const field = (name, side) => form.elements[`${name}_${side}`];
const round = (value) => Math.round(value * 1000) / 1000;

const stand = (side) => {
  const { per_unit, middle } = data[side];
  const at = { x: Number(field("x", side).value), y: Number(field("y", side).value), turn: Number(field("turn", side).value) };
  const way = `translate(${at.x} ${at.y}) rotate(${at.turn}) scale(${1 / per_unit}) translate(${-middle[0]} ${-middle[1]})`;
  for (const one of table.querySelectorAll(`[data-piece=${side}], [data-ruling=${side}]`)) one.setAttribute("transform", way);
};
const move = (side, dx, dy, turn = 0) => {
  field("x", side).value = round(Number(field("x", side).value) + dx);
  field("y", side).value = round(Number(field("y", side).value) + dy);
  field("turn", side).value = round(((((Number(field("turn", side).value) + turn + 180) % 360) + 360) % 360) - 180);
  stand(side);
};
form.addEventListener("input", () => ["a", "b"].forEach(stand));

// What is seen of the table.
let box = [...data.box];
const show = () => table.setAttribute("viewBox", box.join(" "));
const zoom = (by, at = { x: box[0] + box[2] / 2, y: box[1] + box[3] / 2 }) => {
  box = [at.x - (at.x - box[0]) / by, at.y - (at.y - box[1]) / by, box[2] / by, box[3] / by];
  show();
};
const on = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(table.getScreenCTM().inverse());
bar.hidden = false;
const find = (name) => bar.querySelector(`[data-do="${name}"]`);
find("in").addEventListener("click", () => zoom(1.3));
find("out").addEventListener("click", () => zoom(1 / 1.3));
find("home").addEventListener("click", () => { box = [...data.box]; show(); });
find("ruling").addEventListener("change", () => table.querySelector(".rulings").toggleAttribute("hidden", !find("ruling").checked));
find("through").addEventListener("change", () => table.classList.toggle("through", find("through").checked));

// Fingers and mouse: one on a fragment moves it, two turn it as well; on the bare table they move the table.
const down = new Map();
const upper = (piece) => piece.nextElementSibling?.matches("[data-piece]") && table.insertBefore(piece, table.querySelector(".rulings"));
table.addEventListener("pointerdown", (event) => {
  const piece = event.target.closest("[data-piece]");
  if (piece) { upper(piece); piece.focus({ preventScroll: true }); }
  const first = [...down.values()][0];
  down.set(event.pointerId, { side: first ? first.side : piece?.dataset.piece, at: on(event) });
  table.setPointerCapture(event.pointerId);
});
table.addEventListener("pointermove", (event) => {
  const own = down.get(event.pointerId);
  if (!own) return;
  const now = on(event), dx = now.x - own.at.x, dy = now.y - own.at.y;
  const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
  if (!own.side) {  // the table itself: what is under the finger stays under it
    box[0] -= dx / down.size; box[1] -= dy / down.size;
    if (other) zoom(Math.hypot(now.x - other.at.x, now.y - other.at.y) / Math.max(Math.hypot(own.at.x - other.at.x, own.at.y - other.at.y), 1e-6));
    show();
    own.at = on(event);
    if (other) for (const [id, one] of down) if (id !== event.pointerId) one.at = { x: one.at.x, y: one.at.y };
    return;
  }
  if (other) {
    const turn = (Math.atan2(now.y - other.at.y, now.x - other.at.x) - Math.atan2(own.at.y - other.at.y, own.at.x - other.at.x)) * 180 / Math.PI;
    move(own.side, dx / 2, dy / 2, ((turn + 540) % 360) - 180);
  } else move(own.side, dx, dy);
  own.at = now;
});
for (const end of ["pointerup", "pointercancel"]) table.addEventListener(end, (event) => down.delete(event.pointerId));
table.addEventListener("wheel", (event) => {
  event.preventDefault();
  const side = event.target.closest("[data-piece]")?.dataset.piece, by = event.deltaY || event.deltaX;
  if (event.shiftKey && side) move(side, 0, 0, by / 40); else zoom(by < 0 ? 1.12 : 1 / 1.12, on(event));
}, { passive: false });

// Keys: a step is a hundredth of what is seen and one degree; with Shift a tenth of that.
for (const piece of table.querySelectorAll("[data-piece]")) {
  piece.setAttribute("tabindex", "0");
  piece.setAttribute("role", "application");
  piece.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const fine = event.shiftKey ? 0.1 : 1, step = (box[2] / 100) * fine;
    const acts = {
      ArrowLeft: [-step, 0, 0], ArrowRight: [step, 0, 0], ArrowUp: [0, -step, 0], ArrowDown: [0, step, 0],
      PageUp: [0, 0, -fine], PageDown: [0, 0, fine],
    };
    if (acts[event.key]) { event.preventDefault(); move(piece.dataset.piece, ...acts[event.key]); }
    if (event.key === "+" || event.key === "-") { event.preventDefault(); zoom(event.key === "+" ? 1.2 : 1 / 1.2); }
  });
}
root.dataset.ready = "true";
