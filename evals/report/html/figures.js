// Draws plots as SVG, first those of a run; those of a grid are in grid.js. What is drawn is in #figures-data.
const Figures = (() => {
  const [LEFT, RIGHT, TOP, BOTTOM] = [44, 10, 26, 40];
  const part = (name, selector) => document.querySelector(`#figure-${name} ${selector}`);
  const shown = (value) => value.toLocaleString("en", { maximumSignificantDigits: 6 });
  const written = ({ digits }, value) => value === null ? "–"
    : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };
  const html = (name, properties, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };

  // Round numbers between two ends: 1, 2 or 5 times a power of ten apart.
  const ticks = ([low, high], whole) => {
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max([1, 2, 5, 10].map((one) => one * power).find((one) => one > rough * 0.999), whole ? 1 : 0);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
  };
  const extent = (values) => {
    if (!values.length) return [0, 1];
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return low < high ? [low, high] : low >= 0 && low <= 1 ? [0, 1] : [low - 0.5, high + 0.5];
  };
  const padded = ([low, high]) => [low - (high - low) * 0.04, high + (high - low) * 0.04];
  const scale = ([low, high], from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);

  // Points are [x, y], of bars [x from, x to, y], of dots [x, y, number], of an area [x, low, high], of a rule [x], of a
  // flag [x, row above the plot, text], of counts those of bars.
  const KINDS = {
    bars: (points, x, y) => points.map(([from, to, height]) => svg("rect", {
      x: x(from), width: Math.max(x(to) - x(from) - 0.5, 0.5),
      y: Math.min(y(height), y(0)), height: Math.abs(y(height) - y(0)),
    })),
    line: (points, x, y) => [svg("polyline", { points: points.map(([a, b]) => `${x(a)},${y(b)}`).join(" ") })],
    dots: (points, x, y) => points.map(([a, b, number = 1]) => svg("circle", { cx: x(a), cy: y(b), r: 2.6 * Math.sqrt(number) })),
    ring: (points, x, y) => points.map(([a, b]) => svg("circle", { cx: x(a), cy: y(b), r: 7 })),
    rule: (points, x, y, height) => points.map(([a]) => svg("line", { x1: x(a), x2: x(a), y1: TOP, y2: height - BOTTOM })),
    area: (points, x, y) => [svg("polygon", {
      points: [...points.map(([a, , high]) => [a, high]), ...points.toReversed()].map(([a, b]) => `${x(a)},${y(b)}`).join(" "),
    })],
    flag: (points, x) => points.map(([a, row, text]) => svg("text", { x: x(a), y: TOP - 4 - 9 * row }, text)),
    count: (points, x, y) => points.filter(([, , number]) => number).map(([from, to, number]) => svg("text", { x: x((from + to) / 2), y: y(number) - 3 }, number)),
    star: (points, x, y) => points.map(([a, b]) => svg("text", { x: x(a), y: y(b) + 6 }, "★")),
  };

  // Marks: {kind, color, points}, with a `label` for the legend, `titles` under the pointer, `cells` to select. The
  // size is the least width, and the height.
  const plot = (name, { x: xName, y: yName, marks, xEnds, yEnds, xTicks, whole, size: [least, height] = [380, 260] }) => {
    // Where there is room a unit is a pixel, so that texts have the size of the page's.
    const width = Math.max(least, Math.min(part(name, ".plot").clientWidth, 576));
    marks = marks.filter((mark) => mark.points.length);
    const every = (mark, places) => mark.points.flatMap((point) => places.map((place) => point[place]));
    const has = (kind) => marks.some((mark) => mark.kind === kind);
    xEnds ??= extent(marks.flatMap((mark) => every(mark, ["bars", "count"].includes(mark.kind) ? [0, 1] : [0])));
    yEnds ??= extent(marks.flatMap((mark) => (["rule", "count"].includes(mark.kind) ? [] : mark.kind === "bars" ? [0, ...every(mark, [2])] : every(mark, mark.kind === "area" ? [1, 2] : [1]))));
    if (has("dots")) [xEnds, yEnds] = [padded(xEnds), padded(yEnds)];
    const x = scale(xEnds, LEFT, width - RIGHT), y = scale(yEnds, height - BOTTOM, TOP);
    const across = (value, kind) => svg("line", { class: kind, x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) });
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${xName ? height : height - 18}` },
      ...ticks(yEnds).flatMap((value) => [across(value, "grid"), svg("text", { class: "end", x: LEFT - 6, y: y(value) + 4 }, shown(value))]),
      ...(xTicks ?? ticks(xEnds, whole).map((value) => [value, shown(value)])).map(([value, text]) =>
        svg("text", { class: "middle", x: x(value), y: height - BOTTOM + 16 }, text)),
      across(has("bars") ? 0 : yEnds[0], "axis"),
      svg("text", { x: 4, y: 13 }, yName),
      ...(xName ? [svg("text", { class: "end", x: width - RIGHT, y: height - 6 }, xName)] : []));
    for (const { kind, color, points, titles, cells } of marks) {
      const drawn = KINDS[kind](points, x, y, height);
      drawn.forEach((one, place) => {
        if (titles) one.append(svg("title", {}, titles[place]));
        if (cells) one.dataset.cell = cells[place];
      });
      drawing.append(svg("g", { class: `${kind} ${color}` }, ...drawn));
    }
    part(name, ".plot").replaceChildren(drawing);
    part(name, ".legend").replaceChildren(...marks.filter((mark) => mark.label).map(({ kind, color, label }) =>
      html("span", {}, html("i", { className: `${kind} ${color}` }), label)));
    return { x, y };
  };

  const scores = ({ threshold, in_scope, out_of_scope }) => {
    const ends = [0, Math.ceil(Math.max(...in_scope, ...out_of_scope) * 10 + 0.01) / 10];
    const count = Math.round(ends[1] * 40), width = ends[1] / count;
    const titled = (points) => ({ points, titles: points.map(([from, to, number]) => `${shown(from)} … ${shown(to)}: ${number}`) });
    const bars = (values) => titled(Array.from({ length: values.length && count }, (_, bin) => [bin * width, (bin + 1) * width,
      values.filter((value) => Math.min(Math.floor(value / width + 1e-9), count - 1) === bin).length]));
    plot("scores", {
      x: "best similarity of a query", y: "queries", xEnds: ends,
      marks: [
        { kind: "bars", color: "blue", label: `in scope (n = ${in_scope.length})`, ...bars(in_scope) },
        { kind: "bars", color: "orange", label: `out of scope (n = ${out_of_scope.length})`, ...bars(out_of_scope) },
        { kind: "rule", color: "grey", label: `threshold ${threshold}`, points: threshold === null ? [] : [[threshold]] },
      ],
    });
  };

  const ranks = ({ ranks: found, top_k, depth }) => {
    const usual = [1, 2, 3, 4, 6, 11, 21, 51].filter((rank) => rank < 6 || Math.abs(rank - top_k - 1) > 2);
    const starts = [...new Set([...usual, top_k + 1])].filter((rank) => rank <= depth).sort((a, b) => a - b);
    const bars = starts.map((from, place) => {
      const after = starts[place + 1] ?? Infinity;
      const name = after === from + 1 ? from : after === Infinity ? `${from}+` : `${from}–${after - 1}`;
      return { from, name, count: found.filter((rank) => rank !== null && rank >= from && rank < after).length };
    });
    bars.push({ from: null, name: "none", count: found.filter((rank) => rank === null).length });
    const points = (kept) => bars.flatMap((bar, place) => (kept(bar.from) ? [[place + 0.1, place + 0.9, bar.count]] : []));
    plot("ranks", {
      x: "rank of the first relevant candidate", y: "queries", xEnds: [0, bars.length],
      xTicks: bars.map((bar, place) => [place + 0.5, bar.name]),
      marks: [
        { kind: "bars", color: "blue", label: `within top_k ${top_k}`, points: points((from) => from !== null && from <= top_k) },
        { kind: "bars", color: "grey", label: "deeper", points: points((from) => from > top_k) },
        { kind: "bars", color: "red", label: "not a candidate", points: points((from) => from === null) },
        { kind: "count", color: "ink", points: points(() => true) },
      ],
    });
  };


  const data = JSON.parse(document.getElementById("figures-data").textContent);
  for (const [name, draw] of Object.entries({ scores, ranks })) if (data[name]) draw(data[name]);
  return { grid: data.grid, extent, html, part, plot, written };
})();
