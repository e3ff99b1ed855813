// What every page has: an image can be dropped anywhere, and filters act when they are changed.

const form = document.querySelector("[data-drop]");
if (form) {
  const input = form.querySelector("input[type=file]");
  const over = (on) => form.classList.toggle("over", on);
  addEventListener("dragover", (event) => {
    if ([...event.dataTransfer.types].includes("Files")) {
      event.preventDefault();
      over(true);
    }
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && over(false));
  addEventListener("drop", (event) => {
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    over(false);
    const one = new DataTransfer();
    one.items.add(event.dataTransfer.files[0]);
    input.files = one.files;
    form.requestSubmit();
  });
  input.addEventListener("change", () => input.files.length && form.requestSubmit());
  // Looking at a large photograph takes a while: it is said that it goes on, and asked only once.
  const busy = form.querySelector("[data-busy]"), button = form.querySelector("button");
  form.addEventListener("submit", () => {
    busy.textContent = busy.dataset.busy;
    form.setAttribute("aria-busy", "true");
    button.disabled = true;
  });
  addEventListener("pageshow", () => { busy.textContent = ""; form.removeAttribute("aria-busy"); button.disabled = false; });
}

// A person's own link has her key in it: the page that it leads to leaves no trace in the browser's history.
const onward = document.querySelector("a[data-onward]");
if (onward && location.search.includes("key=")) history.replaceState(null, "", location.pathname);

for (const box of document.querySelectorAll("form.hide input[type=checkbox], form.hide select, form.find [data-submits]")) {
  box.addEventListener("change", () => box.form.requestSubmit());
}

// A page whose content is being worked out is loaded again once it is there: never under the eyes of somebody for nothing.
const wait = document.querySelector("[data-wait]");
const look = async () => {
  try { if ((await (await fetch(wait.dataset.wait)).json()).ready) return location.reload(); } catch { /* the server is away */ }
  setTimeout(look, 2000);
};
if (wait) setTimeout(look, 1000);

// A page that htmx was refused says why, instead of staying as it was.
document.addEventListener("htmx:beforeSwap", (event) => {
  const answer = event.detail.xhr;
  if (!answer || answer.status < 400) return;
  const said = new DOMParser().parseFromString(answer.responseText, "text/html").querySelector("[role=alert]");
  const status = document.querySelector("#verdict .now");
  if (status) status.textContent = said ? said.textContent : answer.responseText.slice(0, 300);
});
