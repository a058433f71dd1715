// What the sections of a report are made of: elements, numbers as people read them, charts and tables. page.html puts this and page.js
// into one function.

const data = JSON.parse(document.getElementById('data').textContent);
const traces = data.traces;
const several = traces.length > 1;
const $ = (id) => document.getElementById(id);
const body = (id) => document.querySelector(`#${id} .body`);

// Makes an element; `more` are texts and elements. Texts of traces become text, never markup.
function make(name, attributes, ...more) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === true) element.setAttribute(key, '');
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...more.filter((part) => part != null));
  return element;
}

// Numbers as people read them.

function bytes(value) {
  if (value == null) return '-';
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < names.length - 1) { value /= 1024; ++unit; }
  return `${digits(value)} ${names[unit]}`;
}
function digits(value) {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString('en');
  if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toFixed(size >= 10 ? 1 : 2);
}
function time(ns) {
  if (ns == null) return '-';
  const size = Math.abs(ns);
  if (size >= 1e9) return `${digits(ns / 1e9)} s`;
  if (size >= 1e6) return `${digits(ns / 1e6)} ms`;
  if (size >= 1e3) return `${digits(ns / 1e3)} \u00b5s`;
  return `${digits(ns)} ns`;
}
const milliseconds = (ms) => time(ms * 1e6);
const count = (value) => value.toLocaleString('en');
const rate = (value) => (value == null ? '-' : `${digits(value)} GB/s`);
const percent = (value) => (value == null ? '-' : `${digits(value)} %`);
const plural = (number, word) => `${count(number)} ${word}${number === 1 ? '' : 's'}`;

function fileName(trace) { return trace.file.slice(trace.file.lastIndexOf('/') + 1); }
const letters = 'ABCD';
// What a trace is called in legends.
function label(trace) { return several ? letters[traces.indexOf(trace)] : ''; }
function called(trace, what) { return several ? `${label(trace)}: ${what}` : what; }
function heading(trace) { return several ? make('h3', {}, `${label(trace)}: ${fileName(trace)}`) : null; }
function empty(text) { return make('p', {class: 'empty'}, text); }
function hint(text) { return make('p', {class: 'hint'}, text); }

// Traces of one run share the wall clock; others are laid over each other at their starts.
const sameRun = several && traces.every((trace) => trace.about.run && trace.about.run === traces[0].about.run && trace.about.start_unix_ns);
const firstStart = Math.min(...traces.map((trace) => trace.about.start_unix_ns || 0));
const offset = (trace) => (sameRun ? trace.about.start_unix_ns - firstStart : 0);
const endOfAll = Math.max(1, ...traces.map((trace) => offset(trace) + trace.end_ns)) / 1e9;

// Charts

const charts = [];      // of the page, to be drawn anew in another theme
const timeCharts = [];  // share the axis of time
let isZooming = false;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function timeAxisText(u, splits) {
  const span = u.scales.x.max - u.scales.x.min;
  const [unit, factor] = span >= 3 ? ['s', 1] : span >= 3e-3 ? ['ms', 1e3] : ['\u00b5s', 1e6];
  return splits.map((value) => `${+(value * factor).toPrecision(8)} ${unit}`);
}

function zoomTime(min, max) {
  isZooming = true;
  for (const chart of timeCharts) chart.setScale('x', {min, max});
  isZooming = false;
}

function tips(describe) {
  let tip;
  return {hooks: {
    init: (u) => {
      tip = make('div', {class: 'tip', hidden: true});
      u.over.append(tip);
      u.over.addEventListener('mouseleave', () => { tip.hidden = true; });
    },
    setCursor: (u) => {
      const {left, top, idx} = u.cursor;
      const isHere = u.root.matches(':hover') || u.root.closest('.chart').matches(':focus');
      const lines = isHere && left >= 0 && idx != null ? describe(u, idx) : null;
      tip.hidden = !lines;
      if (!lines) return;
      tip.replaceChildren(make('b', {}, lines.title), ...lines.rows.map(([mark, text]) => {
        const row = make('span', {}, text);
        if (mark) { const key = make('i'); key.style.background = mark; row.prepend(key); }
        return row;
      }));
      const width = u.over.clientWidth;
      const isLeft = left < width / 2;
      tip.style.left = isLeft ? `${left + 12}px` : '';
      tip.style.right = isLeft ? '' : `${width - left + 12}px`;
      tip.style.maxWidth = `${Math.max(120, Math.min(300, (isLeft ? width - left : left) - 16))}px`;
      tip.style.top = `${Math.max(0, Math.min(top, u.over.clientHeight - tip.offsetHeight))}px`;
      u.said = `${lines.title}. ${lines.rows.map((row) => row[1]).join('. ')}`;
    },
  }};
}

// Adds a chart to `host`. `options`: title (for those who do not see it), height, isTime, x and y axes, series, scales, draw,
// describe(u, idx), axisWidth. `table()` gives its data, `above()` what is said at its top edge of
// what lies above the axis.
function addChart(host, options) {
  const box = make('div', {class: 'chart', tabindex: 0, role: 'group', 'aria-label': `${options.title}. Arrow keys move the cursor, plus and minus zoom, Escape shows all.`});
  host.append(box);
  const chart = {box, options, plot: null};
  charts.push(chart);
  box.addEventListener('keydown', (event) => chartKey(chart, event));
}

function draw(chart) {
  const {options, box} = chart;
  if (chart.plot) {
    if (options.isTime) timeCharts.splice(timeCharts.indexOf(chart.plot), 1);
    chart.plot.destroy();
  }
  const quiet = colour('--quiet');
  const axis = {stroke: quiet, grid: {stroke: colour('--line'), width: 1}, ticks: {stroke: colour('--line'), width: 1}, font: '12px system-ui, sans-serif'};
  const isNarrow = box.clientWidth < 560;
  const made = options.table();
  const plot = new uPlot({
    width: box.clientWidth, height: options.height, ms: 1e-3, legend: {show: options.legend !== false, live: !isNarrow, markers: {dash: (u, number) => (u.series[number].dash ? 'dashed' : 'solid')}},
    cursor: {drag: {x: Boolean(options.isTime), y: false, setScale: true}, points: {size: 6},
      sync: options.isTime ? {key: 'time', setSeries: false, scales: ['x', null]} : undefined,
      y: Boolean(options.isMap)},
    scales: {x: {time: false, range: options.isTime ? undefined : options.xRange}, y: {dir: options.isMap ? -1 : 1, range: options.yRange || ((u, low, high) => [0, high > 0 ? high * 1.08 : 1])}},
    axes: [{...axis, space: 70, size: 36, ...(options.xAxis || {}), values: options.xValues || timeAxisText},
      {...axis, size: isNarrow ? Math.min(options.axisWidth, 74) : options.axisWidth, ...(options.yAxis || {}), values: options.yValues}],
    series: [{label: options.isTime ? 'time' : options.xName, value: (u, value) => (value == null ? '-' : options.isTime ? time(value * 1e9) : options.xText(value))},
      ...made.series.map((one) => ({width: 1.6, points: {show: false}, spanGaps: true, value: (u, value) => (value == null || !options.text ? '-' : options.text(value)), paths: options.isTime ? uPlot.paths.stepped({align: 1}) : undefined,
        ...one, stroke: one.stroke && colour(one.stroke), fill: one.fill && `${colour(one.stroke)}26`}))],
    bands: made.bands,
    plugins: [tips(options.describe || ((u, idx) => describeLines(u, idx, options)))],
    hooks: {draw: options.draw ? [options.draw] : [],
      setScale: [(u, key) => {
        if (key !== 'x' || !options.isTime || isZooming || !timeCharts.includes(u)) return;
        zoomTime(u.scales.x.min, u.scales.x.max);
      }]},
  }, made.data, box);
  if (options.isTime) {
    timeCharts.push(plot);
    plot.over.addEventListener('dblclick', () => zoomTime(0, endOfAll));
  }
  const above = options.above ? options.above() : [];
  if (above.length) {
    const lines = above.map((text) => make('span', {}, `\u2191 ${text}`));
    plot.over.append(make('div', {class: 'above'}, ...lines));
  }
  chart.plot = plot;
  chart.drawnWidth = box.clientWidth;
  // Series can be switched off by the keyboard too.
  for (const head of box.querySelectorAll('.u-legend .u-series:not(:first-child) th')) {
    head.tabIndex = 0;
    head.setAttribute('role', 'button');
    head.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      event.stopPropagation();
      head.click();
    });
  }
}

function describeLines(u, idx, options) {
  const rows = [];
  u.series.forEach((series, number) => {
    if (number === 0 || !series.show) return;
    let at = idx;  // several traces share the axis: where one has no point, the one before holds
    while (at > 0 && u.data[number][at] == null) --at;
    const value = u.data[number][at];
    if (value != null) rows.push([series.stroke(u, number), `${series.label}: ${options.text(value)}`]);
  });
  const x = u.data[0][idx];
  return {title: options.isTime ? time(x * 1e9) : options.xText(x), rows};
}

function chartKey(chart, event) {
  if (event.target !== chart.box) return;
  const u = chart.plot;
  const xs = u.data[0];
  const {min, max} = u.scales.x;
  const center = u.cursor.idx == null ? (min + max) / 2 : xs[u.cursor.idx];
  const move = (to) => {
    const idx = Math.max(0, Math.min(xs.length - 1, to));
    u.setCursor({left: Math.max(0, Math.min(u.over.clientWidth - 1, u.valToPos(xs[idx], 'x'))), top: u.cursor.top >= 0 ? u.cursor.top : u.over.clientHeight / 2});
    $('said').textContent = u.said || '';
  };
  const step = (event.shiftKey ? 10 : 1) * Math.max(1, Math.round(xs.length / 200));
  const at = u.cursor.idx == null ? Math.round(xs.length / 2) : u.cursor.idx;
  const zoom = (factor) => {
    const half = (max - min) * factor / 2;
    zoomTime(Math.max(0, center - half), Math.min(endOfAll, center + half));
  };
  const row = chart.options.isMap ? u.over.clientHeight / chart.options.rows : 0;
  const actions = {
    ArrowLeft: () => move(at - step), ArrowRight: () => move(at + step), Home: () => move(0), End: () => move(xs.length - 1),
    ArrowUp: row && (() => { u.cursor.top = Math.max(0, u.cursor.top - row); move(at); }),
    ArrowDown: row && (() => { u.cursor.top = Math.min(u.over.clientHeight - 1, u.cursor.top + row); move(at); }),
    '+': chart.options.isTime && (() => zoom(0.5)), '=': chart.options.isTime && (() => zoom(0.5)),
    '-': chart.options.isTime && (() => zoom(2)), Escape: chart.options.isTime && (() => zoomTime(0, endOfAll)),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

// Bins of a trace as points of a chart, from their beginnings on; the last one is held until the end.
function binTimes(trace, width, bins) {
  const times = [];
  for (let i = 0; i < bins; ++i) times.push((offset(trace) + i * width) / 1e9);
  times.push(Math.max((offset(trace) + trace.end_ns) / 1e9, times[bins - 1] + 1e-9));
  return times;
}
const held = (values) => [...values, values[values.length - 1]];

// `lines(trace)`: for each trace its series and values by bin.
function timeTable(lines) {
  const tables = [];
  const series = [];
  for (const trace of traces) {
    const all = lines(trace);
    tables.push([binTimes(trace, trace.bin_ns, all[0].values.length), ...all.map((line) => held(line.values))]);
    series.push(...all.map(({values, ...rest}) => rest));
  }
  return {data: several ? uPlot.join(tables) : tables[0], series};
}

const byteIncrements = Array.from({length: 56}, (_, power) => 2 ** power);
const byteAxis = {axisWidth: 82, text: bytes, yAxis: {incrs: byteIncrements}, yValues: (u, splits) => splits.map(bytes)};
const traceColour = (trace, other) => `--c${several ? traces.indexOf(trace) : other}`;

// Adds rows of colour over time. `groups`: of each its name, and the `shares`, in percent, that it has of bins of `width` nanoseconds.
// `said(group, share)`: what a tip says of a bin.
function addMap(host, trace, {title, groups, width, said}) {
  const rows = groups.length;
  const columns = groups[0].shares.length;
  const height = Math.max(130, Math.min(720, rows * (rows > 60 ? 6 : 16))) + 60;
  addChart(host, {title, height, isTime: true, isMap: true, rows, legend: false, axisWidth: 150,
    yRange: () => [0, rows],
    yAxis: {splits: () => {
      const every = Math.max(1, Math.ceil(rows * 15 / (height - 50)));
      return groups.map((_, row) => row + 0.5).filter((_, row) => row % every === 0);
    }, grid: {show: false}, ticks: {show: false}},
    yValues: (u, splits) => splits.map((split) => {
      // The end of a function's name tells more than its namespaces and arguments.
      const name = groups[Math.floor(split)].name.replace(/[(<].*$/s, '');
      const most = innerWidth < 620 ? 9 : 19;
      return name.length > most ? `\u2026${name.slice(1 - most)}` : name;
    }),
    table: () => {
      const times = binTimes(trace, width, columns);
      if (times[times.length - 1] < endOfAll) times.push(endOfAll);
      return {data: [times, times.map(() => 0)], series: [{label: 'share', paths: () => null}]};
    },
    draw: (u) => {
      const heat = colour('--heat');
      const {ctx, bbox} = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      const tall = bbox.height / rows;
      const gap = tall > 8 ? 1 : 0;
      for (let row = 0; row < rows; ++row) {
        const top = bbox.top + row * tall;
        const {shares} = groups[row];
        for (let first = 0; first < columns;) {
          let next = first + 1;
          while (next < columns && shares[next] === shares[first]) ++next;
          if (shares[first] > 0) {
            const left = u.valToPos((offset(trace) + first * width) / 1e9, 'x', true);
            const right = u.valToPos((offset(trace) + Math.min(next * width, trace.end_ns)) / 1e9, 'x', true);
            if (right > bbox.left && left < bbox.left + bbox.width) {
              ctx.fillStyle = `rgba(${heat}, ${shares[first] / 100})`;
              ctx.fillRect(left, top, Math.max(right - left, 1), tall - gap);
            }
          }
          first = next;
        }
      }
      ctx.restore();
    },
    describe: (u) => {
      const row = Math.floor(u.posToVal(u.cursor.top, 'y'));
      const at = u.posToVal(u.cursor.left, 'x');
      const column = Math.floor((at * 1e9 - offset(trace)) / width);
      const group = groups[row];
      if (!group || column < 0 || column >= columns) return null;
      return {title: group.name, rows: [[null, said(group, group.shares[column])], [null, `at ${time(at * 1e9)}`]]};
    }});
}

// Tables

const tables = [];  // that search looks through
const nameColumn = (title) => ({title, value: (row) => row.name, text: (row) => row.name});
const stallColumn = (all) => ({title: 'Waited', value: (row) => row.stall_ns, text: (row) => time(row.stall_ns), share: (row) => row.stall_ns / Math.max(1, all)});
const lateColumn = {title: 'Late bytes', value: (row) => row.late_bytes || 0, text: (row) => bytes(row.late_bytes)};
const newPageColumn = {title: 'Late new pages', value: (row) => row.late_new_page_bytes || 0, text: (row) => bytes(row.late_new_page_bytes), minor: true};

// `rows`: with `searched`, the text that search looks at; null: always shown. `columns`: title, value(row) to sort by, text(row), and
// perhaps share(row) of a bar, minor (left out where there is no room). `more(row)`: what is shown below a row on demand.
function addTable(host, rows, columns, more) {
  const headRow = make('tr');
  const tbody = make('tbody');
  const box = make('div', {class: 'table', tabindex: 0, role: 'region', 'aria-label': `${columns[0].title}: table`}, make('table', {class: 'list'}, make('thead', {}, headRow), tbody));
  host.append(box);
  const lines = rows.map((row) => {
    const cells = columns.map((column, number) => {
      const text = column.text(row);
      const cell = make('td', {class: column.minor ? 'minor' : null});
      if (number === 0 && more) cell.append(make('button', {class: 'opener', type: 'button', 'aria-expanded': 'false'}, text));
      else if (number === 0) cell.append(make('span', {class: 'name', title: text}, text));
      else cell.append(text);
      if (column.share) {
        const bar = make('span', {class: 'share'});
        bar.style.width = `${Math.max(0, Math.min(100, 100 * column.share(row)))}%`;
        cell.append(bar);
      }
      return cell;
    });
    const line = {row, shown: make('tr', {'data-searched': row.searched != null}, ...cells), below: null};
    const opener = line.shown.querySelector('.opener');
    if (opener) opener.addEventListener('click', () => {
      const isOpen = opener.getAttribute('aria-expanded') !== 'true';
      opener.setAttribute('aria-expanded', String(isOpen));
      if (line.below) line.below.remove();
      line.below = isOpen ? make('tr', {class: 'more'}, make('td', {colspan: columns.length}, more(row))) : null;
      if (isOpen) line.shown.after(line.below);
    });
    return line;
  });
  const arrange = () => tbody.replaceChildren(...lines.flatMap((line) => [line.shown, line.below].filter(Boolean)));
  columns.forEach((column, number) => {
    const button = make('button', {type: 'button', title: `Sort by ${column.title.toLowerCase()}`}, column.title);
    const head = make('th', {scope: 'col', class: column.minor ? 'minor' : null}, button);
    button.addEventListener('click', () => {
      const isDown = head.getAttribute('aria-sort') ? head.getAttribute('aria-sort') === 'ascending' : number > 0;
      for (const other of headRow.children) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', isDown ? 'descending' : 'ascending');
      lines.sort((one, other) => {
        const [a, b] = [column.value(one.row), column.value(other.row)];
        const order = typeof a === 'string' ? a.localeCompare(b, 'en', {numeric: true}) : a - b;
        return isDown ? -order : order;
      });
      arrange();
    });
    headRow.append(head);
  });
  arrange();
  const none = make('p', {class: 'empty', hidden: true}, 'Nothing here has what is searched for.');
  host.append(none);
  if (rows.length && rows[0].searched !== null) tables.push({lines, none, box});
}
