// Texts beside the map. Whatever came from a user is set as text, never as HTML.

const byId = (id) => document.getElementById(id);
const numberOf = (value) => value.toLocaleString("en");
// Characters, of which an emoji takes two units of a text or more.
const beginning = (text, most) => Array.from(text.slice(0, 2 * most)).slice(0, most).join("");
const plural = (count, what) => `${numberOf(count)} ${what}${count === 1 ? "" : "s"}`;

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function makeTeller(content) {
  const groupOf = (grouping, point) => content.arrays[`group_${content.groupings.indexOf(grouping)}`][point];
  const shown = content.groupings.filter((each) => !each.is_level);
  return {
    text: (point) => content.texts?.[point] ?? `point ${point}`,
    facts: (point) => [
      ...shown.map((each) => withKind(each.kind, each.names[groupOf(each, point)])),
      ...(content.texts ? [`point ${point}`] : []),
    ].join(" · "),
    group: (colouring, point) => groupOf(content.groupings[colouring], point),
  };
}

// "cluster 0", "cluster 0: oil, prices", "label: sports".
const withKind = (kind, name) => {
  if (name.startsWith(`${kind} `)) return name;
  return /^\d+: /.test(name) ? `${kind} ${name}` : `${kind}: ${name}`;
};

// The picture of a point, where there are pictures: dark ink on light paper.
function showPicture(canvas, content, point) {
  canvas.hidden = content.picture === null;
  if (content.picture === null) return;
  const [height, width] = content.picture, size = height * width;
  const ink = content.arrays.images.subarray(point * size, (point + 1) * size);
  Object.assign(canvas, { width, height });
  const pixels = new ImageData(width, height);
  ink.forEach((value, i) => pixels.data.set([255 - value, 255 - value, 255 - value, 255], 4 * i));
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

function swatch(group) {
  const sign = make("span", { className: "swatch", textContent: markerOf(group).sign, ariaHidden: "true" });
  sign.style.color = colourOf(group);
  return sign;
}

// A button that chooses a point, with what stands at its end.
function pointItem(point, teller, state, choose, value) {
  const text = beginning(teller.text(point), 300);
  const words = make("span", { className: "words", dir: "auto", textContent: text });
  const button = make("button", { type: "button" }, swatch(teller.group(state.colouring, point)), words);
  if (value !== undefined) button.append(make("span", { className: "value", textContent: value.toFixed(3) }));
  button.dataset.point = point;
  button.addEventListener("click", () => choose(point));
  return make("li", {}, button);
}

const MOST_ITEMS = 100, MOST_PARTS = 12;

function showFound(content, state, teller, choose) {
  byId("found").hidden = state.found === null;
  if (state.found === null) return;
  const points = Array.from(state.found);
  byId("found-count").textContent = `${plural(points.length, "point")} ${state.foundBy}.`;
  const counts = new Map();
  for (const point of points) {
    const group = teller.group(state.colouring, point);
    counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  const { names, kind } = content.groupings[state.colouring];
  const parts = Array.from(counts).sort((a, b) => b[1] - a[1]);
  const others = parts.length - MOST_PARTS;
  byId("found-groups").replaceChildren(...parts.slice(0, MOST_PARTS).map(([group, count]) => {
    const name = make("bdi", { textContent: names[group] });
    return make("span", { className: "part" }, swatch(group), name, ` ${numberOf(count)}  `);
  }), others > 0 ? `and ${plural(others, `more ${kind}`)}` : "");
  const items = points.slice(0, MOST_ITEMS).map((point) => pointItem(point, teller, state, choose));
  byId("found-list").replaceChildren(...items);
  const rest = points.length - items.length;
  byId("found-rest").textContent = rest > 0 ? `and ${plural(rest, "more point")}` : "";
}

function showPoint(content, state, teller, choose) {
  byId("point").hidden = state.chosen === null;
  if (state.chosen === null) return;
  showPicture(byId("point").querySelector(".picture"), content, state.chosen);
  byId("point-text").textContent = teller.text(state.chosen);
  byId("point-facts").textContent = teller.facts(state.chosen);
  const edges = content.edges.at(state.chosen);
  byId("point-edges").replaceChildren(
    ...edges.map(({ other, conductance }) => pointItem(other, teller, state, choose, conductance)),
  );
}

function showClosed(content, state, teller, choose) {
  const { edges } = content, count = edges.countBelow(state.threshold);
  byId("threshold-shown").textContent = state.threshold.toFixed(2);
  const most = `; the map shows the ${numberOf(MOST_LINES)} that closed most`;
  byId("closed-count").textContent =
    `${numberOf(count)} of ${plural(edges.count, "edge")} conduct less${count > MOST_LINES ? most : ""}.`;
  byId("closed-list").replaceChildren(...edges.closed(50).map(([a, b, conductance]) => {
    const pair = [pointItem(a, teller, state, choose), pointItem(b, teller, state, choose, conductance)];
    return make("li", {}, ...pair.map((item) => item.firstChild));
  }));
}

function showLegend(state) {
  for (const legend of document.querySelectorAll(".legend")) {
    legend.hidden = Number(legend.dataset.grouping) !== state.colouring;
    for (const button of legend.querySelectorAll(".group")) {
      const group = Number(button.dataset.group);
      button.querySelector(".swatch").replaceWith(swatch(group));
      button.setAttribute("aria-pressed", String(!state.hidden.has(group)));
    }
  }
}
