"use strict";
// The what-if panel: shares and intervals of any regrouping, from the player values and their replicates.
(() => {
  const source = document.getElementById("whatif-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const values = data.values.map((text) => new Float64Array(bytes(text)));
  const deviations = data.deviations.map((text) => new Int16Array(bytes(text)));
  const n = values[0].length;
  const points = data.points ? new Float64Array(bytes(data.points)) : new Float64Array(n).fill(1);
  const first = { owner: new Int32Array(bytes(data.owner)), names: data.names };
  const mostDrawn = 60;
  const element = (id) => document.getElementById(id);

  let state = first;
  let history = [];
  let output = 0;
  let view = null;

  // Sums over each group's own players, in their order: no other group's split moves them.
  function compute({ owner, names }) {
    const value = new Float64Array(names.length);
    const size = new Float64Array(names.length);
    const variance = new Float64Array(names.length);
    for (let i = 0; i < n; i++) {
      value[owner[i]] += values[output][i];
      size[owner[i]] += points[i];
    }
    data.scales[output].forEach((scale, replicate) => {
      const sums = new Float64Array(names.length);
      const start = replicate * n;
      for (let i = 0; i < n; i++) sums[owner[i]] += deviations[output][start + i];
      sums.forEach((sum, group) => (variance[group] += (scale * sum) ** 2));
    });
    const total = data.total[output];
    return names.map((name, group) => {
      const half = names.length === 1 ? 0 : data.quantile * Math.sqrt(variance[group]);
      const share = value[group] / total;
      return {
        group: name, points: size[group], value: value[group], share,
        low: share - half / total, high: share + half / total,
      };
    });
  }

  const percent = (x) => (100 * x).toFixed(2) + "%";
  const number = (x) => (Number.isInteger(x) ? x.toLocaleString("en") : x.toPrecision(4));

  function render(message) {
    const rows = compute(state);
    const body = element("whatif-rows");
    body.replaceChildren(...rows.map((row) => {
      const line = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = row.group;
      line.append(head);
      for (const text of [number(row.points), row.value.toPrecision(4), percent(row.share),
        `${percent(row.low)} to ${percent(row.high)}`]) {
        const cell = document.createElement("td");
        cell.textContent = text;
        line.append(cell);
      }
      return line;
    }));
    const sum = rows.reduce((all, row) => all + row.share, 0);
    element("whatif-sum").textContent = percent(sum);
    for (const select of document.querySelectorAll("select[data-groups]")) {
      const kept = select.value;
      const options = rows.map((row, k) => new Option(row.group, String(k)));
      if (select.dataset.groups === "or-new") options.push(new Option("a new provider", "new"));
      select.replaceChildren(...options);
      if (kept && [...select.options].some((option) => option.value === kept)) select.value = kept;
      else if (select.dataset.second) select.selectedIndex = Math.min(1, rows.length - 1);
    }
    element("whatif-undo").disabled = history.length === 0;
    element("whatif-reset").disabled = history.length === 0;
    if (message) element("whatif-message").textContent = message;
    if (view) {
      const largest = [...rows].sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, mostDrawn);
      view.data("rows", rows.filter((row) => largest.includes(row))).resize().runAsync();
    }
  }

  // Take a step, and say what it did to those who had no part in it.
  function step(next, involved, words) {
    const before = compute(state);
    const after = compute(next);
    const share = new Map(after.map((row) => [row.group, row.share]));
    const moved = before.filter((row) => !involved.includes(row.group) && share.has(row.group))
      .map((row) => Math.abs(row.share - share.get(row.group)));
    const others = moved.length ? ` The others' shares moved by ${percent(Math.max(...moved))} at the most.` : "";
    history.push(state);
    state = next;
    render(words + others);
  }

  function problem(words) {
    element("whatif-message").textContent = words;
  }

  const chosen = (id) => (element(id).value === "new" ? -1 : Number(element(id).value));
  const members = (group) => {
    const found = [];
    state.owner.forEach((owner, i) => owner === group && found.push(i));
    return found;
  };

  function unused(name) {
    let free = name;
    for (let k = 2; state.names.includes(free); k++) free = `${name} (${k})`;
    return free;
  }

  // Drop groups that have no players left, so that positions stay without gaps.
  function tidy(owner, names) {
    const used = new Set(owner);
    const kept = names.map((_, k) => k).filter((k) => used.has(k));
    const place = new Map(kept.map((k, position) => [k, position]));
    return { owner: owner.map((k) => place.get(k)), names: kept.map((k) => names[k]) };
  }

  // The same shuffle every time: what a page shows can be shown again.
  function shuffled(list) {
    let seed = 1;
    const random = () => {
      seed = (seed * 48271) % 2147483647;
      return seed / 2147483647;
    };
    const copy = [...list];
    for (let i = copy.length - 1; i > 0; i--) {
      const j = Math.floor(random() * (i + 1));
      [copy[i], copy[j]] = [copy[j], copy[i]];
    }
    return copy;
  }

  function ordered(list, way) {
    if (way === "random") return shuffled(list);
    if (way === "best") return [...list].sort((i, j) => values[output][j] - values[output][i]);
    if (way === "worst") return [...list].sort((i, j) => values[output][i] - values[output][j]);
    return list;
  }

  const actions = {
    merge() {
      const [a, b] = [chosen("merge-a"), chosen("merge-b")];
      if (a === b) return problem("Choose two different providers to merge.");
      const [nameA, nameB] = [state.names[a], state.names[b]];
      const owner = state.owner.map((k) => (k === b ? a : k));
      const names = [...state.names];
      names[a] = unused(`${nameA} + ${nameB}`);
      step(tidy(owner, names), [nameA, nameB], `Merged ${nameA} and ${nameB}.`);
    },
    split() {
      const group = chosen("split-group");
      const parts = Number(element("split-parts").value);
      const list = ordered(members(group), element("split-way").value);
      if (!(parts >= 2) || parts > list.length) {
        return problem(`${state.names[group]} has ${list.length} points: split it into 2 to ${list.length} parts.`);
      }
      const name = state.names[group];
      const names = [...state.names];
      const owner = state.owner.slice();
      for (let part = 0; part < parts; part++) {
        const place = part === 0 ? group : names.length;
        const label = unused(`${name} / ${part + 1}`);
        if (part === 0) names[group] = label;
        else names.push(label);
        const [from, to] = [part, part + 1].map((k) => Math.round((k * list.length) / parts));
        for (const i of list.slice(from, to)) owner[i] = place;
      }
      step(tidy(owner, names), [name], `Split ${name} into ${parts} parts.`);
    },
    move() {
      const [from, to] = [chosen("move-from"), chosen("move-to")];
      const count = Number(element("move-count").value);
      const list = ordered(members(from), element("move-way").value);
      if (from === to) return problem("Choose two different providers.");
      if (!(count >= 1) || count > list.length) {
        return problem(`${state.names[from]} has ${list.length} points: move 1 to ${list.length} of them.`);
      }
      const names = [...state.names];
      const involved = [names[from]];
      let place = to;
      if (to < 0) place = names.push(unused("new provider")) - 1;
      else involved.push(names[to]);
      const owner = state.owner.slice();
      for (const i of list.slice(0, count)) owner[i] = place;
      step(tidy(owner, names), involved, `Moved ${count} points from ${names[from]} to ${names[place]}.`);
    },
    rename() {
      const group = chosen("rename-group");
      const name = element("rename-name").value.trim();
      if (!name) return problem("Give a new name.");
      if (state.names.includes(name)) return problem(`There is a provider named ${name} already.`);
      const names = [...state.names];
      const old = names[group];
      names[group] = name;
      element("rename-name").value = "";
      step({ owner: state.owner, names }, [old], `Renamed ${old} to ${name}.`);
    },
  };

  for (const form of document.querySelectorAll("form[data-action]")) {
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      actions[form.dataset.action]();
    });
  }
  element("whatif-undo").addEventListener("click", () => {
    state = history.pop();
    render("Undone.");
  });
  element("whatif-reset").addEventListener("click", () => {
    state = first;
    history = [];
    render("Everything is as it was.");
  });
  const picker = element("whatif-output");
  if (picker) {
    picker.addEventListener("change", () => {
      output = Number(picker.value);
      render(`Shares for ${picker.selectedOptions[0].text}.`);
    });
  }
  window.fgsvWhatIf = { rows: () => compute(state) };
  render();
  window.fgsvCharts.then((charts) => {
    view = charts.whatif ?? null;
    render();
  });
})();
