// Draws the charts and fills the tables of a report. Names come from strangers' traces: they are only ever set as
// textContent, or escaped before they reach Plotly, which reads some tags in its labels.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const words = data.words;
  const root = document.documentElement;
  const escapes = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  const literal = (text) => String(text).replace(/[&<>]/g, (letter) => escapes[letter]);
  const lines = (text) => String(text).split("\n").map(literal).join("<br>");
  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (all, name) => (name in values ? String(values[name]) : all));
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const account = (code) => colour(`a-${code}`);
  const isNarrow = () => window.innerWidth <= 640;

  // --- charts -------------------------------------------------------------------------------------------------------

  const axis = (more) => ({
    gridcolor: colour("line"), linecolor: colour("line"), zerolinecolor: colour("line"), tickcolor: colour("line"),
    automargin: true, fixedrange: true, ...more,
  });
  // Two to three decades and less need marks between powers of ten.
  const logarithmic = (range, more) => axis({ type: "log", range, dtick: range[1] - range[0] < 2.6 ? "D2" : 1, zeroline: false, ...more });
  const first = (label) => literal(label.match(/^-?\d+/)[0]); // of several steps or ranks
  const titled = (text) => ({ title: { text: literal(text), font: { size: 12, color: colour("soft") }, standoff: 10 } });
  const layout = (more) => ({
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: false, autosize: true,
    font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("soft") },
    margin: { l: 8, r: 10, t: 8, b: 8 },
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("line"), align: "left", namelength: -1,
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") } },
    showlegend: false,
    ...more,
  });

  // Under its chart and not part of it, so that it wraps like text on any screen. Items of one colour are one.
  function legend(element, items) {
    const kept = [];
    items.forEach((item) => {
      const same = kept.find((one) => one.colour === item.colour && one.glyph === item.glyph);
      if (!same) {
        kept.push({ ...item });
      } else if (!same.name.split(", ").includes(item.name)) {
        same.name = `${same.name}, ${item.name}`;
      }
    });
    const made = document.createElement("p");
    made.className = "legend";
    kept.forEach((item) => {
      const mark = document.createElement("i");
      mark.textContent = item.glyph || "\u25a0";
      mark.style.color = item.colour;
      const entry = document.createElement("span");
      entry.append(mark, item.name);
      made.append(entry);
    });
    const old = element.parentElement.querySelector(".legend");
    if (old) {
      old.remove();
    }
    element.after(made);
  }

  function steps(figure) {
    const numbers = figure.labels.map((_, index) => index);
    const name = (index) => `${words.step} ${figure.labels[index]}${figure.names[index] ? `\n${figure.names[index]}` : ""}`;
    const traces = figure.stacks.map((stack) => ({
      type: "bar", x: numbers, y: stack.values, marker: { color: account(stack.code), line: { width: 0 } },
      hoverinfo: "text", hovertext: numbers.map((index) => lines(`${name(index)}\n${stack.name}: ${stack.values[index]} ${figure.unit}`)),
      textposition: "none",
    }));
    if (figure.longest.length) {
      traces.push({
        type: "scatter", mode: numbers.length > 60 ? "lines" : "markers", x: numbers, y: figure.longest,
        line: { width: 1, color: colour("ink") }, marker: { symbol: "line-ew", size: 12, line: { width: 2, color: colour("ink") } },
        hoverinfo: "text", hovertext: numbers.map((index) => lines(`${name(index)}\n${words.longest}: ${figure.longest[index]} ${figure.unit}`)),
      });
    }
    const every = Math.ceil(numbers.length / (isNarrow() ? 8 : 24));
    const shown = numbers.filter((index) => index % every === 0);
    const items = figure.stacks.map((stack) => ({ name: stack.name, colour: account(stack.code) }));
    if (figure.longest.length) {
      items.push({ name: words.longest, colour: colour("ink"), glyph: "\u2013" });
    }
    const gap = numbers.length > 60 ? 0 : Math.max(0.25, 1 - numbers.length / 14);
    return { traces, items, height: 320, layout: layout({
      barmode: "stack", bargap: gap,
      xaxis: axis({ ...titled(words.step), tickvals: shown, ticktext: shown.map((index) => first(figure.labels[index])), showgrid: false, zeroline: false, type: "linear", range: [-0.6, numbers.length - 0.4] }),
      yaxis: axis({ ...titled(figure.unit), rangemode: "tozero", type: "linear" }),
    }) };
  }

  // As much of each name as fits on its rectangle when the chart shows this range of time.
  function fitting(boxes, figure, range, width) {
    const letters = (length) => Math.floor((length / (range[1] - range[0]) * width - 8) / 6);
    return boxes.label.map((index, place) => {
      const name = index < 0 ? "" : figure.texts[index];
      const room = letters(boxes.length[place]);
      if (room < 3) {
        return "";
      }
      return literal(name.length <= room ? name : `${name.slice(0, room - 1)}\u2026`);
    });
  }

  function strip(figure, element) {
    const width = element.clientWidth - 20;
    const drawn = figure.boxes.slice().reverse(); // what has the colour of an account lies above what has not
    const traces = drawn.map((boxes) => ({
      type: "bar", orientation: "h", base: boxes.start, x: boxes.length,
      y: boxes.top.map((top, index) => top + boxes.height[index] / 2), width: boxes.height,
      marker: { color: account(boxes.colour), line: { width: 0 } },
      text: fitting(boxes, figure, [0, figure.length], width), textposition: "inside", insidetextanchor: "start", textangle: 0,
      insidetextfont: { size: 10, color: readable(account(boxes.colour)) }, constraintext: "none",
      hoverinfo: "text", hovertext: boxes.hover.map((index) => lines(wrapped(figure.texts[index]))),
    }));
    traces.push({
      type: "scatter", mode: "markers+text", x: figure.marks.map((mark) => mark.x), y: figure.marks.map((mark) => mark.y),
      text: figure.marks.map((mark) => String(mark.number)), textfont: { size: 10, color: colour("panel") },
      marker: { size: 16, color: colour("accent") }, hoverinfo: "text", hovertext: figure.marks.map((mark) => lines(wrapped(mark.text))),
      cliponaxis: false,
    });
    const captions = figure.captions.map((caption) => ({
      text: literal(caption.text), x: 0, xref: "paper", xanchor: "left", y: caption.y, yanchor: "top", yref: "y", showarrow: false,
      font: { size: 11, color: colour("soft") }, align: "left",
    }));
    const relabel = (event) => {
      if (Object.keys(event).some((key) => key.startsWith("xaxis"))) {
        const { range } = element.layout.xaxis;
        Plotly.restyle(element, { text: drawn.map((boxes) => fitting(boxes, figure, range, width)) }, drawn.map((_, index) => index));
      }
    };
    const items = figure.boxes.map((boxes) => ({ name: boxes.name, colour: account(boxes.colour) }));
    return { traces, items, relabel, height: Math.round(figure.height * 26 + 60), layout: layout({
      barmode: "overlay", annotations: captions, dragmode: isNarrow() ? false : "zoom",
      xaxis: axis({ ...titled(figure.unit), range: [0, figure.length], fixedrange: isNarrow(), showgrid: true, zeroline: false, type: "linear" }),
      yaxis: axis({ range: [figure.height, 0], visible: false, type: "linear" }),
    }) };
  }

  function readable(background) {
    const parts = background.match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16) / 255);
    return 0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2] > 0.55 ? "#14161b" : "#ffffff";
  }

  function ranks(figure) {
    const numbers = figure.labels.map((_, index) => index);
    const rows = figure.percent.slice().reverse();
    const times = figure.times.slice().reverse();
    const traces = [{
      type: "heatmap", x: numbers, y: rows.map((row) => literal(row.name)), z: rows.map((row) => row.values), xgap: numbers.length > 40 ? 0 : 2, ygap: 2,
      colorscale: [[0, colour("heat-low")], [1, colour("heat-high")]], zmin: 0, hoverinfo: "text", yaxis: "y",
      text: rows.map((row, place) => row.values.map((value, index) => lines(`${words.rank} ${figure.labels[index]}\n${row.name}: ${times[place][index]}, ${value} %`))),
      colorbar: { title: { text: "%", side: "top" }, thickness: 10, outlinewidth: 0, len: figure.caused.length ? 0.66 : 1, y: 1, yanchor: "top", tickfont: { size: 11 } },
    }];
    if (!isNarrow() && numbers.length <= 16) {
      traces[0].texttemplate = "%{z:.1f}";
      traces[0].textfont = { size: 11 };
    }
    if (figure.caused.length) {
      traces.push({
        type: "bar", x: numbers, y: figure.caused, yaxis: "y2", marker: { color: account("peer-wait") },
        hoverinfo: "text", hovertext: numbers.map((index) => lines(wrapped(`${words.rank} ${figure.labels[index]}: ${figure.caused[index]} ${figure.caused_unit}. ${figure.caused_texts[index]}`))),
        textposition: "none",
      });
    }
    const every = Math.ceil(numbers.length / (isNarrow() ? 8 : 24));
    const shown = numbers.filter((index) => index % every === 0);
    return { traces, height: 110 + rows.length * 26 + (figure.caused.length ? 130 : 0), layout: layout({
      bargap: 0.25,
      xaxis: axis({ ...titled(words.rank), type: "linear", tickvals: shown, ticktext: shown.map((index) => first(figure.labels[index])), showgrid: false, zeroline: false, anchor: figure.caused.length ? "y2" : "y", range: [-0.5, numbers.length - 0.5] }),
      yaxis: axis({ type: "category", domain: figure.caused.length ? [0.36, 1] : [0, 1], showgrid: false, ticks: "" }),
      yaxis2: axis({ ...titled(`${words.caused}\n${figure.caused_unit}`.replace("\n", ", ")), domain: [0, 0.28], rangemode: "tozero", nticks: 4, type: "linear" }),
    }) };
  }

  function wrapped(text) {
    return text.replace(/(.{40,70}?) /g, "$1\n");
  }

  function roofline(figure, element) {
    const xs = figure.points.map((point) => point.x);
    const ridges = figure.peaks.map((peak) => peak.value / figure.bytes_per_s);
    const left = Math.min(...xs, ...ridges) / 4;
    const right = Math.max(...xs, ...ridges) * 4;
    const top = Math.max(...figure.peaks.map((peak) => peak.value));
    const bottom = Math.min(...figure.points.map((point) => point.y), left * figure.bytes_per_s) / 2;
    const symbols = { math: ["circle", "\u25cf"], memory: ["square", "\u25a0"], "kernel-loss": ["diamond", "\u25c6"], other: ["x", "\u2716"] };
    const traces = Object.keys(figure.groups).map((group) => {
      const points = figure.points.filter((point) => point.group === group);
      return {
        type: "scatter", mode: "markers", name: group, x: points.map((point) => point.x), y: points.map((point) => point.y),
        marker: { size: points.map((point) => 7 + 26 * point.size), color: account(group), symbol: symbols[group][0], opacity: 0.82, line: { width: 1, color: colour("panel") } },
        hoverinfo: "text", hovertext: points.map((point) => lines(point.text)),
      };
    }).filter((trace) => trace.x.length);
    const items = traces.map((trace) => ({ name: figure.groups[trace.name], colour: account(trace.name), glyph: symbols[trace.name][1] }));
    const line = { color: colour("accent"), width: 1.5 };
    const ridge = top / figure.bytes_per_s;
    traces.unshift({ type: "scatter", mode: "lines", x: [left, ridge], y: [left * figure.bytes_per_s, top], line, hoverinfo: "skip" });
    figure.peaks.forEach((peak) => traces.unshift({
      type: "scatter", mode: "lines", x: [peak.value / figure.bytes_per_s, right], y: [peak.value, peak.value], line, hoverinfo: "skip",
    }));
    const log = Math.log10;
    const labels = peakLabels(figure.peaks, log(top * 2.2) - log(bottom), 380).map((peak) => ({
      text: literal(peak.name), x: log(right), y: log(peak.value), xanchor: "right", yanchor: "bottom", yshift: 1, showarrow: false, font: { size: 11, color: colour("soft") },
    }));
    const along = log(left) + 0.8 * (log(ridge) - log(left)); // nothing is above the roof, so its name has room there
    labels.push({
      text: literal(filled(words.memory_roof, { rate: figure.bandwidth })), x: along, y: along + log(figure.bytes_per_s),
      xanchor: "right", yanchor: "bottom", xshift: -4, showarrow: false, font: { size: 11, color: colour("soft") },
    });
    const view = { x: [log(left), log(right)], y: [log(bottom), log(top * 2.2)], width: element.clientWidth - 80, height: 350 };
    const names = figure.points.map((point) => ({ name: point.name, x: log(point.x), y: log(point.y), radius: 4 + 13 * point.size }));
    return { traces, items, height: 420, layout: layout({
      annotations: [...labels, ...named(names, view, labels)],
      xaxis: logarithmic([log(left), log(right)], { ...titled(words.intensity), tickformat: "~g" }),
      yaxis: logarithmic([log(bottom), log(top * 2.2)], { ...titled(words.rate), tickformat: "~s" }),
    }) };
  }

  // Labels of lines that are nearer than a letter is high would be unreadable: of such, the higher keeps its own.
  function peakLabels(peaks, decades, height) {
    const sorted = peaks.slice().sort((one, two) => two.value - one.value);
    const kept = [];
    sorted.forEach((peak) => {
      const last = kept[kept.length - 1];
      if (last && (Math.log10(last.lowest / peak.value) / decades) * height < 15) {
        last.name = `${last.name}; ${peak.name}`;
        last.lowest = peak.value;
      } else {
        kept.push({ ...peak, lowest: peak.value });
      }
    });
    return kept;
  }

  // Names beside points, the first ones first; where there is no room for one, the pointer still shows it. Positions are
  // those of the axes, logarithms where these are logarithmic; `view` is what the axes show, and on how many pixels.
  function named(points, view, labels) {
    const across = (x) => ((x - view.x[0]) / (view.x[1] - view.x[0])) * view.width;
    const down = (y) => ((view.y[1] - y) / (view.y[1] - view.y[0])) * view.height;
    const wide = (text) => [...text].reduce((sum, letter) => sum + (letter > "\u2e80" ? 11 : 6.2), 0);
    const taken = labels.map((label) => [across(label.x) - wide(label.text) - 6, down(label.y) - 18, across(label.x), down(label.y) + 18]);
    points.forEach(({ x, y, radius }) => taken.push([across(x) - radius, down(y) - radius, across(x) + radius, down(y) + radius]));
    const isFree = ([left, top, right, bottom]) => left >= 0 && right <= view.width && top >= 0 && bottom <= view.height
      && !taken.some((box) => left < box[2] && box[0] < right && top < box[3] && box[1] < bottom);
    const said = [];
    return points.flatMap(({ name, x, y, radius }) => {
      const [left, top, width, away] = [across(x), down(y), wide(name), radius + 3];
      if (said.some((one) => one.name === name && Math.hypot(one.left - left, one.top - top) < 80)) {
        return []; // a neighbour of the same name
      }
      const sides = [
        { box: [left + away, top - 7, left + away + width, top + 7], at: { xanchor: "left", yanchor: "middle", xshift: away } },
        { box: [left - away - width, top - 7, left - away, top + 7], at: { xanchor: "right", yanchor: "middle", xshift: -away } },
        { box: [left - width / 2, top - away - 14, left + width / 2, top - away], at: { xanchor: "center", yanchor: "bottom", yshift: away } },
        { box: [left - width / 2, top + away, left + width / 2, top + away + 14], at: { xanchor: "center", yanchor: "top", yshift: -away } },
      ];
      const side = sides.find(({ box }) => isFree(box));
      if (!side) {
        return [];
      }
      taken.push(side.box);
      said.push({ name, left, top });
      return [{ text: literal(name), x, y, showarrow: false, borderpad: 0, bgcolor: colour("panel"), font: { size: 11, color: colour("ink") }, ...side.at }];
    });
  }

  const kinds = ["#4287f5", "#c9430f", "#2b7f7a", "#8a2fc4", "#f98c0a", "#bb9bb4", "#53506e", "#7fcbf7"];
  const shapes = ["circle", "square", "diamond", "triangle-up", "cross", "star", "hexagon", "x"];
  const glyphs = ["\u25cf", "\u25a0", "\u25c6", "\u25b2", "\u271a", "\u2605", "\u2b22", "\u2716"];

  function collectives(figure) {
    const traces = figure.groups.map((group, place) => {
      const points = figure.points.filter((point) => point.group === group);
      const shape = shapes[place % shapes.length];
      return {
        type: "scatter", mode: "markers", x: points.map((point) => point.x), y: points.map((point) => point.y),
        marker: { size: points.map((point) => 8 + 22 * point.size), color: kinds[place % kinds.length], opacity: 0.85, line: { width: points.map((point) => (point.hollow ? 2.5 : 1)), color: colour("panel") },
          symbol: points.map((point) => (point.hollow ? `${shape}-open` : shape)) },
        hoverinfo: "text", hovertext: points.map((point) => lines(point.text)),
      };
    });
    const log = Math.log10;
    const xs = figure.points.map((point) => point.x);
    const ys = figure.points.map((point) => point.y).concat(figure.links.map((link) => link.value));
    const range = (values) => [log(Math.min(...values)) - 0.4, log(Math.max(...values)) + 0.4];
    const [left, right] = range(xs);
    const [bottom, top] = range(ys);
    figure.links.forEach((link) => traces.unshift({
      type: "scatter", mode: "lines", x: [10 ** left, 10 ** right], y: [link.value, link.value], line: { color: colour("accent"), width: 1.5, dash: "dash" }, hoverinfo: "skip",
    }));
    const labels = peakLabels(figure.links, top - bottom, 280).map((link) => ({
      text: literal(link.name), x: right, y: log(link.value), xanchor: "right", yanchor: "bottom", yshift: 1, showarrow: false, font: { size: 11, color: colour("soft") },
    }));
    const items = figure.groups.map((group, place) => ({ name: group, colour: kinds[place % kinds.length], glyph: glyphs[place % glyphs.length] }));
    return { traces, items, height: 360, layout: layout({
      annotations: labels,
      xaxis: logarithmic([left, right], { ...titled(words.size), tickformat: "~s" }),
      yaxis: logarithmic([bottom, top], { ...titled(words.bus), tickformat: "~s" }),
    }) };
  }

  // Pages of other kinds bring their own charts.
  const helpers = { words, axis, logarithmic, titled, layout, literal, lines, filled, colour, kinds, shapes, glyphs, peakLabels, named, isNarrow };
  const drawers = { steps, strip, ranks, roofline, collectives, ...(window.moreDrawers ? window.moreDrawers(helpers) : {}) };

  function draw() {
    if (!window.Plotly) {
      return; // not unpacked yet, or never
    }
    document.querySelectorAll("[data-chart]").forEach((element) => {
      const name = element.dataset.chart;
      const drawn = drawers[name](data.charts[name], element);
      element.style.height = `${drawn.height}px`;
      legend(element, drawn.items || []);
      Plotly.react(element, drawn.traces, drawn.layout, { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset", showTips: false });
      if (drawn.relabel) {
        element.removeAllListeners("plotly_relayout");
        element.on("plotly_relayout", drawn.relabel);
      }
    });
  }

  // Plotly is in the page as zlib in base64. The policy names its hash, so what is unpacked can be nothing else.
  async function plotly() {
    const packed = document.getElementById("plotly");
    const letters = atob(packed.textContent);
    const bytes = new Uint8Array(letters.length);
    for (let place = 0; place < letters.length; place += 1) {
      bytes[place] = letters.charCodeAt(place);
    }
    const script = document.createElement("script");
    script.textContent = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.body.append(script); // runs before append returns
    script.remove();
    packed.remove();
  }

  async function start() {
    if (!document.querySelector("[data-chart]")) {
      return;
    }
    if (!window.DecompressionStream) {
      document.getElementById("undrawn").hidden = false;
      document.querySelectorAll("[data-chart]").forEach((chart) => { chart.parentElement.hidden = true; });
      return;
    }
    await plotly();
    draw();
  }

  // --- tables -------------------------------------------------------------------------------------------------------

  const FEW = 12;

  function table(element) {
    const { head, rows, keys } = data.tables[element.dataset.table];
    const filter = element.querySelector("input");
    const button = element.querySelector(".more");
    const state = { column: -1, descending: false, all: false, order: rows.map((_, index) => index) };
    const isNumber = (column) => column in keys;

    function compare(one, two) {
      const sign = state.descending ? -1 : 1;
      if (isNumber(state.column)) {
        const values = [keys[state.column][one], keys[state.column][two]];
        if (values[0] === null || values[1] === null) {
          return (values[0] === null) - (values[1] === null);
        }
        return sign * (values[0] - values[1]);
      }
      return sign * rows[one][state.column].localeCompare(rows[two][state.column], undefined, { numeric: true });
    }

    function sort(column) {
      state.descending = state.column === column ? !state.descending : isNumber(column);
      state.column = column;
      state.order = rows.map((_, index) => index).sort(compare);
      element.querySelectorAll("th").forEach((cell, place) => {
        if (place === column) {
          cell.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
        } else {
          cell.removeAttribute("aria-sort");
        }
      });
      show();
    }

    function cell(kind, text, column) {
      const made = document.createElement(kind);
      if (isNumber(column)) {
        made.className = "number";
      } else if (kind === "td" && text.length > 40) {
        made.className = "wide";
        made.title = text;
      }
      return made;
    }

    function show() {
      const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = state.order.filter((index) => {
        const text = rows[index].join(" ").toLowerCase();
        return wanted.every((word) => text.includes(word));
      });
      const shown = state.all ? found : found.slice(0, FEW);
      const body = element.querySelector("tbody");
      body.replaceChildren(...shown.map((index) => {
        const line = document.createElement("tr");
        rows[index].forEach((text, column) => {
          const made = cell("td", text, column);
          made.textContent = text;
          line.append(made);
        });
        return line;
      }));
      element.querySelector(".count").textContent = filled(words.rows, { shown: shown.length, all: rows.length });
      button.hidden = found.length <= FEW;
      button.textContent = state.all ? words.show_fewer : filled(words.show_all, { all: found.length });
    }

    const line = document.createElement("tr");
    head.forEach((text, column) => {
      const made = cell("th", text, column);
      if (text) {
        const press = document.createElement("button");
        press.type = "button";
        press.textContent = text;
        press.addEventListener("click", () => sort(column));
        made.append(press);
      }
      line.append(made);
    });
    element.querySelector("thead").append(line);
    filter.addEventListener("input", show);
    button.addEventListener("click", () => { state.all = !state.all; show(); });
    element.showAll = () => { state.all = true; show(); };
    show();
  }

  // --- the rest of the page -----------------------------------------------------------------------------------------

  function copyable(block) {
    const frame = document.createElement("div");
    frame.className = "copyable";
    block.replaceWith(frame);
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = words.copy;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(block.textContent.trimEnd());
      } catch {
        getSelection().selectAllChildren(block);
        document.execCommand("copy");
        getSelection().removeAllRanges();
      }
      button.textContent = words.copied;
      setTimeout(() => { button.textContent = words.copy; }, 1500);
    });
    frame.append(block, button);
  }

  function isDark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function openTarget() {
    const target = location.hash.length > 1 ? document.getElementById(decodeURIComponent(location.hash.slice(1))) : null;
    if (target && target.tagName === "DETAILS") {
      target.open = true;
    }
  }

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  matchMedia("(max-width: 640px)").addEventListener("change", draw);
  window.addEventListener("hashchange", openTarget);
  window.addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
  });
  document.querySelectorAll(".fix pre, .parts pre").forEach(copyable);
  document.querySelectorAll("[data-table]").forEach(table);
  openTarget();
  start();
})();
