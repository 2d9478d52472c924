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
