// Colours of groups and of the page, light and dark.

// Ten colours that stay apart with any of the common kinds of colour blindness (Petroff, 2021);
// beyond ten groups they come again with another marker.
const GROUP_COLOURS = [
  "#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#92dadb",
  "#a96b59", "#e76300", "#b9ac70", "#717581", "#94a4a2",
];
const MARKERS = [
  { symbol: "circle", sign: "●" }, { symbol: "diamond", sign: "◆" },
  { symbol: "triangle-up", sign: "▲" }, { symbol: "square", sign: "■" },
  { symbol: "cross", sign: "✚" },
];
// From closed to open, for the edges of a chosen point.
const EDGE_COLOURS = ["#d7263d", "#f46036", "#e0a526", "#4fa3a5", "#2f7fd1"];
const closedColour = (alpha) => `rgba(215, 38, 61, ${alpha})`;

// What is too dark on dark paper.
const ON_DARK = { "#717581": "#b9bdc7", "#bd1f01": "#e8573c", "#832db6": "#b476e0", "#a96b59": "#c98d7c" };

const isDark = () => document.documentElement.dataset.theme === "dark";
const colourOf = (group) => {
  const colour = GROUP_COLOURS[group % GROUP_COLOURS.length];
  return (isDark() && ON_DARK[colour]) || colour;
};
const markerOf = (group) => MARKERS[Math.floor(group / GROUP_COLOURS.length) % MARKERS.length];
const pageColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function startTheme(onChange) {
  const root = document.documentElement, button = document.getElementById("theme");
  const show = (theme) => {
    root.dataset.theme = theme;
    button.setAttribute("aria-pressed", String(theme === "dark"));
  };
  show(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  button.addEventListener("click", () => {
    show(root.dataset.theme === "dark" ? "light" : "dark");
    onChange();
  });
}
