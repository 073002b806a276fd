// From content and state to what plotly draws. Nothing here changes anything.

const MOST_LINES = 20000; // of the edges that closed, those that closed most

// The points of each group, ascending.
function membersOf(groups, count) {
  const members = Array.from({ length: count }, () => []);
  groups.forEach((group, point) => members[group].push(point));
  return members.map((each) => Uint32Array.from(each));
}

function coordinates(points, places) {
  const x = new Float32Array(points.length), y = new Float32Array(points.length);
  points.forEach((point, i) => {
    x[i] = places[2 * point];
    y[i] = places[2 * point + 1];
  });
  return { x, y };
}

// The points, a trace for each group, at their coordinates.
function pointTraces(content, state, at) {
  const { members, names } = content.groupings[state.colouring];
  const size = Math.max(2.5, 14 - 2.2 * Math.log10(content.points));
  const opacity = content.points > 20000 ? 0.6 : 0.85;
  const { counts } = content.arrays; // the rows that a point stands for: 50 are a dot four times as wide
  const sized = (points) => (
    counts ? Array.from(points, (point) => Math.min(4, counts[point] ** 0.35) * size) : size
  );
  return members.map((points, group) => ({
    type: content.pointType, mode: "markers", name: names[group], meta: { group }, ...at[group],
    visible: !state.hidden.has(group), hoverinfo: "none",
    marker: { size: sized(points), opacity, color: colourOf(group), symbol: markerOf(group).symbol, line: { width: 0 } },
    selectedpoints: state.found && indicesOf(points, state.found),
    selected: { marker: counts ? { opacity: 1 } : { opacity: 1, size: size + 2 } },
    unselected: { marker: { opacity: 0.07 } },
  }));
}

const CELLS = 32; // of the map's side: points two cells apart are on different islands
const LARGE = 0.2; // of the points of a group, on an island that gets its name

// The large islands of a group's points, the largest first: how many points, and their medians.
function islandsOf({ x, y }, side) {
  const cellOf = (value) => Math.min(CELLS - 1, Math.floor((value / side) * CELLS));
  const cells = new Map(), islands = [];
  x.forEach((_, i) => {
    const cell = cellOf(x[i]) + CELLS * cellOf(y[i]);
    if (cells.has(cell)) cells.get(cell).push(i); else cells.set(cell, [i]);
  });
  while (cells.size) {
    const points = [], open = [cells.keys().next().value];
    while (open.length) {
      const cell = open.pop(), here = cells.get(cell);
      if (!here) continue;
      cells.delete(cell);
      for (const point of here) points.push(point);
      for (const up of [-CELLS, 0, CELLS]) {
        for (const right of [-1, 0, 1]) {
          if (Math.abs((cell % CELLS) - ((cell + right + CELLS) % CELLS)) <= 1) open.push(cell + up + right);
        }
      }
    }
    islands.push({ size: points.length, x: median(points.map((i) => x[i])), y: median(points.map((i) => y[i])) });
  }
  islands.sort((a, b) => b.size - a.size);
  return islands.filter(({ size }, i) => i === 0 || size >= LARGE * x.length);
}

// The name of each shown group on each of its large islands, above, below or at its median; the
// larger first, none over another or cut by an edge of the map.
function nameTags(content, state, islands, [left, right, bottom, top], unitsPerPixel) {
  const { names } = content.groupings[state.colouring], taken = [], tags = [];
  const all = islands.flatMap((each, group) => (state.hidden.has(group) ? [] : each.map((island) => ({ ...island, group }))));
  for (const { group, x: centre, y: middle } of all.sort((a, b) => b.size - a.size)) {
    const text = shortName(names[group]);
    const halfWidth = (4 + widthOf(text) / 2) * unitsPerPixel, halfHeight = 10 * unitsPerPixel;
    if (centre < left || right < centre || middle < bottom || top < middle) continue;
    const x = Math.max(left + halfWidth, Math.min(centre, right - halfWidth));
    const boxAt = (y) => [x - halfWidth, x + halfWidth, y - halfHeight, y + halfHeight];
    const covers = (a, b) => a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3];
    const isFree = (y) => bottom < y - halfHeight && y + halfHeight < top && !taken.some((other) => covers(boxAt(y), other));
    const y = [2, -2, 3, -3, 0].map((rows) => middle + rows * halfHeight).find(isFree);
    if (y === undefined) continue;
    taken.push(boxAt(y));
    tags.push({
      x, y, text: escapeText(text), showarrow: false, captureevents: false, borderpad: 2,
      font: { size: 12, family: TAG_FONT, color: pageColour("--ink") },
    });
  }
  return tags;
}

const TAG_FONT = "verdana, arial, sans-serif", ruler = document.createElement("canvas").getContext("2d");
ruler.font = `12px ${TAG_FONT}`;
const widthOf = (text) => ruler.measureText(text).width;
const shortName = (name) => {
  const words = name.replace(/^\d+: /, "").split(", ").slice(0, 2).join(", ");
  return beginning(words, 32) === words ? words : `${beginning(words, 31)}…`;
};
// As it is, where plotly would read tags or formulas.
const escapeText = (text) => text.replace(/[&<>$]/g, (sign) => `&#${sign.charCodeAt(0)};`);
const median = (values) => Float32Array.from(values).sort()[values.length >> 1];

function indicesOf(points, found) {
  const indices = [];
  points.forEach((point, i) => { if (found.has(point)) indices.push(i); });
  return indices;
}

// Lines between the ends of edges, cut by NaN.
function lineTrace(content, places, pairs, line) {
  const x = new Float32Array(3 * pairs.length).fill(NaN), y = x.slice();
  pairs.forEach(([a, b], i) => {
    x[3 * i] = places[2 * a]; x[3 * i + 1] = places[2 * b];
    y[3 * i] = places[2 * a + 1]; y[3 * i + 1] = places[2 * b + 1];
  });
  const style = { line, hoverinfo: "skip", connectgaps: false };
  return { type: content.pointType, mode: "lines", x, y, ...style };
}

function closedTrace(content, state) {
  if (!state.showsClosed) return [];
  const closed = content.edges.below(state.threshold, MOST_LINES);
  const alpha = Math.min(0.7, 12 / Math.sqrt(closed.length)); // many are not to hide the points
  const line = { color: closedColour(alpha), width: 1 };
  return closed.length ? [lineTrace(content, state.places, closed, line)] : [];
}

// The edges of the chosen point in five steps of conductance, and a ring around it.
function chosenTraces(content, state) {
  const { chosen, places } = state;
  if (chosen === null) return [];
  const byStep = EDGE_COLOURS.map(() => []), last = EDGE_COLOURS.length - 1;
  for (const { other, conductance } of content.edges.at(chosen)) {
    byStep[Math.min(last, Math.floor(conductance * EDGE_COLOURS.length))].push([chosen, other]);
  }
  const lines = byStep.map((pairs, step) => {
    return lineTrace(content, places, pairs, { color: EDGE_COLOURS[step], width: 2.5 });
  });
  const halo = pageColour("--halo");
  const marker = { size: 18, symbol: "circle-open", color: halo, line: { width: 3, color: halo } };
  const ring = { type: content.pointType, mode: "markers", hoverinfo: "skip", marker };
  return [...lines.filter(({ x }) => x.length), { ...ring, ...coordinates([chosen], places) }];
}
