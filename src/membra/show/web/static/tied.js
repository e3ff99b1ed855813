// Several photographs at one letter height that move as one: the one that a hand is on leads, the others follow.

const height = (viewer) => viewer.shown.letter || 1;

// `tied`: the checkbox that says whether they do. Gives `home`, which shows all of them whole.
export function tieTogether(viewers, tied) {
  // Where they stand when they are tied; from there all move by as many letters.
  let anchors = null;
  let leader = viewers[0];
  const tie = () => { anchors = new Map(viewers.map((viewer) => [viewer, viewer.centre])); };
  // All whole, with letters of one height: the one that needs most room decides.
  const home = () => {
    const letter = Math.min(...viewers.map((viewer) => viewer.fitting * height(viewer)));
    anchors = null;
    for (const viewer of viewers) viewer.show(letter / height(viewer), viewer.middle);
    tie();
  };
  const follow = (viewer) => {
    if (!tied.checked || !anchors || viewer !== leader) return;  // what a follower does, it was made to do
    for (const follower of viewers) {
      if (follower === leader) continue;
      const ratio = height(follower) / height(leader);
      const turn = ((leader.rotation - follower.rotation) * Math.PI) / 180;
      const from = anchors.get(leader), to = anchors.get(follower), now = leader.centre;
      const dx = (now.x - from.x) * ratio, dy = (now.y - from.y) * ratio;
      const centre = { x: to.x + dx * Math.cos(turn) - dy * Math.sin(turn), y: to.y + dx * Math.sin(turn) + dy * Math.cos(turn) };
      follower.show(leader.scale / ratio, centre);
    }
  };
  for (const viewer of viewers) {
    viewer.osd.addHandler("viewport-change", () => follow(viewer));
    const lead = () => { if (leader !== viewer) { leader = viewer; tie(); } };
    for (const event of ["pointerenter", "pointerdown", "wheel", "focusin"]) viewer.element.closest(".side").addEventListener(event, lead, { capture: true, passive: true });
    // A turn is no movement: all stay where they are, and are tied anew.
    viewer.osd.addHandler("rotate", tie);
  }
  tied.addEventListener("change", () => { tie(); if (tied.checked) follow(leader); });
  return { home, lead: (viewer) => { leader = viewer; tie(); } };
}

// A button that lets `element` fill the screen, and `home` show all of it again. Telephones that give no page the whole
// screen give it the whole window. Escape leaves either.
export function fillScreen(button, element, home) {
  const fill = (on) => {
    if (element.classList.contains("filling") === on) return;
    element.classList.toggle("filling", on);
    button.setAttribute("aria-pressed", on);
    setTimeout(home, 100);  // when the photographs know their new size
  };
  button.addEventListener("click", async () => {
    const on = !element.classList.contains("filling");
    fill(on);
    try {
      if (on) await element.requestFullscreen?.(); else if (document.fullscreenElement) await document.exitFullscreen();
    } catch { /* not given: the window is filled */ }
  });
  document.addEventListener("fullscreenchange", () => { if (!document.fullscreenElement) fill(false); });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !element.classList.contains("filling")) return;
    fill(false);
    if (document.fullscreenElement) document.exitFullscreen();
  });
}
