// The map: plotly draws it from the state anew, and its events are handed on.

const MOST_MOVING_NAMES = 12;

function makeMap(content, state, on) {
  const element = document.getElementById("map"), margin = 0.03 * content.side;
  const whole = [-margin, content.side + margin];
  const view = { x: whole, y: whole }; // what is seen of it
  let shown = {}, size = "", revision = 0, pending, pinch = null;

  function layout() {
    const axis = { visible: false, zeroline: false, showgrid: false };
    return {
      xaxis: { ...axis, range: [...view.x] },
      yaxis: { ...axis, range: [...view.y], scaleanchor: "x" },
      width: element.clientWidth, height: element.clientHeight,
      margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: "closest",
      hoverdistance: 8, dragmode: state.tool, selections: [], selectionrevision: ++revision,
      annotations: nameTags(content, state, shown.islands, edgesOfView(), unitsPerPixel()),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      newselection: { line: { color: pageColour("--ink"), width: 1.5 } },
    };
  }

  function unitsPerPixel() {
    const wide = (view.x[1] - view.x[0]) / Math.max(1, element.clientWidth);
    return Math.max(wide, (view.y[1] - view.y[0]) / Math.max(1, element.clientHeight));
  }

  // Left, right, bottom and top of what is seen: the axes keep the middle of the view.
  function edgesOfView() {
    const sides = [[view.x, element.clientWidth], [view.y, element.clientHeight]];
    return sides.flatMap(([[low, high], pixels]) => {
      const middle = (low + high) / 2, half = (pixels / 2) * unitsPerPixel();
      return [middle - half, middle + half];
    });
  }

  function draw() {
    const { places, colouring } = state;
    if (shown.places !== places || shown.colouring !== colouring) {
      const { members } = content.groupings[colouring];
      const at = members.map((points) => coordinates(points, places));
      shown = { places, colouring, at, islands: at.map((each) => islandsOf(each, content.side)) };
    }
    const points = pointTraces(content, state, shown.at);
    const traces = [...closedTrace(content, state), ...points, ...chosenTraces(content, state)];
    const config = { displayModeBar: false, scrollZoom: true, doubleClick: false };
    element.classList.remove("zooming");
    const done = Plotly.react(element, traces, layout(), config);
    if (!size) listen();
    size = sizeOf(element);
    return done;
  }

  // The point behind an event, or null for a line or the ring.
  function pointOf(event) {
    const group = event.data.meta?.group;
    if (group === undefined) return null;
    return content.groupings[state.colouring].members[group][event.pointNumber];
  }

  function listen() {
    element.on("plotly_hover", ({ points, event }) => {
      const point = pointOf(points[0]);
      if (point !== null) on.hover(point, event);
    });
    element.on("plotly_unhover", () => on.leave());
    element.on("plotly_click", ({ points }) => {
      const point = pointOf(points[0]);
      if (point !== null) on.choose(point);
    });
    element.on("plotly_selected", (event) => {
      if (!event?.lassoPoints) return; // drawing anew lets go of it
      const inside = event.points.map(pointOf).filter((point) => point !== null);
      setTimeout(() => on.select(inside)); // once plotly has done with its event
    });
    element.on("plotly_relayouting", () => { // many names would run into one another
      if (element.layout.annotations.length > MOST_MOVING_NAMES) element.classList.add("zooming");
    });
    element.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((key) => key.startsWith("xaxis.range"))) return;
      view.x = [...element.layout.xaxis.range];
      view.y = [...element.layout.yaxis.range];
      clearTimeout(pending);
      pending = setTimeout(draw, 120); // names find room anew
    });
    listenToFingers();
    element.addEventListener("keydown", (event) => {
      if (event.target === element && steer(event.key)) event.preventDefault();
    });
    new ResizeObserver(() => { if (sizeOf(element) !== size) draw(); }).observe(element);
  }

  // Two fingers zoom: what was between them stays there. One moves, by plotly.
  function listenToFingers() {
    const apart = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    const middle = ([a, b]) => {
      const { left, bottom, width, height } = element.getBoundingClientRect();
      return [((a.clientX + b.clientX) / 2 - left) / width, (bottom - (a.clientY + b.clientY) / 2) / height];
    };
    const only = (event) => { event.preventDefault(); event.stopPropagation(); };
    element.addEventListener("touchstart", (event) => {
      if (event.touches.length !== 2) return;
      only(event);
      const { xaxis, yaxis } = element.layout;
      pinch = { from: apart(event.touches), at: middle(event.touches), x: [...xaxis.range], y: [...yaxis.range] };
    }, { capture: true, passive: false });
    element.addEventListener("touchmove", (event) => {
      if (!pinch || event.touches.length !== 2) return;
      only(event);
      const factor = pinch.from / Math.max(1, apart(event.touches)), at = middle(event.touches);
      show(scaled(pinch.x, factor, pinch.at[0], at[0]), scaled(pinch.y, factor, pinch.at[1], at[1]));
    }, { capture: true, passive: false });
    element.addEventListener("touchend", () => { pinch = null; });
  }

  function steer(key) {
    const step = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1] }[key];
    const zoom = { "+": 0.8, "=": 0.8, "-": 1.25 }[key];
    const { xaxis, yaxis } = element.layout;
    if (step) show(shifted(xaxis.range, step[0]), shifted(yaxis.range, step[1]));
    else if (zoom) show(scaled(xaxis.range, zoom), scaled(yaxis.range, zoom));
    else if (key === "0") showWhole();
    else return false;
    return true;
  }

  function show(x, y) {
    Object.assign(view, { x, y });
    draw();
  }

  const showWhole = () => show(whole, whole);
  return { draw, showWhole };
}

const sizeOf = ({ clientWidth, clientHeight }) => `${clientWidth} x ${clientHeight}`;
const shifted = ([low, high], share) => [low + share * (high - low), high + share * (high - low)];
// Longer by a factor; what was at the share `from` of the length is then at the share `to`.
function scaled([low, high], factor, from = 0.5, to = from) {
  const fixed = low + from * (high - low), length = (high - low) * factor;
  return [fixed - to * length, fixed + (1 - to) * length];
}
