"use strict";
// The what-if panel: shares and intervals under any regrouping of the players, without a new evaluation.
// The first part computes and needs no page, so node can test it; the second part connects it to the page.

// A grouping is { owner, names }: for each player the position of its group in `names`. Groups are identified by
// these positions, because names may repeat. A session is { panel, output, groupings, message }; its last grouping
// is the one on display. No function changes a session: each returns a new one.
const whatIf = (() => {
  const mostDrawn = 60;

  const percent = (x) => (100 * x).toFixed(2).replace(/^-(0\.00)$/, "$1") + "%";
  const number = (x) => (Number.isInteger(x) ? x.toLocaleString("en") : x.toPrecision(4));
  const value = (x) => (Math.abs(x) >= 9999.5 && Math.abs(x) < 1e12 ? x.toFixed(0) : x.toPrecision(4));
  const players = (count) => (count === 1 ? "1 player" : `${count.toLocaleString("en")} players`);

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;

  function open(data) {
    const values = data.values.map((text) => new Float64Array(bytes(text)));
    const panel = {
      values,
      deviations: data.deviations.map((text) => new Int16Array(bytes(text))),
      scales: data.scales,
      sizes: data.sizes ? new Float64Array(bytes(data.sizes)) : new Float64Array(values[0].length).fill(1),
      total: data.total,
      quantile: data.quantile,
      efficient: data.efficient,
      money: data.money ?? null,
    };
    const grouping = { owner: new Int32Array(bytes(data.owner)), names: data.names };
    return { panel, output: 0, groupings: [grouping], message: "" };
  }

  const current = (session) => session.groupings[session.groupings.length - 1];
  const rows = (session) => rowsOf(session, current(session));

  // Payments in whole units of the currency, by the policy of the payout: see fgsv.payout.Policy.
  function payments(panel, grouping) {
    const { amounts, clip, floor, cap } = panel.money;
    const parts = new Float64Array(grouping.names.length);
    amounts.forEach((amount, output) => {
      const values = sums(panel.values[output], grouping).map((value) => (clip ? Math.max(value, 0) : value));
      const total = values.reduce((sum, value) => sum + value, 0);
      values.forEach((value, group) => (parts[group] += (amount * value) / total));
    });
    const whole = amounts.reduce((sum, amount) => sum + amount, 0);
    return rounded(floor === null && cap === null ? parts : bounded(parts, whole, floor ?? -Infinity, cap ?? Infinity), whole);
  }

  function sums(values, { owner, names }) {
    const sum = new Float64Array(names.length);
    for (let player = 0; player < owner.length; player++) sum[owner[player]] += values[player];
    return sum;
  }

  // Within floor and cap, by one common factor of the positive parts: bisection, as in fgsv.payout.policy.
  function bounded(parts, whole, floor, cap) {
    const at = (factor) => parts.map((part) => Math.min(Math.max(part > 0 ? part * factor : part, floor), cap));
    let [low, high] = [0, 1e6];
    for (let step = 0; step < 80; step++) {
      const middle = (low + high) / 2;
      if (at(middle).reduce((sum, part) => sum + part, 0) < whole) low = middle;
      else high = middle;
    }
    return at(high);
  }

  // Down to whole units, then up where most was lost. NaN where no payments add up to the whole.
  function rounded(parts, whole) {
    const units = parts.map(Math.floor);
    const missing = Math.round(whole - units.reduce((sum, count) => sum + count, 0));
    if (!(missing >= 0 && missing <= parts.length)) return parts.map(() => NaN);
    const order = [...parts.keys()].sort((a, b) => parts[b] - units[b] - (parts[a] - units[a]) || a - b);
    for (const group of order.slice(0, missing)) units[group] += 1;
    return units;
  }

  function money(panel, units) {
    const { unit } = panel.money;
    const digits = (unit.split(".")[1] ?? "").length;
    const shown = (units * Number(unit)).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
    return Number.isNaN(units) ? "cannot be paid" : shown;
  }

  // Each sum adds a group's own players in their order and nothing else, so no other group's split can change it.
  function rowsOf({ panel, output }, { owner, names }) {
    const total = panel.total[output];
    const value = sums(panel.values[output], { owner, names });
    const size = sums(panel.sizes, { owner, names });
    const paid = panel.money ? payments(panel, { owner, names }) : null;
    const variance = new Float64Array(names.length);
    panel.scales[output].forEach((scale, replicate) => {
      const deviations = panel.deviations[output].subarray(replicate * owner.length, (replicate + 1) * owner.length);
      // of the share: squares of utilities may be beyond what a number holds
      sums(deviations, { owner, names }).forEach((sum, group) => (variance[group] += (scale * sum / total) ** 2));
    });
    if (panel.efficient && names.length === 1) {  // the sum over all players is known exactly
      value[0] = total;
      variance[0] = 0;
    }
    return names.map((name, group) => {
      const share = value[group] / total;
      const half = panel.quantile * Math.sqrt(variance[group]);
      const row = { group: name, players: size[group], value: value[group], share, low: share - half, high: share + half };
      return paid === null ? row : { ...row, paid: paid[group] };
    });
  }

  // The rows of the chart, in the order of the table.
  function drawn(all) {
    const largest = [...all].sort((a, b) => Math.abs(b.share) - Math.abs(a.share)).slice(0, mostDrawn);
    return all.filter((row) => largest.includes(row));
  }

  const renamed = (names, group, name) => names.map((old, k) => (k === group ? name : old));

  function unused(name, names) {
    let free = name;
    for (let k = 2; names.includes(free); k++) free = `${name} (${k})`;
    return free;
  }

  function without(group, { owner, names }) {
    return { owner: owner.map((k) => (k > group ? k - 1 : k)), names: names.filter((_, k) => k !== group) };
  }

  // The same shuffle every time, so that a result can be shown again.
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

  function members(session, group, way) {
    const values = session.panel.values[session.output];
    const list = [];
    current(session).owner.forEach((owner, player) => owner === group && list.push(player));
    if (way === "random") return shuffled(list);
    if (way === "best") return list.sort((i, j) => values[j] - values[i]);
    if (way === "worst") return list.sort((i, j) => values[i] - values[j]);
    return list;
  }

  // Each action returns the next grouping, the groups of the current one that it touches, and a message; or, if it
  // cannot be done, the message alone.
  const actions = {
    merge(session, { first, second }) {
      if (first === second) return { message: "Choose two different providers to merge." };
      const { owner, names } = current(session);
      const merged = {
        owner: owner.map((k) => (k === second ? first : k)),
        names: renamed(names, first, unused(`${names[first]} + ${names[second]}`, names)),
      };
      return {
        grouping: without(second, merged),
        touched: [first, second],
        message: `Merged ${names[first]} and ${names[second]}.`,
      };
    },

    split(session, { group, parts, way }) {
      const list = members(session, group, way);
      const name = current(session).names[group];
      if (list.length < 2) return { message: `${name} has ${players(list.length)} and cannot be split.` };
      if (!Number.isInteger(parts) || parts < 2 || parts > list.length) {
        return { message: `${name} has ${players(list.length)}: split it into 2 to ${list.length} parts.` };
      }
      const owner = current(session).owner.slice();
      const names = [...current(session).names];
      for (let part = 0; part < parts; part++) {
        const label = unused(`${name} / ${part + 1}`, names);
        const place = part === 0 ? group : names.length;
        names[place] = label;
        const [from, to] = [part, part + 1].map((k) => Math.round((k * list.length) / parts));
        for (const player of list.slice(from, to)) owner[player] = place;
      }
      return { grouping: { owner, names }, touched: [group], message: `Split ${name} into ${parts} parts.` };
    },

    // `to` is null for a new provider.
    move(session, { from, to, count, way }) {
      if (from === to) return { message: "Choose two different providers." };
      const list = members(session, from, way);
      const names = [...current(session).names];
      if (list.length === 0) return { message: `${names[from]} has no players to move.` };
      if (!Number.isInteger(count) || count < 1 || count > list.length) {
        return { message: `${names[from]} has ${players(list.length)}: move 1 to ${list.length} of them.` };
      }
      const place = to ?? names.push(unused("new provider", names)) - 1;
      const owner = current(session).owner.slice();
      for (const player of list.slice(0, count)) owner[player] = place;
      const grouping = { owner, names };
      return {
        grouping: count === list.length ? without(from, grouping) : grouping,
        touched: to === null ? [from] : [from, to],
        message: `Moved ${players(count)} from ${names[from]} to ${names[place]}.`,
      };
    },

    rename(session, { group, name }) {
      const { owner, names } = current(session);
      const fresh = name.trim();
      if (!fresh) return { message: "Enter a new name." };
      if (names.includes(fresh)) return { message: `There is already a provider named ${fresh}.` };
      return {
        grouping: { owner, names: renamed(names, group, fresh) },
        touched: [group],
        message: `Renamed ${names[group]} to ${fresh}.`,
      };
    },
  };

  function act(session, action, options) {
    const { grouping, touched, message } = actions[action](session, options);
    if (!grouping) return { ...session, message };
    const effect = effectOnOthers(session, grouping, touched);
    return { ...session, groupings: [...session.groupings, grouping], message: `${message}${effect}` };
  }

  // A group that an action did not touch keeps its players, so any of them leads to its new position.
  function effectOnOthers(session, grouping, touched) {
    const [before, after] = [rows(session), rowsOf(session, grouping)];
    let [largest, paid] = [-1, 0];
    current(session).owner.forEach((group, player) => {
      if (touched.includes(group)) return;
      const [then, now] = [before[group], after[grouping.owner[player]]];
      largest = Math.max(largest, Math.abs(now.share - then.share));
      if (session.panel.money) paid = Math.max(paid, Math.abs(now.paid - then.paid));
    });
    if (largest < 0) return "";
    const { panel } = session;
    const also = panel.money ? `, their payments by ${money(panel, paid)} ${panel.money.currency}` : "";
    return ` The other providers' shares changed by ${percent(largest)} at most${also}.`;
  }

  const back = (session, end, message) => ({ ...session, groupings: session.groupings.slice(0, end), message });
  const undo = (session) => back(session, Math.max(1, session.groupings.length - 1), "Undone.");
  const reset = (session) => back(session, 1, "All changes undone.");
  const show = (session, output, name) => ({ ...session, output, message: `Shares for ${name}.` });

  return { open, rows, drawn, act, undo, reset, show, percent, number, value, money };
})();

if (typeof module !== "undefined") module.exports = whatIf;

// The page: forms in, table, chart and message out.
if (typeof document !== "undefined" && document.getElementById("whatif-data")) {
  const element = (id) => document.getElementById(id);
  let session = whatIf.open(JSON.parse(element("whatif-data").textContent));
  let view = null;
  const rowHeight = 22;  // as in fgsv.report.charts

  const tableRow = (row) => {
    const line = document.createElement("tr");
    if (row.value < 0) line.className = "negative";
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = row.group;
    const [share, low, high] = [row.share, row.low, row.high].map(whatIf.percent);
    line.append(head);
    const paid = session.panel.money ? [whatIf.money(session.panel, row.paid)] : [];
    for (const text of [share, `${low} to ${high}`, ...paid, whatIf.number(row.players), whatIf.value(row.value)]) {
      const cell = document.createElement("td");
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };

  const fillSelect = (select, rows) => {
    const kept = select.value;
    const options = rows.map((row, position) => new Option(row.group, String(position)));
    if (select.dataset.groups === "or-new") options.push(new Option("a new provider", "new"));
    select.replaceChildren(...options);
    if (kept && options.some((option) => option.value === kept)) select.value = kept;
    else if (select.dataset.second) select.selectedIndex = Math.min(1, rows.length - 1);
  };

  const render = () => {
    const rows = whatIf.rows(session);
    const ranked = [...rows].sort((a, b) => b.share - a.share);
    element("whatif-rows").replaceChildren(...ranked.map(tableRow));
    element("whatif-rows").closest("table").refresh?.();
    element("whatif-sum").textContent = whatIf.percent(rows.reduce((sum, row) => sum + row.share, 0));
    if (session.panel.money) {
      element("whatif-paid").textContent = whatIf.money(session.panel, rows.reduce((sum, row) => sum + row.paid, 0));
    }
    for (const select of document.querySelectorAll("select[data-groups]")) fillSelect(select, rows);
    for (const id of ["whatif-undo", "whatif-reset"]) element(id).disabled = session.groupings.length === 1;
    element("whatif-message").textContent = session.message;
    if (view) {
      const drawn = whatIf.drawn(ranked);
      view.data("rows", drawn).height(rowHeight * drawn.length).resize().runAsync();
    }
  };

  const group = (id) => (element(id).value === "new" ? null : Number(element(id).value));
  const options = {
    merge: () => ({ first: group("merge-a"), second: group("merge-b") }),
    split: () => ({
      group: group("split-group"), parts: Number(element("split-parts").value), way: element("split-way").value,
    }),
    move: () => ({
      from: group("move-from"), to: group("move-to"),
      count: Number(element("move-count").value), way: element("move-way").value,
    }),
    rename: () => ({ group: group("rename-group"), name: element("rename-name").value }),
  };

  for (const form of document.querySelectorAll("form[data-action]")) {
    const action = form.dataset.action;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const before = session;
      session = whatIf.act(session, action, options[action]());
      const done = session.groupings.length > before.groupings.length;
      if (action === "rename" && done) element("rename-name").value = "";
      render();
    });
  }
  element("whatif-undo").addEventListener("click", () => {
    session = whatIf.undo(session);
    render();
  });
  element("whatif-reset").addEventListener("click", () => {
    session = whatIf.reset(session);
    render();
  });
  const picker = element("whatif-output");
  picker?.addEventListener("change", () => {
    session = whatIf.show(session, Number(picker.value), picker.selectedOptions[0].text);
    render();
  });
  window.fgsvWhatIf = { rows: () => whatIf.rows(session) };  // for tests
  render();
  window.fgsvCharts.then((charts) => {
    view = charts.whatif ?? null;
    render();
  });
}
