// Edges by point and by conductance.

// Python hands over each edge once, at its smaller end; here each end finds it.
function readEdges({ edges_start: start, edges_end: end, edges_conductance: parts }, points, full) {
  const count = end.length, begin = new Uint32Array(count);
  for (let point = 0; point < points; point++) begin.fill(point, start[point], start[point + 1]);
  const first = new Uint32Array(points + 1); // where the edges of each point begin in `all`
  for (let edge = 0; edge < count; edge++) { first[begin[edge] + 1]++; first[end[edge] + 1]++; }
  for (let point = 0; point < points; point++) first[point + 1] += first[point];
  const next = first.slice(), all = new Uint32Array(2 * count);
  for (let edge = 0; edge < count; edge++) { all[next[begin[edge]]++] = edge; all[next[end[edge]]++] = edge; }

  const byConductance = Uint32Array.from(begin.keys()).sort((a, b) => parts[a] - parts[b] || a - b);
  const conductanceOf = (edge) => parts[edge] / full;

  // How many edges conduct less.
  function countBelow(threshold) {
    let low = 0, high = count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (conductanceOf(byConductance[middle]) < threshold) low = middle + 1; else high = middle;
    }
    return low;
  }

  const closed = (number) => Array.from(byConductance.subarray(0, number), (edge) => [begin[edge], end[edge], conductanceOf(edge)]);

  return {
    count, countBelow, closed,
    below: (threshold, most) => closed(Math.min(most, countBelow(threshold))),
    at: (point) => Array.from(all.subarray(first[point], first[point + 1]), (edge) => ({
      other: begin[edge] === point ? end[edge] : begin[edge], conductance: conductanceOf(edge),
    })).sort((a, b) => b.conductance - a.conductance || a.other - b.other),
  };
}
