// The page's state, and what changes it. Whatever changes, the map is drawn from the state anew.

async function start() {
  const content = await unpack(byId("block").textContent);
  content.edges = readEdges(content.arrays, content.points, content.full);
  content.groupings.forEach((grouping, i) => {
    grouping.members = membersOf(content.arrays[`group_${i}`], grouping.names.length);
  });
  content.pointType = hasWebGL() ? "scattergl" : "scatter";

  const last = content.times.length - 1;
  const state = {
    colouring: 0, // which grouping colours the points
    hidden: new Set(), // groups of it
    time: last, // which of the times
    places: placesAt(content, last), // [x, y] of each point, also in between while it moves
    found: null, // the points that a search or the lasso picked out
    foundBy: "",
    chosen: null,
    showsClosed: false,
    threshold: firstThreshold(content.edges),
    tool: "pan",
  };
  byId("threshold").value = state.threshold;
  const levels = content.groupings.map((_, i) => i).filter((i) => content.groupings[i].kind === "cluster");
  levels.sort((a, b) => content.groupings[a].names.length - content.groupings[b].names.length);
  const teller = makeTeller(content);
  const map = makeMap(content, state, { hover, leave, choose, select: lassoed });
  const say = (words) => { byId("news").textContent = words; };

  function choose(point) {
    state.chosen = point;
    showPoint(content, state, teller, choose);
    map.draw();
    if (point !== null) {
      byId("point").scrollIntoView({ block: "nearest" });
      const edges = plural(content.edges.at(point).length, "edge");
      say(`Chosen: ${beginning(teller.text(point), 200)}; ${edges}.`);
    }
  }

  function find(points, by) {
    state.found = points === null ? null : new Set(points);
    state.foundBy = by;
    showFound(content, state, teller, choose);
    map.draw();
    if (points === null) return;
    byId("panel").scrollTop = 0; // where they are listed
    say(`${plural(points.length, "point")} ${by}.`);
  }

  function lassoed(points) {
    byId("search").value = "";
    find(points, "inside of the lasso");
  }

  function search() {
    const words = plain(byId("search").value).split(/\s+/).filter(Boolean);
    if (!words.length) return find(null, "");
    content.plain ??= Array.from({ length: content.points }, (_, point) => plain(teller.text(point)));
    const points = [];
    content.plain.forEach((text, point) => {
      if (words.every((word) => text.includes(word))) points.push(point);
    });
    find(points, `with “${words.join(" ")}”`);
  }

  function escape() {
    byId("search").value = "";
    choose(null);
    find(null, "");
  }

  function colour() {
    state.colouring = Number(byId("colour").value);
    state.hidden.clear();
    byId("level").value = levels.indexOf(0);
    redraw();
  }

  function useLevel() {
    state.colouring = levels[Number(byId("level").value)];
    byId("colour").value = 0;
    state.hidden.clear();
    redraw();
  }

  function showLevel() {
    byId("levelbar").hidden = levels.length < 2 || content.groupings[state.colouring].kind !== "cluster";
    const count = content.groupings[state.colouring].names.length;
    byId("level-shown").textContent = `${plural(count, "cluster")}${state.colouring === 0 ? ", taken" : ""}`;
    byId("level").setAttribute("aria-valuetext", byId("level-shown").textContent);
  }

  function toggle(groups, shown) {
    for (const group of groups) state.hidden[shown ? "delete" : "add"](group);
    showLegend(state);
    map.draw();
  }

  function redraw() {
    showLegend(state);
    showLevel();
    showFound(content, state, teller, choose);
    showPoint(content, state, teller, choose);
    showClosed(content, state, teller, choose);
    return map.draw();
  }

  function hover(point, { clientX, clientY }) {
    const tip = byId("tip");
    tip.querySelector(".text").textContent = teller.text(point);
    tip.querySelector(".facts").textContent = teller.facts(point);
    showPicture(tip.querySelector(".picture"), content, point);
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const { right } = byId("map").getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(clientX + 14, right - width - 4))}px`;
    const below = clientY + 14 + height < innerHeight;
    tip.style.top = `${below ? clientY + 14 : Math.max(4, clientY - height - 14)}px`;
  }

  function leave() {
    byId("tip").hidden = true;
  }

  function showTime() {
    const digits = (t) => Number(t.toPrecision(3)), t = content.times[state.time];
    const more = t === 0 ? ", raw" : state.time < last ? ` of ${digits(content.times[last])}` : "";
    byId("time-shown").textContent = `t = ${digits(t)}${more}`;
    byId("time").setAttribute("aria-valuetext", byId("time-shown").textContent);
  }

  function heat() {
    state.time = Number(byId("time").value);
    showTime();
    leave();
    move(content, state, map);
  }

  const useTool = (tool) => () => {
    state.tool = tool;
    byId("move").setAttribute("aria-pressed", String(tool === "pan"));
    byId("lasso").setAttribute("aria-pressed", String(tool === "lasso"));
    map.draw();
  };

  byId("search").addEventListener("input", debounced(search, 150));
  byId("colour").addEventListener("change", colour);
  byId("move").addEventListener("click", useTool("pan"));
  byId("lasso").addEventListener("click", useTool("lasso"));
  byId("whole").addEventListener("click", map.showWhole);
  byId("time").addEventListener("input", heat);
  byId("level").max = levels.length - 1;
  byId("level").value = levels.indexOf(0);
  byId("level").addEventListener("input", useLevel);
  byId("clear").addEventListener("click", () => { byId("search").value = ""; find(null, ""); });
  byId("unchoose").addEventListener("click", () => choose(null));
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") escape(); });
  byId("closed-shown").addEventListener("change", ({ target }) => {
    state.showsClosed = target.checked;
    map.draw();
  });
  byId("threshold").addEventListener("input", ({ target }) => {
    state.threshold = Number(target.value);
    showClosed(content, state, teller, choose);
    if (state.showsClosed) map.draw();
  });
  for (const legend of document.querySelectorAll(".legend")) {
    const groups = content.groupings[legend.dataset.grouping].names.map((_, group) => group);
    legend.querySelector(".all").addEventListener("click", () => toggle(groups, true));
    legend.querySelector(".none").addEventListener("click", () => toggle(groups, false));
    for (const button of legend.querySelectorAll(".group")) {
      const group = Number(button.dataset.group);
      button.addEventListener("click", () => toggle([group], state.hidden.has(group)));
    }
  }
  startTheme(redraw);

  showTime();
  await redraw();
  performance.mark("map drawn");
  document.documentElement.dataset.state = "ready";
}

function placesAt({ arrays, points }, time) {
  return Float32Array.from(arrays.places.subarray(2 * points * time, 2 * points * (time + 1)));
}

// Let the points run to where they lie at the time of the state; many, or unwanted motion: at once.
function move(content, state, map) {
  const from = state.places, to = placesAt(content, state.time), begin = performance.now();
  const runs = content.points <= 10000 && !matchMedia("(prefers-reduced-motion: reduce)").matches;
  state.move = (state.move ?? 0) + 1;
  const own = state.move;
  const step = (now) => {
    if (own !== state.move) return; // another move has begun
    const share = runs ? Math.min(1, Math.max(0, (now - begin) / 500)) : 1;
    state.places = share === 1 ? to : to.map((place, i) => from[i] + share * (place - from[i]));
    map.draw();
    if (share < 1) requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
}

// What a search compares: é is one character in some texts, e and an accent in others.
const plain = (text) => text.normalize("NFC").toLowerCase();

// The highest of 0.25, 0.24, ... below which there are few edges: lines that one can tell apart.
function firstThreshold(edges) {
  let threshold = 25;
  while (threshold > 1 && edges.countBelow(threshold / 100) > 300) threshold -= 1;
  return threshold / 100;
}

function debounced(call, milliseconds) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(call, milliseconds);
  };
}

function hasWebGL() {
  return Boolean(document.createElement("canvas").getContext("webgl"));
}

start().catch((error) => {
  byId("failure").hidden = false;
  byId("failure").textContent = `The map could not be drawn: ${error.message}`;
  throw error;
});
