// One pair a screen: a key decides and goes on. Keys are those of the keyboard, whatever letters its layout writes.

for (const field of document.querySelectorAll("[data-submits]")) field.addEventListener("change", () => field.form.requestSubmit());
for (const button of document.querySelectorAll("[data-hides]")) button.hidden = true;

let gone = false;  // an answer is under way: a second key would be for the next pair, which nobody has seen
addEventListener("pageshow", (event) => { if (event.persisted) gone = false; });  // a late load event is no return
for (const form of document.querySelectorAll("form.decide, form.undo")) {
  form.addEventListener("submit", (event) => { if (gone) event.preventDefault(); else gone = true; });
}
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || gone) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  const button = document.querySelector(`button[data-code="${CSS.escape(event.code)}"]`);
  if (!button) return;
  event.preventDefault();
  const name = button.form.elements.by;
  if (!button.formNoValidate && !name.value.trim()) { name.focus(); name.reportValidity(); return; }
  button.click();
});
