// Lets a reader move threshold, top_k and weight, pin a cell, and see on which queries two cells differ.
(async () => {
  const { grid, html, part, plot } = Figures;
  const panel = document.getElementById("explore");
  if (!panel) return;
  const { allowed, axes, cells, choose, chosen, draw, follow, settings } = Grid;
  const zipped = new Blob([Uint8Array.from(atob(grid.explored), (one) => one.charCodeAt(0))]);
  const explored = await new Response(zipped.stream().pipeThrough(new DecompressionStream("deflate"))).json();
  const FEWEST = 1e-9, MOST_ROWS = 50;
  const [objective] = grid.metrics, own = objective.values, named = objective.name;
  const hasWeight = explored.weight !== null;
  const state = { weight: explored.weight, pinned: grid.recommended };
  const at = (selector) => panel.querySelector(selector);
  const mean = (name) => (cell) => grid.metrics.find((metric) => metric.name === name)?.values[cell] ?? null;
  const ends = (name) => (cell) => explored.bands[name]?.map((side) => side[cell]);
  const wrong = mean("scope/false_answer"), tokens = mean(grid.cost), found = ends("found"), answered = ends("scope/false_answer");
  // Another weight moves a cell by what silence is worth more than what is found.
  const worth = (cell) => hasWeight ? own[cell] + (state.weight - explored.weight) * (1 - wrong(cell) - explored.gain[cell]) : own[cell];
  // Ends of the objective's band are the weighted ends of its parts.
  const worthEnds = (cell) => hasWeight && explored.has_band && found(cell)
    ? [0, 1].map((side) => (1 - state.weight) * found(cell)[side] + state.weight * (1 - answered(cell)[1 - side])) : undefined;
  const score = (value) => value.toFixed(3), percent = (value) => `${(100 * value).toFixed(0)}%`;
  const whole = (value) => value.toLocaleString("en", { maximumFractionDigits: 0 });
  const COLUMNS = [
    { name: "found", title: "found", color: "blue", value: (cell) => explored.gain[cell], ends: found, written: score },
    { name: "scope/false_answer", title: "wrongly answered", color: "orange", value: wrong, ends: answered, written: percent },
    { name: "scope/false_abstention", title: "wrongly silent", color: "purple", value: mean("scope/false_abstention"), ends: ends("scope/false_abstention"), written: percent },
    ...(hasWeight ? [{ name: "objective", title: "objective", color: "ink", value: worth, ends: worthEnds, written: score }] : []),
    { name: "tokens", title: "tokens", value: tokens, written: whole },
    { name: "passes", title: "pass", value: mean("queries/pass_rate"), written: percent },
  ].filter((column) => column.value(grid.recommended) !== null);

  const figures = (cell, head) => html("tr", {}, html("th", { scope: "row" }, head, html("small", {}, settings(cell))), ...COLUMNS.map((column) => {
    const value = column.value(cell), range = column.ends?.(cell);
    const made = html("td", { className: "num" }, value === null ? "–" : column.written(value));
    if (range && value !== null) made.append(html("small", {}, range.map(column.written).join(" … ")));
    Object.assign(made.dataset, { figure: column.name, value, ends: range ?? "" });
    return made;
  }));
  const drawFigures = () => at("table").replaceChildren(
    html("thead", {}, html("tr", {}, html("td", {}), ...COLUMNS.map(({ title }) => html("th", { scope: "col", className: "num" }, title)))),
    html("tbody", {}, figures(chosen.cell, "this cell"), figures(state.pinned, state.pinned === grid.recommended ? "pinned: ★ recommended" : "pinned")));

  const drawCurve = (axis, other) => {
    if (!part(`by_${axis}`, ".plot")) return;
    const fixed = grid[other][chosen.cell], values = grid[axis];
    const along = cells.filter((cell) => grid.configuration[cell] === chosen.configuration && grid[other][cell] === fixed && values[cell] !== null)
      .sort((a, b) => values[a] - values[b]);
    const marks = COLUMNS.filter(({ color }) => color).flatMap(({ color, title, value, ends }) => {
      const some = along.filter((cell) => value(cell) !== null);
      return [
        { kind: "area", color, points: some.filter((cell) => ends(cell)).map((cell) => [values[cell], ...ends(cell)]) },
        { kind: "line", color, label: title, points: some.map((cell) => [values[cell], value(cell)]) },
      ];
    });
    const most = Math.max(...along.map(tokens));
    if (axis === "top_k" && most > 0) {
      marks.push({ kind: "line", color: "green", label: `tokens, of ${whole(most)}`, points: along.map((cell) => [values[cell], tokens(cell) / most]) });
    }
    // The cells of the table, in three rows so that their texts have room.
    const levels = explored.levels.filter(([cell]) => axis === "threshold" && grid.configuration[cell] === chosen.configuration);
    plot(`by_${axis}`, {
      x: "", y: fixed === null ? "" : `at ${other} ${fixed}`, yEnds: [0, 1], whole: axis === "top_k", size: [330, 170],
      marks: [
        ...marks, { kind: "rule", color: "grey", points: along.length ? [[values[chosen.cell]]] : [] },
        { kind: "flag", color: "ink", points: levels.map(([cell, text], place) => [values[cell], place % 3, text]) },
      ],
    });
    if (!along.length) part(`by_${axis}`, ".plot").replaceChildren(`No ${axis} is in force in ${grid.configurations[chosen.configuration]}.`);
  };

  // What a cell returns of each query: the beginning of a list.
  const results = (cell) => {
    const [, thresholds] = axes(grid.configuration[cell]);
    return explored.list_of[grid.configuration[cell]][thresholds.indexOf(grid.threshold[cell])].map((list) => {
      const chunks = explored.lists[list].slice(0, grid.top_k[cell]);
      const place = explored.found[list][chunks.length], passed = explored.passes[list][chunks.length];
      return { chunks, found: place < 0 ? null : explored.scores[place], passed: passed < 0 ? null : passed === 1 };
    });
  };
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
  const side = (result, other, query, title) => {
    const shown = result.chunks.map((place) => {
      const [source, breadcrumb, text] = explored.chunks[place], isHere = !other.chunks.includes(place);
      return html("li", { className: isHere ? "differs" : "" },
        query.relevant.includes(place) ? html("b", { className: "good", title: "relevant" }, "✓ ") : "", html("span", { className: "source" }, source),
        isHere ? html("b", { className: "fair" }, " only here") : "", html("span", { className: "dim" }, ` ${breadcrumb}`), html("p", { className: "preview", dir: "auto" }, text));
    });
    return html("div", {}, html("p", { className: "dim" }, title), shown.length ? html("ol", { className: "hits" }, ...shown) : html("p", {}, "Nothing is returned."));
  };
  const outcome = (result, query) => (query.in_scope ? (result.found === null ? "–" : score(result.found)) : result.chunks.length ? "answered" : "silent")
    + (result.passed === null ? "" : result.passed ? " passes" : " fails");
  const row = ({ query, pair }) => {
    const [now, then] = pair, tone = VERDICTS.lost(pair) ? "bad" : VERDICTS.gained(pair) ? "good" : "dim";
    const made = html("details", { className: "card" }, html("summary", {}, html("b", {}, query.id), " ", html("bdi", {}, query.query), " ",
      html("span", { className: tone }, `${outcome(then, query)} → ${outcome(now, query)}`)));
    made.addEventListener("toggle", () => made.append(html("div", { className: "sides" }, side(then, now, query, "pinned"), side(now, then, query, "this cell"))), { once: true });
    return made;
  };
  const drawQueries = () => {
    const { change, verdict, type, tag, words } = Object.fromEntries(Array.from(panel.querySelectorAll("[data-of]"), ({ dataset, value }) => [dataset.of, value]));
    const now = results(chosen.cell), then = results(state.pinned);
    const every = explored.queries.map((query, number) => ({ query, pair: [now[number], then[number]] }));
    const shown = every.filter(({ query, pair }) => CHANGES[change](pair) && (!verdict || VERDICTS[verdict](pair))
      && (!type || query.type === type) && (!tag || query.tags.includes(tag))
      && `${query.id} ${query.query}`.toLowerCase().includes(words.trim().toLowerCase()));
    shown.sort((a, b) => VERDICTS.lost(b.pair) - VERDICTS.lost(a.pair) || VERDICTS.gained(b.pair) - VERDICTS.gained(a.pair));
    const count = (kind) => every.filter(({ pair }) => VERDICTS[kind](pair)).length;
    at(".count").textContent = `${shown.length} of ${every.length} queries · ${count("lost")} lost, ${count("gained")} gained against the pinned cell`;
    const rest = shown.length - MOST_ROWS;
    at(".queries").replaceChildren(...shown.slice(0, MOST_ROWS).map(row), rest > 0 ? `and ${rest} more: filter them` : "");
  };

  // The address holds the state: the cell, as evals.compare names it, the weight / the pinned cell.
  const { addresses } = explored;
  const address = () => `#${addresses[chosen.cell]}${state.weight === explored.weight ? "" : `~w${state.weight}`}${state.pinned === grid.recommended ? "" : `/${addresses[state.pinned]}`}`;
  // As evals.compare reads it: of a retrieval the beginning is enough, and numbers may be written otherwise.
  const cellOf = (name) => {
    const cut = /^(?:(.*)-)?k(\d+)(?:-t(-?\d*\.?\d+(?:e[-+]?\d+)?))?$/.exec(name?.toLowerCase() ?? "");
    if (addresses.includes(name) || !cut) return addresses.indexOf(name);
    const [, way = "", topK, threshold = null] = cut, wayOf = (cell) => addresses[cell].slice(0, Math.max(0, addresses[cell].lastIndexOf("-k")));
    const those = cells.filter((cell) => grid.top_k[cell] === Number(topK) && grid.threshold[cell] === (threshold && Number(threshold)));
    const same = those.filter((cell) => wayOf(cell) === way), near = those.filter((cell) => wayOf(cell).startsWith(way));
    const [cell, ...more] = same.length ? same : near;
    return more.length ? -1 : cell ?? -1;
  };
  const restore = () => {
    const [view, other] = location.hash.slice(1).split("/"), [name, weight] = view.split("~w"), cell = cellOf(name), pinned = cellOf(other);
    if (cell < 0) return;
    state.pinned = pinned < 0 ? grid.recommended : pinned;
    reweigh(weight >= 0 && weight <= 1 ? Number(weight) : explored.weight);
    choose("cell", cell);
  };
  const reweigh = (weight) => {
    if (!hasWeight) return;
    state.weight = weight;
    objective.name = weight === explored.weight ? named : `${named} at weight ${weight}`;
    objective.values = cells.map(worth);
  };

  const steps = { top_k: at("[data-step=top_k]"), threshold: at("[data-step=threshold]") }, weigh = at("[data-weight]"), link = at("[data-link]");
  const drawControls = () => {
    axes(chosen.configuration).forEach((values, number) => {
      const [name, step] = Object.entries(steps)[number], value = grid[name][chosen.cell] ?? "none";
      Object.assign(step, { max: values.length - 1, value: values.indexOf(grid[name][chosen.cell]), disabled: values.length < 2, ariaValueText: `${name} ${value}` });
      step.nextElementSibling.textContent = value;
    });
    if (weigh) {
      weigh.value = state.weight;
      weigh.nextElementSibling.textContent = state.weight.toFixed(2);
    }
    // Within another page, such as MLflow's or a notebook, a link has nowhere to lead: its text can be copied.
    link.textContent = address();
    if (window === window.top) link.href = address();
  };
  for (const step of Object.values(steps)) {
    step.addEventListener("input", () => {
      const [topKs, thresholds] = axes(chosen.configuration), [topK, threshold] = [topKs[steps.top_k.value], thresholds[steps.threshold.value]];
      choose("cell", cells.find((cell) => grid.configuration[cell] === chosen.configuration && grid.top_k[cell] === topK && grid.threshold[cell] === threshold));
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
  // The first of the best: the least strict, then the cheapest, as the grid itself chooses.
  const preferred = [...allowed].sort((a, b) => (grid.threshold[a] ?? 0) - (grid.threshold[b] ?? 0) || tokens(a) - tokens(b));
  at("[data-best]").addEventListener("click", () => choose("cell", preferred.reduce((first, cell) => (worth(cell) > worth(first) + FEWEST ? cell : first))));
  at("[data-pin]").addEventListener("click", () => {
    state.pinned = chosen.cell;
    draw();
  });
  for (const control of panel.querySelectorAll("[data-of]")) control.addEventListener("input", drawQueries);
  window.addEventListener("hashchange", restore);
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
