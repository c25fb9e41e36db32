// Draws the figures of a grid: they follow the cell that the reader selects. explore.js adds what it knows of queries.
const Grid = (() => {
  const { grid, extent, html, part, plot, written } = Figures;
  if (!grid) return null;
  const VIRIDIS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  const WAYS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  const { metrics, configurations, allowed } = grid;
  const [objective] = metrics;
  const isAllowed = new Set(allowed), inSet = new Set(grid.may_be_best), measured = objective.name;
  // What was measured is of the objective as it was: at another weight, which explore.js sets, it is not known.
  const isKnown = () => objective.name === measured, mayBeBest = (cell) => isKnown() && inSet.has(cell);
  const isBest = (cell) => isKnown() && cell === grid.best;
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
  const titled = (cell, metric) => `${settings(cell)}: ${written(objective, objective.values[cell])}, ${brief(metric.name)} ${written(metric, metric.values[cell])}`;
  // The values of top_k and of threshold that a retrieval has.
  const axes = (configuration) => [grid.top_k, grid.threshold].map((all) =>
    [...new Set(all.filter((_, cell) => grid.configuration[cell] === configuration))].sort((a, b) => a - b));

  // The line below the table, of the cell under the pointer or the chosen one.
  const tell = (cell) => {
    const ends = (isKnown() && grid.intervals[cell] || []).filter((end) => end !== null).map((end) => written(objective, end));
    const said = [settings(cell), `${brief(objective.name)} ${written(objective, objective.values[cell])}${ends.length ? ` (${ends.join(" … ")})` : ""}`];
    if (cell === grid.recommended) said.push("★ recommended");
    if (isBest(cell)) said.push("best as measured");
    if (mayBeBest(cell)) said.push("may be the best");
    if (!isAllowed.has(cell)) said.push("does not meet the constraints");
    part("cells", ".told").replaceChildren(...said.flatMap((text) => [html("span", {}, text), " "]));
  };

  // Two digits are what fits a cell on a phone.
  const twoDigits = ({ digits }, value) => {
    if (value === null) return "";
    if (value > 1 || value < 0) return value >= 1000 ? `${(value / 1000).toFixed(1)}k` : value.toFixed(Math.abs(value) < 10 && digits ? 1 : 0);
    return value.toFixed(2).replace(/\.00$/, "").replace(/^0\./, ".");
  };
  const color = (share) => {
    const at = share * (VIRIDIS.length - 1), from = Math.min(Math.floor(at), VIRIDIS.length - 2);
    return VIRIDIS[from].map((value, channel) => Math.round(value + (VIRIDIS[from + 1][channel] - value) * (at - from)));
  };
  const drawCells = () => {
    const metric = metrics[chosen.metric], [topKs, thresholds] = axes(chosen.configuration);
    // One scale for all configurations; bright is good.
    const ends = extent(metric.values.filter((value) => value !== null));
    const [worst, best] = metric.lower ? ends.reverse() : ends;
    const place = (cell) => [thresholds.indexOf(grid.threshold[cell]), topKs.indexOf(grid.top_k[cell])];
    const region = new Set(cells.filter((cell) => grid.configuration[cell] === chosen.configuration && mayBeBest(cell)).map((cell) => place(cell).join()));
    // One line around all cells that may be the best: on each side of which there is none.
    const outline = (cell) => Object.values(WAYS).filter(([down, right]) => !region.has([place(cell)[0] + down, place(cell)[1] + right].join()))
      .flatMap(([down, right]) => [[1.5, "#fff"], [3, "#000"]].map(([width, shade]) => `inset ${-right * width}px ${-down * width}px ${shade}`)).join();
    const draw = (cell) => {
      const value = metric.values[cell];
      const named = cell === grid.recommended ? "★" : isBest(cell) ? "○" : "", mark = named || twoDigits(metric, value);
      const made = html("td", { tabIndex: -1, ariaLabel: `${settings(cell)}, ${mark}: ${written(metric, value)}` }, named ? html("b", {}, named) : mark);
      made.dataset.cell = cell;
      drawnCells.set(cell, made);
      if (value !== null && isAllowed.has(cell)) {
        const share = (value - worst) / (best - worst);
        // Up to there white has the higher contrast.
        Object.assign(made.style, { background: `rgb(${color(share)})`, color: share > 0.44 ? "#000" : "#fff" });
      }
      if (mayBeBest(cell)) made.style.boxShadow = outline(cell);
      return made;
    };
    // Of many headings only some fit.
    const headings = (values, scope) => values.map((value, place) =>
      html("th", { scope, className: place % Math.ceil(values.length / 20) ? "hidden" : "" }, value ?? "–"));
    drawnCells.clear();
    const rows = new Map(headings(thresholds, "row").map((heading, place) => [thresholds[place], html("tr", {}, heading)]));
    for (const cell of cells.filter((one) => grid.configuration[one] === chosen.configuration).sort((a, b) => grid.top_k[a] - grid.top_k[b])) {
      rows.get(grid.threshold[cell]).append(draw(cell));
    }
    table.style.setProperty("--columns", topKs.length);
    table.style.setProperty("--rows", thresholds.length);
    table.replaceChildren(html("thead", {}, html("tr", {}, html("td", {}), ...headings(topKs, "col"))), html("tbody", {}, ...rows.values()));
    const bar = html("i", {});
    bar.style.background = `linear-gradient(to right,${VIRIDIS.map((rgb) => `rgb(${rgb})`).join()})`;
    part("cells", ".scale").replaceChildren(written(metric, worst), bar, written(metric, best));
  };
  const mark = (is) => Object.assign(drawnCells.get(chosen.cell), { tabIndex: is ? 0 : -1, ariaSelected: is });

  let tradeoff = null;
  const drawTradeoff = () => {
    const x = metrics[chosen.against];
    const place = (cell) => [x.values[cell], objective.values[cell]];
    // Of many cells the points are dear, and another choice moves the ring alone.
    const key = `${x.name} ${objective.name}`, ring = tradeoff?.key === key && part("tradeoff", ".ring > circle");
    if (ring && !place(chosen.cell).includes(null) && isAllowed.has(chosen.cell)) {
      ring.setAttribute("cx", tradeoff.x(x.values[chosen.cell]));
      ring.setAttribute("cy", tradeoff.y(objective.values[chosen.cell]));
      ring.dataset.cell = chosen.cell;
      ring.firstChild.textContent = titled(chosen.cell, x);
      return;
    }
    const known = allowed.filter((cell) => !place(cell).includes(null));
    // Of points on one place the first is drawn.
    const points = (which) => {
      const kept = [...new Map(which.toReversed().map((cell) => [place(cell).map((value) => value.toPrecision(3)).join(), cell])).values()];
      return { cells: kept, points: kept.map(place), titles: kept.map((cell) => titled(cell, x)) };
    };
    const front = [];
    for (const [a, b] of known.map(place).sort((a, b) => (x.lower ? a[0] - b[0] : b[0] - a[0]) || b[1] - a[1])) {
      const last = front.at(-1);
      if (!last) front.push([a, b]);
      else if (b > last[1]) front.push([a, last[1]], [a, b]);
    }
    tradeoff = { key, ...plot("tradeoff", {
      x: x.name + (x.lower ? "" : " (more is better)"), y: objective.name,
      marks: [
        { kind: "dots", color: "grey", label: cells.some(mayBeBest) ? "other cells" : "cells", ...points(known.filter((cell) => !mayBeBest(cell))) },
        { kind: "dots", color: "blue", label: "may be the best", ...points(known.filter((cell) => mayBeBest(cell))) },
        { kind: "line", color: "ink", label: "none is better in both", points: front },
        { kind: "star", color: "orange", ...points(known.filter((cell) => cell === grid.recommended)) },
        { kind: "ring", color: "ink", ...points(known.filter((cell) => cell === chosen.cell)) },
      ],
    }) };
  };

  const followers = [];
  const draw = () => {
    for (const control of document.querySelectorAll("[data-grid]")) control.value = chosen[control.dataset.grid];
    const map = `${metrics[chosen.metric].name} of ${chosen.configuration}, by ${objective.name}`;
    if (table.dataset.map !== map) drawCells();
    table.dataset.map = map;
    mark(true);
    tell(chosen.cell);
    drawTradeoff();
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
  for (const area of [table, part("tradeoff", ".plot"), document.getElementById("decision")]) {
    area?.addEventListener("click", (event) => cellOf(event) && choose("cell", cellOf(event)));
  }
  table.addEventListener("pointerover", (event) => tell(Number(cellOf(event) ?? chosen.cell)));
  table.addEventListener("pointerleave", () => tell(chosen.cell));
  table.addEventListener("keydown", (event) => {
    const way = WAYS[event.key], from = event.target;
    if (!way) return;
    event.preventDefault();
    const to = table.rows[from.parentNode.rowIndex + way[0]]?.cells[from.cellIndex + way[1]];
    if (!to?.dataset.cell) return;
    choose("cell", to.dataset.cell);
    to.focus();
  });
  draw();
  const follow = (what) => {
    followers.push(what);
    what();
  };
  return { allowed, axes, cells, choose, chosen, draw, follow, settings };
})();
