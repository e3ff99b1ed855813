// Fix this fragment: what is drawn on the photograph fills the fields of the form, and what is in the fields is drawn.
import "./fragment.js";

const SVG = "http://www.w3.org/2000/svg";
const form = document.querySelector("[data-fix]");
const viewer = window.membra?.viewers[0];
const made = (name, attributes) => {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};

// Points of a text: "x,y x,y"; and a text of points.
const pointsOf = (text) => (text.match(/-?\d+(\.\d+)?/g) || []).map(Number).reduce((all, value, at, list) => (at % 2 ? [...all, [list[at - 1], value]] : all), []);
const textOf = (points) => points.map((point) => point.join(",")).join(" ");

// What takes a while is said, and what is refused is said here, so that nothing that was drawn is lost.
for (const one of document.querySelectorAll("[data-fix], [data-describe]")) {
  one.addEventListener("submit", async (event) => {
    event.preventDefault();
    const status = one.querySelector("[data-status]") || form.querySelector("[data-status]");
    const buttons = [...document.querySelectorAll("[data-fix] button, [data-describe] button")];
    const free = (said) => { status.textContent = said; one.removeAttribute("aria-busy"); for (const button of buttons) button.disabled = false; };
    const sent = new URLSearchParams(new FormData(one));
    status.textContent = form.dataset.busy;
    one.setAttribute("aria-busy", "true");
    for (const button of buttons) button.disabled = true;
    try {
      const answer = await fetch(one.action, { method: "POST", body: sent });
      if (!answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        return free(page.querySelector("[role=alert]")?.textContent.trim() || `${answer.status}`);
      }
      // What a person turned for herself came on top of what was seen; now it is seen as it stands.
      if (viewer && (sent.get("turn") || sent.get("up"))) localStorage.removeItem(`${viewer.kept}:turned`);
      if (answer.url === location.href) location.reload(); else location.assign(answer.url);
    } catch (error) { free(String(error.message || error)); }
  });
}

if (form && viewer) {
  const field = (name) => form.elements[name];
  const said = form.querySelector("[data-said]");
  const { width, height, boxes } = viewer.shown;
  const layer = made("g", { class: "fixes" });
  viewer.pixels.append(layer);
  const stage = document.createElement("div");
  stage.className = "fix-stage";
  stage.hidden = true;
  stage.tabIndex = 0;
  stage.setAttribute("role", "application");
  stage.setAttribute("aria-label", form.querySelector("legend").textContent);
  stage.setAttribute("aria-describedby", "fix-keys");
  viewer.element.append(stage);
  form.querySelector(".draw").hidden = false;
  form.querySelector("[data-turns]").hidden = false;

  let tool = "look";
  let draft = [];  // points that are being set
  let dragging = false;
  let cross = { x: width / 2, y: height / 2 };
  let letter = -1;  // the one that the keys are at
  const dropped = () => new Set((field("drop_letters").value.match(/\d+/g) || []).map(Number));
  const brush = () => Number(form.querySelector("[data-brush]").value);

  // Between the screen and the photograph's own pixels, however it is turned.
  const matrix = () => viewer.pixels.getScreenCTM();
  const onPhotograph = (x, y) => new DOMPoint(x, y).matrixTransform(matrix().inverse());
  const kept = ({ x, y }) => [Math.min(width, Math.max(0, Math.round(x))), Math.min(height, Math.max(0, Math.round(y)))];

  const polygon = (points, className) => layer.append(made("polygon", { points: textOf(points), class: className }));
  const corners = ([[left, top], [right, bottom]]) => [[left, top], [right, top], [right, bottom], [left, bottom]];
  // The rectangle between two points as the screen shows it, which in a photograph that is turned is a turned one.
  const alongScreen = (points) => {
    const [one, other] = points.map(([x, y]) => new DOMPoint(x, y).matrixTransform(matrix()));
    return [[one.x, one.y], [other.x, one.y], [other.x, other.y], [one.x, other.y]].map(([x, y]) => kept(onPhotograph(x, y)));
  };
  const stroke = (points, wide, className) => layer.append(made("polyline", { points: textOf(points.length > 1 ? points : [points[0], points[0]]), class: className, "stroke-width": wide }));
  const shape = (points, className, wide) => {
    if (wide) stroke(points, wide, `${className}-brush`);
    else polygon(points.length === 2 ? corners(points) : points, className);
  };

  const draw = () => {
    layer.replaceChildren();
    const [[x, y] = [], [wide, high] = []] = pointsOf(field("crop").value);
    if (high) layer.append(made("path", { class: "shade", d: `M0 0H${width}V${height}H0Z M${x} ${y}v${high}h${wide}v${-high}Z` }));
    for (const line of field("paint_out").value.split("\n")) {
      const [before, after] = line.includes(":") ? line.split(":") : ["", line];
      const points = pointsOf(after);
      if (points.length > (before ? 0 : 1)) shape(points, "painted", Number(before));
    }
    const cut = pointsOf(field("split").value);
    if (cut.length === 2) layer.append(made("line", { class: "cut", x1: cut[0][0], y1: cut[0][1], x2: cut[1][0], y2: cut[1][1] }));
    else if (cut.length > 2) polygon(cut, "cut");
    const out = dropped();
    [...viewer.boxes.children].forEach((box, at) => { box.classList.toggle("out", out.has(at)); box.classList.toggle("at", tool === "letters" && at === letter); });
    if (draft.length) {
      const points = tool === "polygon" || tool === "brush" ? draft : [...draft, kept(cross)];
      if (tool === "split") stroke(points, 0, "cut");
      else if (tool === "brush") shape(points, "draft", brush());
      else if (tool === "polygon") stroke([...points, kept(cross)], 0, "draft-line");
      else polygon(alongScreen(points.slice(0, 2)), "draft");
    }
    if (!stage.hidden && tool !== "letters" && document.activeElement === stage) {
      const reach = 12 / Math.hypot(matrix().a, matrix().b);
      for (const [dx, dy] of [[reach, 0], [0, reach]]) layer.append(made("line", { class: "cross", x1: cross.x - dx, y1: cross.y - dy, x2: cross.x + dx, y2: cross.y + dy }));
    }
  };

  const add = (points, wide) => {
    const area = field("paint_out");
    area.value = `${area.value.trim()}\n${wide ? `${wide}: ` : ""}${textOf(points)}`.trim();
    said.textContent = area.value.split("\n").length;
  };
  const finish = () => {
    const points = draft;
    draft = [];
    if (tool === "polygon" && points.length > 2) add(points);
    else if (tool === "brush" && points.length) add(points, brush());
    else if (points.length === 2 && (points[0][0] !== points[1][0] || points[0][1] !== points[1][1])) {
      const [[a, b], [c, d]] = points;
      if (tool === "rectangle") add(alongScreen(points));
      if (tool === "split") field("split").value = textOf(points);
      if (tool === "crop" && a !== c && b !== d) field("crop").value = [Math.min(a, c), Math.min(b, d), Math.abs(c - a), Math.abs(d - b)].join(",");
    }
    draw();
  };
  const set = () => {
    draft.push(kept(cross));
    if (draft.length === 2 && ["crop", "rectangle", "split"].includes(tool)) finish(); else draw();
  };
  const take = (at) => {
    if (at < 0) return;
    const out = dropped();
    if (!out.delete(at)) out.add(at);
    field("drop_letters").value = [...out].sort((a, b) => a - b).join(",");
    letter = at;
    said.textContent = `${at}${out.has(at) ? " ✕" : ""} (${out.size} / ${boxes.length})`;
    draw();
  };
  // The smallest letter at a point.
  const letterAt = ({ x, y }) => boxes.map(([left, top, wide, high], at) => [wide * high, at, x >= left && x <= left + wide && y >= top && y <= top + high])
    .filter((one) => one[2]).sort((a, b) => a[0] - b[0])[0]?.[1] ?? -1;

  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    stage.focus();
    cross = onPhotograph(event.clientX, event.clientY);
    if (tool === "letters") return take(letterAt(cross));
    if (tool === "polygon") return set();
    stage.setPointerCapture(event.pointerId);
    draft = [kept(cross)];
    dragging = true;
    draw();
  });
  stage.addEventListener("pointermove", (event) => {
    cross = onPhotograph(event.clientX, event.clientY);
    if (dragging && tool === "brush") {
      const [x, y] = draft.at(-1);
      if (Math.hypot(cross.x - x, cross.y - y) > Math.max(2, brush() / 6)) draft.push(kept(cross));
    }
    if (draft.length) draw();
  });
  stage.addEventListener("pointerup", (event) => {
    if (!dragging) return;
    dragging = false;
    cross = onPhotograph(event.clientX, event.clientY);
    if (tool !== "brush") draft.push(kept(cross));
    finish();
  });
  stage.addEventListener("dblclick", () => tool === "polygon" && finish());
  for (const event of ["focus", "blur"]) stage.addEventListener(event, draw);

  const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  stage.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const way = ways[event.key];
    if (way && tool === "letters") {
      letter = (letter + (way[0] + way[1] > 0 ? 1 : -1) + boxes.length) % Math.max(1, boxes.length);
      said.textContent = `${letter}${dropped().has(letter) ? " ✕" : ""}`;
      draw();
    } else if (way) {
      const by = event.shiftKey ? 1 : 10, on = new DOMPoint(cross.x, cross.y).matrixTransform(matrix());
      const [x, y] = kept(onPhotograph(on.x + by * way[0], on.y + by * way[1]));
      cross = { x, y };
      said.textContent = `${x},${y}`;
      draw();
    } else if (event.key === " ") {
      if (tool === "letters") take(letter); else set();
    } else if (event.key === "Enter") finish();
    else if (event.key === "Escape") { draft = []; dragging = false; draw(); } else return;
    event.preventDefault();
  });

  const rotate = (degrees) => {
    if (viewer.rotation === degrees) return;
    viewer.osd.viewport.setRotation(degrees, true);
    viewer.show(viewer.fitting, viewer.middle);
    viewer.place();
  };
  for (const one of form.querySelectorAll("[name=tool]")) {
    one.addEventListener("change", () => {
      tool = one.value;
      draft = [];
      stage.hidden = tool === "look";
      // A crop runs along the photograph's own edges.
      rotate(tool === "crop" ? Math.round(viewer.upright / 90) * 90 : viewer.upright);
      stage.dataset.tool = tool;
      cross = viewer.centre;
      draw();
    });
  }
  form.querySelector("[data-back]").addEventListener("click", () => {
    if (draft.length) draft.pop();
    else if (tool === "crop" || tool === "split") field(tool).value = "";
    else if (tool === "letters") field("drop_letters").value = [...dropped()].filter((at) => at !== letter).join(",");
    else field("paint_out").value = field("paint_out").value.trim().split("\n").slice(0, -1).join("\n");
    draw();
  });
  for (const name of ["crop", "paint_out", "drop_letters", "split"]) field(name).addEventListener("input", draw);

  // How it is turned is seen at once; it is kept when it is described again.
  const turn = field("turn");
  const turned = () => { viewer.upright = Number(turn.value) || 0; rotate(viewer.upright); };
  turn.addEventListener("input", turned);
  for (const button of form.querySelectorAll("[data-turn]")) {
    button.addEventListener("click", () => {
      const now = turn.value === "" ? viewer.rotation : Number(turn.value);
      turn.value = Math.round(((((now + Number(button.dataset.turn)) % 360) + 360) % 360) * 10) / 10;
      turned();
    });
  }
  // The photograph gives way to the tools, and is then to be seen whole again.
  const details = form.closest("details");
  details.addEventListener("toggle", () => requestAnimationFrame(() => {
    const { clientWidth, clientHeight } = viewer.element;
    viewer.osd.viewport.resize(new OpenSeadragon.Point(clientWidth, clientHeight), true);
    viewer.show(viewer.fitting, viewer.middle);
  }));
  form.dataset.ready = "true";
  draw();
}
