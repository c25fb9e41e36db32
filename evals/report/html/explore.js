// Lets a reader move threshold, top_k and weight, pin a cell, and see on which queries two cells differ.
(async () => {
  const { grid, html, part, plot, written } = Figures;
  const panel = document.getElementById("explore");
  if (!panel || !grid?.explored) return;
  const { allowed, brief, cells, choose, chosen, draw, follow, settings } = Grid;
  const zipped = new Blob([Uint8Array.from(atob(grid.explored), (one) => one.charCodeAt(0))]);
  const explored = await new Response(zipped.stream().pipeThrough(new DecompressionStream("deflate"))).json();
  const FEWEST = 1e-9, MOST_ROWS = 50;
  const [objective] = grid.metrics, named = objective.name;
  const values = (name) => grid.metrics.find((metric) => metric.name === name)?.values;
  const wrong = values("scope/false_answer"), silent = values("scope/false_abstention");
  const tokens = values(grid.cost), passes = values("queries/pass_rate");
  const hasWeight = explored.weight !== null;
  const state = { weight: explored.weight ?? 0, pinned: grid.recommended };
  const at = (selector) => panel.querySelector(selector);
  const beside = (cell) => explored.beside?.[cell] ?? 0;
  const utility = (cell, weight = state.weight) =>
    hasWeight ? (1 - weight) * explored.gain[cell] + weight * (1 - wrong[cell]) + beside(cell) : explored.gain[cell];

  // Ends of a figure's band; those of utility are the weighted ends of its parts.
  const band = (name, cell) => {
    const ends = (part) => explored.bands[part]?.map((side) => side[cell]);
    if (name !== "utility") return ends(name);
    const found = ends("found"), answered = ends("scope/false_answer");
    if (!found || !hasWeight) return found;
    if (explored.beside) return undefined;  // of what is added there is no band
    return [0, 1].map((side) => (1 - state.weight) * found[side] + state.weight * (1 - answered[1 - side]));
  };

  // The axes of a retrieval, and its cell at places on them.
  const axes = (configuration) => {
    const own = cells.filter((cell) => grid.configuration[cell] === configuration);
    const [topKs, thresholds] = [grid.top_k, grid.threshold].map((all) => [...new Set(own.map((cell) => all[cell]))].sort((a, b) => a - b));
    const numbers = new Map(own.map((cell) => [`${grid.top_k[cell]} ${grid.threshold[cell]}`, cell]));
    return { topKs, thresholds, cell: (topK, threshold) => numbers.get(`${topK} ${threshold}`) };
  };
  const known = grid.configurations.map((_, number) => axes(number));
  const places = (cell) => {
    const { topKs, thresholds } = known[grid.configuration[cell]];
    return [topKs.indexOf(grid.top_k[cell]), thresholds.indexOf(grid.threshold[cell])];
  };

  // What a cell returns of a query: the beginning of a list.
  const results = (cell) => {
    const configuration = grid.configuration[cell], threshold = places(cell)[1];
    return explored.list_of[configuration][threshold].map((list) => result(list, Math.min(grid.top_k[cell], explored.lists[list].length)));
  };
  const result = (list, length) => {
    const score = explored.found[list][length], passed = explored.passes[list][length];
    return {
      chunks: explored.lists[list].slice(0, length),
      found: score < 0 ? null : explored.scores[score], passed: passed < 0 ? null : passed === 1,
    };
  };

  // The first of the best: the least strict, then the cheapest, as the grid itself chooses.
  const preferred = [...allowed].sort((a, b) => (grid.threshold[a] ?? 0) - (grid.threshold[b] ?? 0) || tokens[a] - tokens[b]);
  const best = () => preferred.reduce((first, cell) => (utility(cell) > utility(first) + FEWEST ? cell : first), preferred[0]);

  const COLUMNS = [
    ["found", "found", (cell) => explored.gain[cell], (value) => value.toFixed(3)],
    ["scope/false_answer", "wrongly answered", (cell) => wrong?.[cell], (value) => `${(100 * value).toFixed(0)}%`],
    ["scope/false_abstention", "wrongly silent", (cell) => silent?.[cell], (value) => `${(100 * value).toFixed(0)}%`],
    ...(hasWeight ? [["utility", named === "utility" ? named : "weighted mean", utility, (value) => value.toFixed(3)]] : []),
    ["tokens", "tokens", (cell) => tokens?.[cell], (value) => value.toLocaleString("en", { maximumFractionDigits: 0 })],
    ["passes", "pass", (cell) => passes?.[cell], (value) => `${(100 * value).toFixed(0)}%`],
  ].filter(([, , read]) => read(grid.recommended) !== undefined && read(grid.recommended) !== null);
  const figures = (cell, head) => html("tr", {}, html("th", { scope: "row" }, head, html("small", {}, settings(cell))), ...COLUMNS.map(([name, , read, write]) => {
    const value = read(cell), ends = band(name, cell);
    const made = html("td", { className: "num" }, value === null ? "–" : write(value));
    if (ends && value !== null) made.append(html("small", {}, `${write(ends[0])} … ${write(ends[1])}`));
    Object.assign(made.dataset, { figure: name, value, ends: ends ?? "" });
    return made;
  }));
  const drawFigures = () => at("table").replaceChildren(
    html("thead", {}, html("tr", {}, html("td", {}), ...COLUMNS.map(([, title]) => html("th", { scope: "col", className: "num" }, title)))),
    html("tbody", {}, figures(chosen.cell, "this cell"), figures(state.pinned, state.pinned === grid.recommended ? "pinned: ★ recommended" : "pinned")));

  const LINES = [["found", "blue"], ["utility", "ink"], ["scope/false_answer", "orange"], ["scope/false_abstention", "purple"]];
  // The cells of the table; texts that have no room beside each other stand in rows.
  const flags = (along) => {
    const room = 0.14 * (grid.threshold[along.at(-1)] - grid.threshold[along[0]]);
    const own = explored.levels.filter(([cell]) => grid.configuration[cell] === chosen.configuration)
      .map(([cell, text]) => [grid.threshold[cell], 0, text]).sort(([a], [b]) => a - b);
    const ends = [];
    for (const flag of own) {
      while (flag[0] - ends[flag[1]] < room) flag[1] += 1;
      ends[flag[1]] = flag[0];
    }
    return own;
  };
  const drawCurve = (axis, other) => {
    if (!part(`by_${axis}`, ".plot")) return;
    const fixed = grid[other][chosen.cell], { topKs, thresholds, cell: cellAt } = known[chosen.configuration];
    const along = (axis === "top_k" ? topKs.map((each) => cellAt(each, fixed)) : thresholds.map((each) => cellAt(fixed, each)))
      .filter((cell) => cell !== undefined && grid[axis][cell] !== null);
    if (!along.length) {
      part(`by_${axis}`, ".legend").replaceChildren();
      part(`by_${axis}`, ".plot").replaceChildren(`No ${axis} is in force in ${grid.configurations[chosen.configuration]}.`);
      return;
    }
    const marks = COLUMNS.filter(([name]) => LINES.some(([line]) => line === name)).flatMap(([name, title, read]) => {
      const color = LINES.find(([line]) => line === name)[1], some = along.filter((cell) => read(cell) !== null);
      const areas = band(name, along[0]) ? [{ kind: "area", color, points: some.map((cell) => [grid[axis][cell], ...band(name, cell)]) }] : [];
      return [...areas, { kind: "line", color, label: title, points: some.map((cell) => [grid[axis][cell], read(cell)]) }];
    });
    if (axis === "top_k" && tokens) {
      const most = Math.max(...along.map((cell) => tokens[cell]));
      if (most > 0) marks.push({ kind: "line", color: "green", label: `tokens, of ${Math.round(most).toLocaleString("en")}`, points: along.map((cell) => [grid[axis][cell], tokens[cell] / most]) });
    }
    plot(`by_${axis}`, {
      x: "", y: fixed === null ? "" : `at ${other} ${fixed}`, yEnds: [0, 1], whole: axis === "top_k", size: [330, 170],
      marks: [
        ...marks, { kind: "rule", color: "grey", points: [[grid[axis][chosen.cell]]] },
        { kind: "flag", color: "ink", points: axis === "threshold" ? flags(along) : [] },
      ],
    });
  };

  // Queries on which the chosen and the pinned cell differ.
  const CHANGES = {
    flip: ([now, then]) => now.passed !== then.passed,
    score: ([now, then]) => now.found !== then.found || now.passed !== then.passed,
    result: ([now, then]) => String(now.chunks) !== String(then.chunks),
    all: () => true,
  };
  const VERDICTS = {
    lost: ([now, then]) => then.passed === true && now.passed !== true, gained: ([now, then]) => now.passed === true && then.passed !== true,
    fails: ([now]) => now.passed === false, passes: ([now]) => now.passed === true,
  };
  const of = (result, query) => (query.in_scope ? (result.found === null ? "–" : result.found.toFixed(3)) : result.chunks.length ? "answered" : "silent");
  const side = (result, other, query, title) => {
    const relevant = new Set(query.relevant), there = new Set(other.chunks);
    const shown = result.chunks.map((place) => {
      const [source, breadcrumb, text] = explored.chunks[place];
      const item = html("li", { className: there.has(place) ? "" : "differs" }, ...(relevant.has(place) ? [html("b", { className: "good", title: "relevant" }, "✓ ")] : []), html("span", { className: "source" }, source));
      if (!there.has(place)) item.append(" ", html("b", { className: "fair" }, "only here"));
      item.append(html("span", { className: "dim" }, breadcrumb && ` ${breadcrumb}`), html("p", { className: "preview" }, text));
      return item;
    });
    return html("div", {}, html("p", { className: "dim" }, title), shown.length ? html("ol", { className: "hits" }, ...shown) : html("p", {}, "Nothing is returned."));
  };
  const row = ({ query, pair }) => {
    const [now, then] = pair, made = html("details", { className: "card" });
    const tone = VERDICTS.lost(pair) ? "bad" : VERDICTS.gained(pair) ? "good" : "dim";
    const verdict = (result) => (result.passed === null ? "" : result.passed ? " passes" : " fails");
    made.append(html("summary", {}, html("b", {}, query.id), ` ${query.query} `, html("span", { className: tone }, `${of(then, query)}${verdict(then)} → ${of(now, query)}${verdict(now)}`)));
    made.addEventListener("toggle", () => {
      if (made.open && made.children.length === 1) made.append(html("div", { className: "sides" }, side(then, now, query, "pinned"), side(now, then, query, "this cell")));
    });
    return made;
  };
  const drawQueries = () => {
    const control = (name) => at(`[data-of=${name}]`).value, words = control("words").trim().toLowerCase();
    const now = results(chosen.cell), then = results(state.pinned);
    const differing = explored.queries.map((query, number) => ({ query, pair: [now[number], then[number]] }));
    const shown = differing.filter(({ query, pair }) => CHANGES[control("change")](pair) && (!control("verdict") || VERDICTS[control("verdict")](pair))
      && (!control("type") || query.type === control("type")) && (!control("tag") || query.tags.includes(control("tag")))
      && `${query.id} ${query.query}`.toLowerCase().includes(words));
    shown.sort((a, b) => VERDICTS.lost(b.pair) - VERDICTS.lost(a.pair) || VERDICTS.gained(b.pair) - VERDICTS.gained(a.pair));
    const count = (kind) => differing.filter(({ pair }) => VERDICTS[kind](pair)).length;
    at(".count").textContent = `${shown.length} of ${differing.length} queries · ${count("lost")} lost, ${count("gained")} gained against the pinned cell`;
    const rest = shown.length - MOST_ROWS;
    at(".queries").replaceChildren(...shown.slice(0, MOST_ROWS).map(row), rest > 0 ? `and ${rest} more: filter them` : "");
  };

  // The address holds the state: retrieval, top_k, threshold, weight / the pinned cell.
  const slug = (cell) => [grid.configurations[grid.configuration[cell]].toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^-|-$/g, ""), `k${grid.top_k[cell]}`,
    ...(grid.threshold[cell] === null ? [] : [`t${grid.threshold[cell]}`])].filter(Boolean).join("-");
  const slugs = new Map(cells.map((cell) => [slug(cell), cell]));
  const address = () => `#${slug(chosen.cell)}${hasWeight && state.weight !== explored.weight ? `~w${state.weight}` : ""}${state.pinned === grid.recommended ? "" : `/${slug(state.pinned)}`}`;
  // As evals.compare does: numbers may be written otherwise, and of a retrieval's name the part that one alone has is enough.
  const cellOf = (name) => {
    const cut = /^(?:(.*)-)?k(\d+)(?:-t(-?\d*\.?\d+(?:e[-+]?\d+)?))?$/.exec(name?.toLowerCase() ?? "");
    if (slugs.has(name) || !cut) return slugs.get(name);
    const way = cut[1] ?? "", threshold = cut[3] === undefined ? null : Number(cut[3]);
    const those = [...slugs].filter(([, cell]) => grid.top_k[cell] === Number(cut[2]) && grid.threshold[cell] === threshold)
      .map(([each, cell]) => [each.slice(0, Math.max(0, each.lastIndexOf("-k"))), cell]);
    const same = those.filter(([each]) => each === way), near = those.filter(([each]) => each.startsWith(way) || each.endsWith(`-${way}`));
    const [[, cell] = [], ...more] = same.length ? same : near;
    return more.length ? undefined : cell;
  };
  const restore = () => {
    const [address, pinned] = location.hash.slice(1).split("/"), [name, weight] = address.split("~w"), cell = cellOf(name);
    if (cell === undefined) return;
    state.pinned = cellOf(pinned) ?? grid.recommended;
    if (hasWeight) reweigh(weight !== undefined && Number(weight) >= 0 && Number(weight) <= 1 ? Number(weight) : explored.weight);
    choose("cell", cell);
  };
  const reweigh = (weight) => {
    state.weight = weight;
    const isOwn = weight === explored.weight;
    objective.name = isOwn ? named : `${named === "utility" ? named : "weighted mean"} at weight ${weight}`;
    objective.values = isOwn ? explored.own : cells.map((cell) => utility(cell));
  };

  const steps = { top_k: at("[data-step=top_k]"), threshold: at("[data-step=threshold]") }, weigh = at("[data-weight]"), link = at("[data-link]");
  const drawControls = () => {
    const { topKs, thresholds } = known[chosen.configuration], [topK, threshold] = places(chosen.cell);
    for (const [name, all, place] of [["top_k", topKs, topK], ["threshold", thresholds, threshold]]) {
      Object.assign(steps[name], { max: all.length - 1, value: place, disabled: all.length < 2, ariaValueText: `${name} ${all[place] ?? "none"}` });
      steps[name].nextElementSibling.textContent = all[place] ?? "none";
    }
    if (weigh) {
      weigh.value = state.weight;
      weigh.nextElementSibling.textContent = state.weight.toFixed(2);
    }
    // Within another page, such as MLflow's or a notebook, a link has nowhere to lead: its text can be copied.
    link.textContent = address();
    if (window === window.top) link.href = address();
  };
  for (const input of Object.values(steps)) {
    input.addEventListener("input", () => {
      const { topKs, thresholds, cell } = known[chosen.configuration];
      choose("cell", cell(topKs[steps.top_k.value], thresholds[steps.threshold.value]));
    });
  }
  let paused;
  weigh?.addEventListener("input", () => {
    reweigh(Number(weigh.value));
    drawCell();
    // Map and points follow where the drag pauses: together they are too dear for every step of it.
    clearTimeout(paused);
    paused = setTimeout(draw, 100);
  });
  at("[data-best]").addEventListener("click", () => choose("cell", best()));
  at("[data-pin]").addEventListener("click", () => {
    state.pinned = chosen.cell;
    draw();
  });
  for (const control of panel.querySelectorAll("[data-of]")) control.addEventListener("input", drawQueries);
  window.addEventListener("hashchange", restore);
  explored.own = objective.values;
  const drawCell = () => {
    drawControls();
    drawFigures();
    drawCurve("threshold", "top_k");
    drawCurve("top_k", "threshold");
    drawQueries();
  };
  follow(drawCell);
  restore();
})();
