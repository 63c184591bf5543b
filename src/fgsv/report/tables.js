"use strict";
// Tables with many rows: a search field and pages on the screen. On paper every row is there.
(() => {
  const perPage = 50;

  function page(table) {
    const body = table.tBodies[0];
    const controls = document.createElement("p");
    controls.className = "controls pager";
    const search = document.createElement("input");
    search.type = "search";
    const label = document.createElement("label");
    label.append("Search ", search);
    const count = document.createElement("span");
    count.setAttribute("role", "status");
    const button = (text, step) => {
      const made = document.createElement("button");
      made.type = "button";
      made.className = "quiet";
      made.textContent = text;
      made.addEventListener("click", () => {
        current += step;
        show();
      });
      return made;
    };
    const [back, next] = [button("Back", -1), button("Next", 1)];
    let current = 0;

    function show() {
      const rows = [...body.rows];
      const wanted = search.value.trim().toLowerCase();
      const found = rows.filter((row) => !wanted || row.textContent.toLowerCase().includes(wanted));
      current = Math.max(0, Math.min(current, Math.ceil(found.length / perPage) - 1));
      const [from, to] = [current * perPage, Math.min(found.length, (current + 1) * perPage)];
      const shown = new Set(found.slice(from, to));
      for (const row of rows) row.hidden = !shown.has(row);
      back.disabled = current === 0;
      next.disabled = to >= found.length;
      const [all, matching] = [rows.length, found.length].map((number) => number.toLocaleString("en"));
      const of = wanted ? `${matching} found among ${all}` : all;
      count.textContent = found.length ? `${from + 1} to ${to} of ${of}` : `none found among ${all}`;
      controls.hidden = rows.length <= perPage;
    }

    search.addEventListener("input", () => {
      current = 0;
      show();
    });
    controls.append(label, back, next, count);
    table.closest(".scroll").before(controls);
    table.refresh = show;
    show();
  }

  for (const table of document.querySelectorAll("table[data-paged]")) page(table);

  const opened = [];
  window.addEventListener("beforeprint", () => {
    for (const details of document.querySelectorAll("details:not([open])")) {
      details.open = true;
      opened.push(details);
    }
  });
  window.addEventListener("afterprint", () => {
    for (const details of opened.splice(0)) details.open = false;
  });
})();
