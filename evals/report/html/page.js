"use strict";
(() => {
  const value = (row, column) => {
    const text = row.cells[column].innerText.trim();
    const number = Number(text.replace(/,/g, "").replace(/%$/, ""));
    return text === "–" || text === "" ? null : Number.isNaN(number) ? text.toLowerCase() : number;
  };
  const compare = (a, b) => {
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  };
  const sort = (table, heading) => {
    const up = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of heading.parentNode.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    const body = table.tBodies[0];
    const keyed = Array.from(body.rows, (row) => [value(row, heading.cellIndex), row]);
    keyed.sort(([a], [b]) => (a === null || b === null || up ? compare(a, b) : compare(b, a)));
    body.append(...keyed.map(([, row]) => row));
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
  const filter = (id) => {
    const table = document.getElementById(id);
    let words = "", group = "";
    for (const control of document.querySelectorAll(`[data-filter="${id}"]`)) {
      if (control.tagName === "SELECT") group = control.value;
      else words = control.value.trim().toLowerCase();
    }
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = Boolean(group && row.dataset.group !== group) || !row.textContent.toLowerCase().includes(words);
      shown += row.hidden ? 0 : 1;
    }
    const count = document.querySelector(`[data-count="${id}"]`);
    if (count) count.textContent = `${shown} of ${table.tBodies[0].rows.length}`;
  };
  for (const control of document.querySelectorAll("[data-filter]")) {
    control.addEventListener("input", () => filter(control.dataset.filter));
    filter(control.dataset.filter);
  }
})();
