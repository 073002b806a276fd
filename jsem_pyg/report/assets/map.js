// The map: plotly draws it from the state anew, and its events are handed on.

function makeMap(content, state, on) {
  const element = document.getElementById("map"), margin = 0.03 * content.side;
  const whole = [-margin, content.side + margin];
  const view = { x: whole, y: whole }; // what is seen of it
  let shown = {}, size = "", revision = 0;

  function layout() {
    const axis = { visible: false, zeroline: false, showgrid: false };
    return {
      xaxis: { ...axis, range: [...view.x] },
      yaxis: { ...axis, range: [...view.y], scaleanchor: "x" },
      margin: { l: 0, r: 0, t: 0, b: 0 }, showlegend: false, hovermode: "closest",
      hoverdistance: 8, dragmode: state.tool, selections: [], selectionrevision: ++revision,
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      newselection: { line: { color: pageColour("--ink"), width: 1.5 } },
    };
  }

  function draw() {
    const { places, colouring } = state;
    if (shown.places !== places || shown.colouring !== colouring) {
      const { members } = content.groupings[colouring];
      shown = { places, colouring, at: members.map((points) => coordinates(points, places)) };
    }
    const points = pointTraces(content, state, shown.at);
    const traces = [...closedTrace(content, state), ...points, ...chosenTraces(content, state)];
    const config = { displayModeBar: false, scrollZoom: true, doubleClick: false };
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
      if (!event) return;
      const inside = event.points.map(pointOf).filter((point) => point !== null);
      setTimeout(() => on.select(inside)); // once plotly has done with its event
    });
    element.on("plotly_relayout", (change) => {
      if (!Object.keys(change).some((key) => key.startsWith("xaxis.range"))) return;
      view.x = [...element.layout.xaxis.range];
      view.y = [...element.layout.yaxis.range];
    });
    element.addEventListener("keydown", (event) => {
      if (event.target === element && steer(event.key)) event.preventDefault();
    });
    new ResizeObserver(() => { if (sizeOf(element) !== size) draw(); }).observe(element);
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
function scaled([low, high], factor) {
  const middle = (low + high) / 2, half = ((high - low) / 2) * factor;
  return [middle - half, middle + half];
}
