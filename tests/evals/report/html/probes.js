// What the tests ask of a page in a browser; `look` in test_in_browser.py calls one of them.
const all = (selector, of) => [...document.querySelectorAll(selector)].map(of);
const box = one => one.getBoundingClientRect();
const set = (control, value) => {
  control.value = value;
  control.dispatchEvent(new Event("input"));
};
const channels = color => color.match(/[\d.]+/g).map(Number);
const linear = v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = color => channels(color).slice(0, 3)
  .reduce((sum, v, place) => sum + linear(v / 255) * [.2126, .7152, .0722][place], 0);
const clear = one => (channels(getComputedStyle(one).backgroundColor)[3] ?? 1) < 1;
const contrast = one => {
  let under = one;
  while (under !== document.body && clear(under)) under = under.parentElement;
  const style = getComputedStyle(one);
  const pair = [light(one.closest("svg") ? style.fill : style.color), light(getComputedStyle(under).backgroundColor)];
  return (Math.max(...pair) + .05) / (Math.min(...pair) + .05);
};
const probes = {
  // The page as a whole
  overflowing: () => [...document.querySelectorAll("body *")]
    .filter(one => box(one).right > innerWidth + 1 && !one.closest(".wide, pre, svg")).map(one => one.outerHTML),
  faint: () => all("p, td, th, h1, h2, li, figcaption, summary, b, figure svg text",
    one => [contrast(one), one.textContent.slice(0, 40)]).filter(([found]) => found < 4.5),
  background: () => getComputedStyle(document.body).backgroundColor,
  without_focus: () => [...document.querySelectorAll(".wide, pre")]
    .filter(one => one.tabIndex !== 0 || (one.matches(".wide") && !one.getAttribute("aria-label"))).length,
  // Its queries
  verdict_edges: () => all("#criteria tbody tr, #queries-table tbody tr",
    row => box(row.cells[row.closest("#criteria") ? 0 : 1]).right),
  column: number => [...document.querySelectorAll("#queries-table tbody tr")]
    .filter(row => !row.hidden).map(row => row.cells[number].textContent.trim()),
  sort_by_best: () => [...document.querySelectorAll("#queries-table th button")]
    .find(button => button.textContent.trim().startsWith("best")).click(),
  type: (selector, value) => set(document.querySelector(selector), value),
  // Its figures
  names: () => all("figure", one => one.id.slice(7)),
  bottoms: selector => all(selector, one => box(one).bottom),
  cut: () => [...document.querySelectorAll(".wide")].filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel),
  widths: () => all("figure svg", one => box(one).width),
  smallest_text: () => Math.min(...all("figure svg text", text => box(text).height)),
  labels: () => all("figure > [role=img]", one => one.ariaLabel),
  table: () => ["table", "div.cells"].map(one => box(document.querySelector(`#figure-cells ${one}`)).width),
  cells: () => all("#figure-cells tbody tr",
    row => [...row.cells].map(cell => [cell.textContent, cell.ariaLabel, cell.style.boxShadow !== ""])),
  marks: (figure, kind, ...attributes) => all(`#figure-${figure} g.${kind}`,
    group => [...group.children].map(mark => attributes.map(name => Number(mark.getAttribute(name))))),
  inner: figure => document.querySelector(`#figure-${figure} svg`).viewBox.baseVal.width - 54,
  choose: (name, text) => {
    const control = document.querySelector(`[data-grid=${name}]`);
    set(control, [...control.options].find(one => one.text === text).value);
  },
  chosen: () => {
    const mark = (name, kind) => document.querySelector(`#figure-${name} g.${kind} > *`);
    return {
      focus: document.activeElement.ariaLabel,
      selected: all("td[aria-selected=true]", one => one.ariaLabel),
      told: document.querySelector(".told").textContent,
      threshold: Number(mark("by_threshold", "rule").getAttribute("x1")),
      top_k: Number(mark("by_top_k", "rule").getAttribute("x1")),
      title: mark("tradeoff", "ring").textContent,
    };
  },
  // Its cells, query by query
  figures: () => all("#explore tbody tr", row => Object.fromEntries([...row.querySelectorAll("td")].map(
    cell => [cell.dataset.figure, [cell.dataset.value, cell.dataset.ends].map(
      text => text.split(",").filter(Boolean).map(Number))]))),
  moved: () => all("#explore .queries details",
    one => [one.querySelector("b").textContent, one.querySelector("summary span").textContent]),
};
