// Tooltips at once and on touch; without this script the browser shows the same titles itself.
const tip = document.getElementById("tip");
for (const title of document.querySelectorAll("svg title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details")) part.open = true;
});

// A link into a folded part opens it.
function unfold() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  const inside = target.matches("section") ? target.querySelector("details.fold") : null;
  if (inside) inside.open = true;
  for (let part = target; part; part = part.parentElement) if (part.matches("details")) part.open = true;
  target.scrollIntoView();
}
addEventListener("hashchange", unfold);
unfold();

function show(event) {
  const mark = event.target.closest?.("[data-tip]");
  if (mark) say(mark, event.clientX + 14, event.clientY - 12);
  else tip.hidden = true;
}

function say(mark, x, y) {
  tip.hidden = false;
  tip.textContent = mark.dataset.tip;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
  tip.style.left = Math.max(8, Math.min(x, room)) + "px";
  tip.style.top = Math.max(8, y - tip.offsetHeight) + "px";
}
