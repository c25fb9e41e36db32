"use strict";
(() => {
  const value = (row, column) => {
    const text = row.cells[column].textContent.trim(), number = Number(text.replace(/,/g, "").replace(/( … .*|%)$/, ""));
    return text === "–" || text === "" ? null : Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  const sort = (table, heading) => {
    const way = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    const keyed = Array.from(table.tBodies[0].rows, (row) => [value(row, heading.cellIndex), row]);
    // What has no value comes last either way.
    keyed.sort(([a], [b]) => (a === null) - (b === null) || way * compare(a, b));
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    for (const heading of table.tHead.rows[0].cells) {
      if (!heading.textContent.trim()) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, heading));
    }
  }
  const { rows } = document.getElementById("queries-table").tBodies[0];
  const [words, cause] = document.querySelectorAll("[data-filter]");
  const filter = () => {
    for (const row of rows) {
      row.hidden = (cause.value && row.dataset.group !== cause.value) || !row.textContent.toLowerCase().includes(words.value.trim().toLowerCase());
    }
    document.querySelector("[data-count]").textContent = `${Array.from(rows).filter((row) => !row.hidden).length} of ${rows.length}`;
  };
  cause.addEventListener("input", filter);
  let waiting;
  words.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 150); }); // each key would cost a pass over every row
  filter();
})();
