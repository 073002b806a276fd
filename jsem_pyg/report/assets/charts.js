// Histograms of edges: inside of clusters and between two, counts on a logarithmic scale.

function drawCharts(content) {
  const ink = pageColour("--ink"), line = pageColour("--line");
  const kinds = [["inside", pageColour("--inside")], ["between", pageColour("--between")]];
  document.querySelectorAll(".chart").forEach((element, i) => {
    const { borders } = content.charts[i], width = borders[1] - borders[0];
    const middles = borders.slice(0, -1).map((border) => border + width / 2);
    const bars = kinds.map(([kind, color]) => ({
      type: "bar", name: kind, x: middles, y: content.charts[i][kind], marker: { color },
      hovertemplate: "%{y:,} edges at %{x:.3g}",
    }));
    const axis = { gridcolor: line, linecolor: line, zeroline: false, fixedrange: true };
    Plotly.react(element, bars, {
      barmode: "group", bargap: 0.1, showlegend: false, margin: { l: 46, r: 6, t: 6, b: 24 },
      font: { color: ink, size: 11 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: axis, yaxis: { ...axis, type: "log", dtick: 1, title: { text: "edges", standoff: 4 } },
    }, { displayModeBar: false, responsive: true });
  });
}
