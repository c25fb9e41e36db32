// Draws the figures of a grid: they follow the cell that the reader selects. explore.js adds what it knows of queries.
const Grid = (() => {
  const { grid, extent, html, part, plot, written } = Figures;
  if (!grid) return null;
  const COLORS = ["blue", "orange", "green", "purple", "teal", "red"];
  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const WAYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const { metrics, configurations, allowed } = grid;
  const [objective] = metrics;
  const mayBeBest = new Set(grid.may_be_best), isAllowed = new Set(allowed);
  const cells = grid.top_k.map((_, cell) => cell);
  const table = part("cells", "table"), drawnCells = new Map();
  // Cell, and numbers of the metrics that colour the cells and that the objective is set against.
  const chosen = {
    cell: grid.recommended, metric: 0,
    against: Math.max(metrics.findIndex((metric) => metric.name === grid.cost), Math.min(1, metrics.length - 1)),
    get configuration() { return grid.configuration[this.cell]; },
    // The best cell of it, or where none is allowed its first.
    set configuration(number) {
      const those = cells.filter((cell) => grid.configuration[cell] === number);
      const ranked = those.filter((cell) => isAllowed.has(cell)).sort((a, b) => objective.values[b] - objective.values[a]);
      this.cell = ranked[0] ?? those[0];
    },
  };
  const brief = (name) => (/^\w+\/\w+$/.test(name) ? name.split("/")[1] : name);
  const settings = (cell) => (configurations.length > 1 ? `${configurations[grid.configuration[cell]]}, ` : "")
    + `top_k ${grid.top_k[cell]}` + (grid.threshold[cell] === null ? "" : `, threshold ${grid.threshold[cell]}`);

  // The line below the table, of the cell under the pointer or the chosen one.
  const tell = (cell) => {
    const ends = (grid.intervals[cell] ?? []).filter((end) => end !== null).map((end) => written(objective, end));
    // The table of the two cells tells the rest, where it is there.
    const said = [settings(cell), ...metrics.slice(0, grid.explored ? 1 : metrics.length).map((metric, number) =>
      `${brief(metric.name)} ${written(metric, metric.values[cell])}${number || !ends.length ? "" : ` (${ends.join(" … ")})`}`)];
    if (cell === grid.recommended) said.push("★ recommended");
    if (cell === grid.best) said.push("best as measured");
    if (mayBeBest.has(cell)) said.push("may be the best");
    if (!isAllowed.has(cell)) said.push("does not meet the constraints");
    part("cells", ".told").replaceChildren(...said.flatMap((text) => [html("span", {}, text), " "]));
  };

  // Two digits are what fits a cell on a phone.
  const twoDigits = (value) => {
    if (value === null) return "";
    if (value > 1) return value >= 1000 ? `${(value / 1000).toFixed(1)}k` : value.toFixed(0);
    return value.toFixed(2).replace(/\.00$/, "").replace(/^0\./, ".");
  };
  const color = (share) => {
    const at = share * (VIRIDIS.length - 1), from = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return VIRIDIS[from].map((value, channel) => Math.round(value + (VIRIDIS[from + 1][channel] - value) * (at - from)));
  };
  // Black or white, whichever has the higher contrast: by the luminance of WCAG 2.
  const ink = (rgb) => {
    const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  };

  const drawCells = () => {
    const metric = metrics[chosen.metric];
    const here = cells.filter((cell) => grid.configuration[cell] === chosen.configuration);
    const [topKs, thresholds] = [grid.top_k, grid.threshold].map((all) =>
      [...new Set(here.map((cell) => all[cell]))].sort((a, b) => a - b));
    const numbers = new Map(here.map((cell) => [`${thresholds.indexOf(grid.threshold[cell])} ${topKs.indexOf(grid.top_k[cell])}`, cell]));
    const at = (row, column) => numbers.get(`${row} ${column}`);
    // One scale for all configurations; bright is good.
    const ends = extent(metric.values.filter((value) => value !== null));
    const [worst, best] = metric.lower ? ends.reverse() : ends;
    const outline = (row, column) => [[-1, 0], [1, 0], [0, -1], [0, 1]]
      .filter(([down, right]) => !mayBeBest.has(at(row + down, column + right)))
      .flatMap(([down, right]) => [[1.5, "#fff"], [3, "#000"]].map(([width, shade]) => `inset ${-right * width}px ${-down * width}px ${shade}`));
    const td = (row, column) => {
      const cell = at(row, column);
      if (cell === undefined) return html("td", {});
      const value = metric.values[cell];
      const named = cell === grid.recommended ? "★" : cell === grid.best ? "○" : "", mark = named || twoDigits(value);
      const made = html("td", { tabIndex: -1, ariaLabel: `${settings(cell)}, ${mark}: ${written(metric, value)}` }, named ? html("b", {}, named) : mark);
      made.dataset.cell = cell;
      drawnCells.set(cell, made);
      if (value !== null && isAllowed.has(cell)) {
        const rgb = color((value - worst) / (best - worst));
        Object.assign(made.style, { background: `rgb(${rgb})`, color: ink(rgb) });
      }
      if (mayBeBest.has(cell)) made.style.boxShadow = outline(row, column).join();
      return made;
    };
    // Of many headings only some fit.
    const headings = (values, scope) => values.map((value, place) =>
      html("th", { scope, className: place % Math.ceil(values.length / 20) ? "hidden" : "" }, value ?? "–"));
    const rows = headings(thresholds, "row");
    drawnCells.clear();
    table.style.setProperty("--columns", topKs.length);
    table.style.setProperty("--rows", thresholds.length);
    table.replaceChildren(
      html("thead", {}, html("tr", {}, html("td", {}), ...headings(topKs, "col"))),
      html("tbody", {}, ...rows.map((heading, row) => html("tr", {}, heading, ...topKs.map((_, column) => td(row, column))))));
    const bar = html("i", {});
    bar.style.background = `linear-gradient(to right,${VIRIDIS.map((rgb) => `rgb(${rgb})`).join()})`;
    part("cells", ".scale").replaceChildren(written(metric, worst), bar, written(metric, best));
  };
  const mark = (is) => {
    const made = drawnCells.get(chosen.cell);
    if (made) Object.assign(made, { tabIndex: is ? 0 : -1, ariaSelected: is });
  };

  const titled = (cell, x) => `${settings(cell)}: ${written(objective, objective.values[cell])}, ${brief(x.name)} ${written(x, x.values[cell])}`;
  let tradeoff = null;
  const drawTradeoff = () => {
    const x = metrics[chosen.against];
    // Of many cells the points are dear, and another choice moves the ring alone.
    const key = `${x.name} ${objective.name}`, ring = tradeoff?.key === key && part("tradeoff", ".ring > circle");
    if (ring && x.values[chosen.cell] !== null && objective.values[chosen.cell] !== null) {
      ring.setAttribute("cx", tradeoff.x(x.values[chosen.cell]));
      ring.setAttribute("cy", tradeoff.y(objective.values[chosen.cell]));
      ring.dataset.cell = chosen.cell;
      ring.firstChild.textContent = titled(chosen.cell, x);
      return;
    }
    const known = allowed.filter((cell) => x.values[cell] !== null && objective.values[cell] !== null);
    const [left, right] = extent(known.map((cell) => x.values[cell])), [low, high] = extent(known.map((cell) => objective.values[cell]));
    // Of points on one pixel the first is drawn.
    const pixel = (cell) => Math.round(440 * (x.values[cell] - left) / (right - left)) * 1e3
      + Math.round(260 * (objective.values[cell] - low) / (high - low));
    const points = (which) => {
      const isKnown = which.filter((cell) => x.values[cell] !== null && objective.values[cell] !== null);
      const kept = [...new Map(isKnown.toReversed().map((cell) => [pixel(cell), cell])).values()];
      return {
        cells: kept, points: kept.map((cell) => [x.values[cell], objective.values[cell]]),
        titles: kept.map((cell) => titled(cell, x)),
      };
    };
    const front = [];
    const sorted = known.map((cell) => [x.values[cell], objective.values[cell]]).sort((a, b) => (x.lower ? a[0] - b[0] : b[0] - a[0]) || b[1] - a[1]);
    for (const [a, b] of sorted) {
      const last = front.at(-1);
      if (!last) front.push([a, b]);
      else if (b > last[1]) front.push([a, last[1]], [a, b]);
    }
    tradeoff = { key, ...plot("tradeoff", {
      x: x.name + (x.lower ? "" : " (more is better)"), y: objective.name,
      marks: [
        { kind: "dots", color: "grey", label: mayBeBest.size ? "other cells" : "cells", ...points(allowed.filter((cell) => !mayBeBest.has(cell))) },
        { kind: "dots", color: "blue", label: "may be the best", ...points(allowed.filter((cell) => mayBeBest.has(cell))) },
        { kind: "line", color: "ink", label: "none is better in both", points: front },
        { kind: "star", color: "orange", ...points([grid.recommended]) },
        { kind: "ring", color: "ink", ...points([chosen.cell]) },
      ],
    }) };
  };

  const drawCurves = (axis, other) => {
    if (!part(`by_${axis}`, ".plot")) return;
    const here = grid[other][chosen.cell];
    if (grid[axis][chosen.cell] === null) {
      part(`by_${axis}`, ".legend").replaceChildren();
      part(`by_${axis}`, ".plot").replaceChildren(`No ${axis} is in force in ${configurations[chosen.configuration]}.`);
      return;
    }
    const along = cells.filter((cell) => grid.configuration[cell] === chosen.configuration && grid[other][cell] === here)
      .sort((a, b) => grid[axis][a] - grid[axis][b]);
    const shares = metrics.filter((metric) => metric.values.every((value) => value === null || (value >= 0 && value <= 1)));
    plot(`by_${axis}`, {
      x: "", y: here === null ? "" : `at ${other} ${here}`, yEnds: [0, 1], whole: axis === "top_k", size: [330, 170],
      marks: [
        { kind: "rule", color: "grey", points: [[grid[axis][chosen.cell]]] },
        ...shares.slice(0, COLORS.length).map((metric, number) => ({
          kind: "line", color: COLORS[number], label: brief(metric.name),
          points: along.filter((cell) => metric.values[cell] !== null).map((cell) => [grid[axis][cell], metric.values[cell]]),
        })),
      ],
    });
  };

  const followers = [];
  const draw = () => {
    for (const control of document.querySelectorAll("[data-grid]")) control.value = chosen[control.dataset.grid];
    const map = `${metrics[chosen.metric].name} of ${chosen.configuration}`;
    if (table && table.dataset.map !== map) drawCells();
    if (table) {
      table.dataset.map = map;
      mark(true);
      tell(chosen.cell);
    }
    drawTradeoff();
    if (!grid.explored) {
      drawCurves("threshold", "top_k");
      drawCurves("top_k", "threshold");
    }
    followers.forEach((follow) => follow());
  };
  const choose = (what, value) => {
    mark(false);
    chosen[what] = Number(value);
    draw();
  };
  const cellOf = (event) => event.target.closest("[data-cell]")?.dataset.cell;
  for (const control of document.querySelectorAll("[data-grid]")) {
    control.addEventListener("input", () => choose(control.dataset.grid, control.value));
  }
  for (const area of [table, part("tradeoff", ".plot")]) {
    area?.addEventListener("click", (event) => cellOf(event) && choose("cell", cellOf(event)));
  }
  table?.addEventListener("pointerover", (event) => tell(Number(cellOf(event) ?? chosen.cell)));
  table?.addEventListener("pointerleave", () => tell(chosen.cell));
  table?.addEventListener("keydown", (event) => {
    const way = WAYS[event.key], from = event.target;
    if (!way) return;
    event.preventDefault();
    const to = table.rows[from.parentNode.rowIndex + way[0]]?.cells[from.cellIndex + way[1]];
    if (!to?.dataset.cell) return;
    choose("cell", to.dataset.cell);
    to.focus();
  });
  for (const button of document.querySelectorAll("#decision [data-cell]")) button.addEventListener("click", () => choose("cell", button.dataset.cell));
  draw();
  const follow = (what) => {
    followers.push(what);
    what();
  };
  return { allowed, brief, cells, choose, chosen, draw, follow, settings };
})();
