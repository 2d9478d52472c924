// One stop per drawing for the Tab key; the arrows go from point to point.
for (const drawing of document.querySelectorAll("svg[role=group]")) {
  const points = [...drawing.querySelectorAll(".point")];
  points.forEach((point, index) => point.setAttribute("tabindex", index ? "-1" : "0"));
  drawing.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const at = points.indexOf(document.activeElement);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = points[(at + step + points.length) % points.length];
    document.activeElement.setAttribute("tabindex", "-1");
    next.setAttribute("tabindex", "0");
    next.focus();
  });
}

document.addEventListener("focusin", (event) => {
  const mark = event.target.closest?.("svg [data-tip]");
  if (!mark) { tip.hidden = true; return; }
  const box = (mark.querySelector(".hit") ?? mark).getBoundingClientRect();
  say(mark, box.right, box.top);
});
document.addEventListener("focusout", () => { tip.hidden = true; });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") tip.hidden = true; });

// Downloads are made here, of what the page holds; nothing is asked of any network.
document.addEventListener("click", (event) => {
  const kind = event.target.dataset?.save;
  if (!kind) return;
  const figure = event.target.closest("figure");
  const name = figure.dataset.file.replace(/[^\w.-]+/g, "_");
  if (kind === "csv") save(`${name}.csv`, "text/csv", figure.dataset.csv ?? asCsv(figure.querySelector("table")));
  else save(`${name}.svg`, "image/svg+xml", asSvg(shown(figure)));
});

function shown(figure) {
  const drawings = [...figure.querySelectorAll(".drawing svg")];
  return drawings.find((drawing) => drawing.getClientRects().length) ?? drawings[0];
}

function asCsv(table) {
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => {
    const text = cell.dataset.raw ?? cell.textContent.trim();
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join(","));
  return lines.join("\n") + "\n";
}

const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "paint-order", "font", "text-anchor"];

function asSvg(drawing) {
  const copy = drawing.cloneNode(true);
  const from = [drawing, ...drawing.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, index) => {
    const style = getComputedStyle(from[index]);
    part.setAttribute("style", PAINT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["tabindex", "href", "class"]) part.removeAttribute(name);
    if (part.dataset.tip) {
      const title = document.createElementNS(copy.namespaceURI, "title");
      title.textContent = part.dataset.tip;
      part.prepend(title);
      part.removeAttribute("data-tip");
    }
  });
  const [, , width, height] = drawing.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", 2 * width);
  copy.setAttribute("height", 2 * height);
  const back = getComputedStyle(drawing.closest("figure")).backgroundColor;
  copy.style.background = back;
  return new XMLSerializer().serializeToString(copy);
}

function save(name, type, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Light or dark by the reader's choice; without one, as the system has it.
const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
const label = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  label();
});
dark.addEventListener("change", label);
label();
