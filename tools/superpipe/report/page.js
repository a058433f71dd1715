// Draws a report, section by section, from the figures that the page carries. docs/report.md says what they are.

// Sections

function overview() {
  document.querySelector('h1').textContent = several ? `${traces.length} traces: ${traces.map(fileName).join(', ')}` : (traces[0].about.command || fileName(traces[0]));
  const host = body('overview');
  for (const trace of traces) {
    const {about, counts, memory, link, stalls} = trace;
    host.append(...[heading(trace)].filter(Boolean));
    const policy = [about.policy || 'policy not told', about.k ? `k ${about.k}` : '', about.k_prime ? `k' ${about.k_prime}` : ''].filter(Boolean).join(', ');
    host.append(hint([several ? about.command : fileName(trace), about.device, policy, about.process ? `process ${about.process}` : ''].filter(Boolean).join(' \u00b7 ')));
    if (!trace.complete) host.append(make('p', {class: 'note'}, 'The trace ends early, because its process died or the disk was full: this is what happened up to there.'));
    if (trace.dropped) host.append(make('p', {class: 'note'}, `${plural(trace.dropped, 'event')} could not be recorded, because the disk was slow: sums are too low by what is missing.`));
    if (trace.other_files) host.append(make('p', {class: 'note'}, `The run has other files too: ${trace.other_files}`));
    const budget = Math.max(...memory.budget);
    const tiles = [
      ['Length', time(trace.end_ns), `${plural(trace.events, 'event')}, ${plural(counts.launches, 'launch').replace('launchs', 'launches')}`],
      ['Device memory, at most', bytes(memory.device_peak_bytes), budget ? `of a budget of ${bytes(budget)}` : 'the run had no budget'],
      ['Host memory, at most', bytes(memory.pinned_host_peak_bytes), 'pinned, for what was not on the device'],
      ['Moved to the device', bytes(link.to_device_bytes), `${plural(counts.fetches, 'fetch').replace('fetchs', 'fetches')}, ${count(counts.demand_fetches)} on demand`],
      ['Moved to the host', bytes(link.to_host_bytes), `${plural(counts.write_backs, 'write-back')} of ${plural(counts.evictions, 'eviction')}`],
      ['Launches stalled', time(stalls.all_ns), counts.stalls ? `${plural(counts.stalls, 'stall')}, ${percent(100 * stalls.all_ns / Math.max(1, trace.end_ns))} of the length` : 'no launch waited'],
      ['Program waited', time(waitedBy(trace)), trace.waits.map((wait) => `${time(wait.all_ns)} ${wait.reason}`).join(', ') || 'no call for 20 \u00b5s or longer'],
      ['Passes', count(counts.passes), passText(trace)],
    ];
    host.append(make('dl', {class: 'tiles'}, ...tiles.map(([name, value, small]) =>
      make('div', {class: 'tile'}, make('dt', {}, name), make('dd', {}, value, make('small', {}, small))))));
  }
}

function passText(trace) {
  const means = trace.passes.mean_ms;
  if (!means.length) return 'none was recognised';
  const middle = [...means].sort((one, other) => one - other)[Math.floor(means.length / 2)];
  return `${milliseconds(middle)} each (median)`;
}

function memorySection() {
  const host = body('memory');
  if (traces.every((trace) => !trace.memory.device_peak_bytes)) return host.append(empty('No trace tells of memory in use.'));
  const context = traces.map((trace) => trace.about.context_bytes).filter(Boolean);
  host.append(hint(`Device: pages of managed buffers, and what the driver holds for the program${context.length ? `; the context (${[...new Set(context)].map(bytes).join(', ')}) is not in it, nor in the budget` : ''}. Where several changes share a point, the highest is drawn.`));
  const constant = (trace, value) => trace.memory.device_most.map(() => value);
  // An axis that reaches a budget far above all curves would leave them a line at its foot.
  const curves = ({memory}) => (several ? [memory.device_most]
    : [memory.device_most, memory.live, memory.passthrough]);
  const highest = Math.max(...traces.flatMap((trace) => [trace.memory.device_peak_bytes,
    ...curves(trace).map((values) => Math.max(...values))]));
  const highestBudget = (trace) => Math.max(...trace.memory.budget);
  const isFarAbove = (trace) => highestBudget(trace) > 2 * highest;
  addChart(host, {title: 'Device memory over time', height: 280, isTime: true, ...byteAxis,
    above: () => traces.filter(isFarAbove)
      .map((trace) => called(trace, `budget ${bytes(highestBudget(trace))}, above`)),
    table: () => timeTable((trace) => {
    const {memory} = trace;
    const lines = [{label: called(trace, 'device memory'), stroke: traceColour(trace, 0), fill: !several, values: memory.device_most}];
    if (!several) {
      lines.push({label: 'live buffers, wherever they are', stroke: '--c2', values: memory.live});
      if (Math.max(...memory.passthrough)) lines.push({label: "driver's own", stroke: '--c4', values: memory.passthrough});
    }
    if (highestBudget(trace)) {
      lines.push({label: called(trace, 'budget'), stroke: traceColour(trace, 1), dash: [8, 4],
        width: 2, auto: !isFarAbove(trace), values: memory.budget.map((value) => value || null)});
    }
    lines.push({label: called(trace, 'high-water mark'), stroke: traceColour(trace, 3), dash: [2, 3], values: constant(trace, memory.device_peak_bytes)});
    return lines;
  })});
  host.append(make('h3', {}, 'Host memory'));
  if (traces.every((trace) => !trace.memory.pinned_host_peak_bytes)) return host.append(empty('Nothing was kept in host memory: all that the program used stayed on the device.'));
  addChart(host, {title: 'Pinned host memory over time', height: 190, isTime: true, ...byteAxis, table: () => timeTable((trace) => [
    {label: called(trace, 'pinned host memory'), stroke: traceColour(trace, 0), fill: !several, values: trace.memory.pinned_host},
    {label: called(trace, 'high-water mark'), stroke: traceColour(trace, 3), dash: [2, 3], values: constant(trace, trace.memory.pinned_host_peak_bytes)}])});
}

function residencySection() {
  const host = body('residency');
  host.append(hint('A row for each layer, and for each call site whose buffers are in none. The stronger the colour, the more of it lay on the device.'));
  for (const trace of traces) {
    host.append(...[heading(trace)].filter(Boolean));
    if (trace.no_layers) host.append(hint(`Layers are not known (${trace.no_layers}); rows are call sites.`));
    const groups = trace.groups.filter((group) => group.most_bytes > 0);
    if (!groups.length) { host.append(empty('The trace has no managed buffer.')); continue; }
    addMap(host, trace, {title: `Residency of ${groups.length} layers and call sites over time`, width: trace.residency_bin_ns,
      groups: groups.map((group) => ({...group, shares: group.residency})),
      said: (group, share) => `${share} % of ${bytes(group.most_bytes)} on the device`});
  }
  host.append(make('div', {class: 'scale'}, 'none of it', make('i'), 'all of it'));
}

function linkSection() {
  const host = body('link');
  const moved = traces.filter((trace) => trace.link.to_device_bytes || trace.link.to_host_bytes);
  if (!moved.length) return host.append(empty('Superpipe moved nothing over the link.'));
  host.append(hint("Superpipe's own transfers, each way; a point is the mean over its time. The program's own copies are not in it."));
  addChart(host, {title: 'Use of the link over time', height: 240, isTime: true, axisWidth: 82, text: rate, yValues: (u, splits) => splits.map(rate), table: () => timeTable((trace) => [
    {label: called(trace, 'to the device'), stroke: traceColour(trace, 0), fill: !several, values: trace.link.to_device.map((value) => value / trace.bin_ns)},
    {label: called(trace, 'to the host'), stroke: traceColour(trace, 1), dash: several ? [6, 3] : undefined, values: trace.link.to_host.map((value) => value / trace.bin_ns)}])});
  for (const trace of moved) {
    const {link, counts} = trace;
    const mean = (moved_bytes, busy) => (busy ? ` at ${rate(moved_bytes / busy)} while transfers ran (${percent(100 * busy / Math.max(1, trace.end_ns))} of the time)` : '');
    host.append(hint(called(trace, `${bytes(link.to_device_bytes)} to the device${mean(link.to_device_bytes, link.to_device_busy_ns)}; ${bytes(link.to_host_bytes)} to the host${mean(link.to_host_bytes, link.to_host_busy_ns)}. The program itself copied ${bytes(counts.copied_in_bytes)} in and ${bytes(counts.copied_out_bytes)} out of managed buffers.`)));
  }
}

function stallSection() {
  const host = body('stalls');
  const stalled = traces.filter((trace) => trace.stalls.all_ns);
  if (!stalled.length) return host.append(empty('No launch waited for transfers.'));
  host.append(hint('The part of the time that streams waited for fetches. It can exceed 100 %, because several streams can wait at once.'));
  addChart(host, {title: 'Stalls over time', height: 190, isTime: true, axisWidth: 82, text: percent, yValues: (u, splits) => splits.map(percent), table: () => timeTable((trace) => [
    {label: called(trace, 'waiting'), stroke: traceColour(trace, 1), fill: !several, values: trace.stalls.ns.map((value) => 100 * value / trace.bin_ns)}])});
  for (const trace of stalled) {
    host.append(make('h3', {}, called(trace, 'By layer')));
    const all = trace.stalls.all_ns;
    const rows = trace.groups.filter((group) => group.stall_ns > 0).map((group) => ({...group, searched: searchedGroup(trace, group)}));
    if (trace.stalls.unexplained_ns > 0) rows.push({name: 'not known: nothing of the launch came late', stall_ns: trace.stalls.unexplained_ns, late_bytes: null, late_new_page_bytes: null, searched: 'not known'});
    rows.sort((one, other) => other.stall_ns - one.stall_ns);
    addTable(host, rows, [nameColumn('Layer or call site'), stallColumn(all), lateColumn, newPageColumn]);
    host.append(make('h3', {}, called(trace, 'By kernel')));
    addTable(host, trace.kernels.filter((kernel) => kernel.stall_ns > 0).map((kernel) => ({...kernel, searched: kernel.name})),
      [nameColumn('Kernel'), stallColumn(all), {title: 'Stalls', value: (row) => row.stalls, text: (row) => count(row.stalls)}, lateColumn, newPageColumn]);
  }
  host.append(hint('A stall counts for the layers whose bytes came while the launch waited, shared out by those bytes. Where no content was late, launches waited for room for new pages, which buffers get when they are made.'));
}

// Of all threads together, in nanoseconds.
function waitedBy(trace) { return trace.waits.reduce((sum, wait) => sum + wait.all_ns, 0); }

function waitSection() {
  const host = body('waits');
  const waiting = traces.filter((trace) => trace.waits.length);
  if (!waiting.length) return host.append(empty('No call of the program waited for 20 \u00b5s or longer, or the trace is of a version that does not tell.'));
  host.append(hint('The part of the time that calls of the program waited: launches for their buffers, or for room in their stream; the program itself for the device (an event, a stream or all of it); copies for their end. It can exceed 100 %, because several threads can wait at once.'));
  const shares = (trace, ns) => ns.map((value) => 100 * value / trace.bin_ns);
  const all = (trace) => trace.stalls.ns.map((_, i) => trace.waits.reduce((sum, wait) => sum + wait.ns[i], 0));
  addChart(host, {title: 'Waits of the program over time', height: 190, isTime: true, axisWidth: 82, text: percent, yValues: (u, splits) => splits.map(percent), table: () => timeTable((trace) => (several
    ? [{label: called(trace, 'waiting'), stroke: traceColour(trace, 0), values: shares(trace, all(trace))}]
    : trace.waits.map((wait, i) => ({label: wait.reason, stroke: `--c${i}`, values: shares(trace, wait.ns)}))))});
  for (const trace of waiting) {
    host.append(...[heading(trace)].filter(Boolean));
    addTable(host, trace.waits.map((wait) => ({...wait, name: wait.reason, searched: null})), [
      nameColumn('Waited'),
      {title: 'Time', value: (row) => row.all_ns, text: (row) => time(row.all_ns), share: (row) => row.all_ns / Math.max(1, waitedBy(trace))},
      {title: 'Calls', value: (row) => row.calls, text: (row) => count(row.calls)},
      {title: 'Of the length', value: (row) => row.all_ns, text: (row) => percent(100 * row.all_ns / Math.max(1, trace.end_ns)), minor: true}]);
  }
}

function markSection() {
  const host = body('marks');
  const marked = traces.filter((trace) => trace.marks.rows.length);
  if (!marked.length) return host.append(empty('The program marks nothing through NVTX (torch.cuda.nvtx in PyTorch), or another tool takes its marks.'));
  host.append(hint('Ranges and points that the program marks through NVTX. The stronger the colour, the more of that time lay within a range of this name.'));
  for (const trace of marked) {
    host.append(...[heading(trace)].filter(Boolean));
    const {rows, width_ns: width, others} = trace.marks;
    const ranges = rows.filter((row) => row.ranges);
    if (ranges.length) {
      addMap(host, trace, {title: `Ranges of ${ranges.length} names over time`, width, said: (row, share) => `${share} % of the time`,
        groups: ranges});
    }
    addTable(host, rows.map((row) => ({...row, searched: row.name})), [
      nameColumn('Mark'),
      {title: 'Ranges', value: (row) => row.ranges, text: (row) => count(row.ranges)},
      {title: 'In all', value: (row) => row.ns, text: (row) => time(row.ns)},
      {title: 'Mean', value: (row) => row.ns / Math.max(1, row.ranges), text: (row) => (row.ranges ? time(row.ns / row.ranges) : '-')},
      {title: 'Points', value: (row) => row.points, text: (row) => count(row.points), minor: true}]);
    if (others) host.append(hint(`${plural(others, 'mark')} of further names ${others === 1 ? 'is' : 'are'} left out.`));
  }
}

function passSection() {
  const host = body('passes');
  if (traces.every((trace) => !trace.passes.mean_ms.length)) return host.append(empty('No pass was recognised while the traces were recorded: the program did not repeat itself, or everything fitted and policy learned nothing.'));
  addChart(host, {title: 'Time of each pass', height: 190, axisWidth: 82, xName: 'pass', xText: (value) => `pass ${value}`, text: milliseconds,
    xAxis: {incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5, 1e6]}, xValues: (u, splits) => splits.map(count), yValues: (u, splits) => splits.map(milliseconds),
    xRange: (u, low, high) => [low, Math.max(high, low + 1)],
    table: () => {
      const tables = [];
      const series = [];
      for (const trace of traces) {
        const {mean_ms: means, per_point: each} = trace.passes;
        if (!means.length) continue;
        tables.push([means.map((_, i) => 1 + i * each), means]);
        series.push({label: called(trace, each > 1 ? `mean of ${each} passes` : 'pass'), stroke: traceColour(trace, 0), points: {show: means.length < 60}});
      }
      return {data: tables.length > 1 ? uPlot.join(tables) : tables[0], series};
    }});
  host.append(hint('From one beginning of a pass to the next, as the program submitted them. The last one has no end that is known.'));
}

function whatIfSection() {
  const host = body('what-if');
  for (const trace of traces) {
    host.append(...[heading(trace)].filter(Boolean));
    const answer = trace.what_if;
    if (!answer) { host.append(empty(`No predictions: ${trace.no_what_if || 'the plan could not be made'}.`)); continue; }
    addWhatIf(host, trace, answer);
  }
}

function timesAsLong(ratio) { return digits(ratio) === '1.00' || ratio === 1 ? 'as long' : `${digits(ratio)} times as long`; }

function addWhatIf(host, trace, answer) {
  const rows = answer.rows;
  const running = rows.filter((row) => row.problem == null);
  const sure = [];
  if (answer.accuracy) sure.push(`The traced run itself, run again so, takes ${milliseconds(answer.accuracy.predicted_pass_ms)} a pass, where ${milliseconds(answer.accuracy.measured_pass_ms)} were measured.`);
  if (answer.accuracy && !answer.accuracy.is_near) sure.push('That run was predicted too far off, in its pass or its peak, for the rest to be relied on; superpipe plan says what may be wrong.');
  if (answer.measured_compute_share < 0.5) sure.push(`The times of kernels are estimates for the most part: the trace has ${percent(100 * answer.measured_compute_share)} of them.`);
  if (!answer.passes) sure.push('No pass repeats itself: the whole program counts as one.');
  if (answer.skipped) sure.push(`${plural(answer.skipped, 'smaller budget')} took too long to be asked about; superpipe plan has no limit.`);
  host.append(make('p', {}, make('b', {}, 'Predictions, not measurements: '), `the traced program run again in virtual time under policy auto, over a link of ${/[a-z]/.test(answer.link) ? answer.link : `${answer.link} GB/s`}. ${sure.join(' ')}`));
  const slider = make('input', {type: 'range', min: 0, max: rows.length - 1, step: 1, 'aria-label': 'Budget: device memory for all of the process'});
  const shown = make('output');
  const said = make('p', {class: 'answer', 'aria-live': 'polite'});
  host.append(make('div', {class: 'slider'}, make('span', {}, 'GPU memory'), slider, shown), said);
  slider.value = rows.length - 1;
  let chart = null;
  const tell = () => {
    const row = rows[Number(slider.value)];
    const share = percent(100 * row.gpu_mem_bytes / answer.needed_bytes);
    shown.textContent = bytes(row.gpu_mem_bytes);
    slider.setAttribute('aria-valuetext', `${bytes(row.gpu_mem_bytes)}, ${share} of what it needs`);
    said.textContent = row.problem != null ? `With ${bytes(row.gpu_mem_bytes)} it would not run: ${row.problem}`
      : `With ${bytes(row.gpu_mem_bytes)} (${share} of what it needs) a pass would take ${milliseconds(row.pass_ms)}, ${timesAsLong(row.pass_ms / answer.resident_pass_ms)} as with all on the device, of which launches would wait ${milliseconds(row.stall_ms)} for transfers; ${bytes(row.h2d_bytes)} would move in and ${bytes(row.d2h_bytes)} out.`;
    if (chart && chart.plot) chart.plot.redraw(false);
  };
  slider.addEventListener('input', tell);
  if (running.length) {
    addChart(host, {title: 'Predicted time of a pass over the budget', height: 210, axisWidth: 82, xName: 'GPU memory', xText: bytes, text: milliseconds,
      xRange: (u, low, high) => (high > low ? [low, high] : [low * 0.9, low * 1.1 + 1]),
      xAxis: {incrs: byteIncrements, space: 80}, xValues: (u, splits) => splits.map(bytes), yValues: (u, splits) => splits.map(milliseconds),
      table: () => ({data: [running.map((row) => row.gpu_mem_bytes), running.map((row) => row.pass_ms), running.map((row) => row.windowed_bound_ms ?? null), running.map(() => answer.resident_pass_ms)],
        series: [{label: 'predicted pass', stroke: '--c0', points: {show: true, size: 7}}, {label: 'windowed bound', stroke: '--c1', dash: [6, 3]}, {label: 'all on the device', stroke: '--c2', dash: [2, 3]}]}),
      draw: (u) => {
        const x = u.valToPos(rows[Number(slider.value)].gpu_mem_bytes, 'x', true);
        u.ctx.save();
        u.ctx.strokeStyle = colour('--text');
        u.ctx.lineWidth = 2 * devicePixelRatio;
        u.ctx.setLineDash([]);
        u.ctx.beginPath();
        u.ctx.moveTo(x, u.bbox.top);
        u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
        u.ctx.stroke();
        u.ctx.restore();
      }});
    chart = charts[charts.length - 1];
  }
  tell();
  const table = make('details', {}, make('summary', {}, 'All of these budgets as a table'));
  host.append(table);
  const when = (row, value) => (row.problem != null ? '-' : value);
  addTable(table, rows.map((row) => ({...row, name: bytes(row.gpu_mem_bytes), searched: null})), [
    {title: 'GPU memory', value: (row) => row.gpu_mem_bytes, text: (row) => row.name},
    {title: 'Pass', value: (row) => row.pass_ms || 0, text: (row) => when(row, milliseconds(row.pass_ms))},
    {title: 'Stalled', value: (row) => row.stall_ms || 0, text: (row) => when(row, milliseconds(row.stall_ms))},
    {title: 'Moved in', value: (row) => row.h2d_bytes || 0, text: (row) => when(row, bytes(row.h2d_bytes))},
    {title: 'Moved out', value: (row) => row.d2h_bytes || 0, text: (row) => when(row, bytes(row.d2h_bytes))},
    {title: 'First pass', value: (row) => row.first_pass_ms || 0, text: (row) => (row.problem != null ? 'does not run' : milliseconds(row.first_pass_ms))}]);
}

const searchedSite = (site) => `${site.title} ${site.frames.join(' ')}`;
function searchedGroup(trace, group) {
  return `${group.name} ${group.kinds.map((kind) => (kind.site == null ? '' : searchedSite(trace.sites[kind.site]))).join(' ')}`;
}
function frameList(site) {
  if (!site || !site.frames.length) return make('p', {class: 'hint'}, 'The call site is not known.');
  return make('ol', {class: 'frames'}, ...site.frames.map((frame) => make('li', {}, frame)));
}

function layerSection() {
  const host = body('layers');
  for (const trace of traces) {
    host.append(...[heading(trace)].filter(Boolean));
    if (trace.no_layers) host.append(hint(`Traces do not carry layers, and none could be found in this one (${trace.no_layers}): buffers are grouped by call site.`));
    else host.append(hint('Layers as policy groups them by the launches of one pass of the trace; buffers without a layer are grouped by call site. A row opens to its buffers.'));
    if (!trace.groups.length) { host.append(empty('The trace has no managed buffer.')); continue; }
    addTable(host, trace.groups.map((group) => ({...group, trace, searched: searchedGroup(trace, group), mean: group.residency.reduce((sum, share) => sum + share, 0) / Math.max(1, group.residency.length)})), [
      nameColumn('Layer or call site'),
      {title: 'Buffers', value: (row) => row.buffers, text: (row) => count(row.buffers), minor: true},
      {title: 'Size', value: (row) => row.most_bytes, text: (row) => bytes(row.most_bytes)},
      {title: 'On the device', value: (row) => row.mean, text: (row) => percent(row.mean)},
      {title: 'Fetched', value: (row) => row.fetched_bytes, text: (row) => bytes(row.fetched_bytes)},
      {title: 'On demand', value: (row) => row.demand_bytes, text: (row) => bytes(row.demand_bytes), minor: true},
      {title: 'Written back', value: (row) => row.written_back_bytes, text: (row) => bytes(row.written_back_bytes), minor: true},
      {title: 'Waited', value: (row) => row.stall_ns, text: (row) => time(row.stall_ns)}], groupDetails);
  }
}

function groupDetails(row) {
  const {trace} = row;
  const kinds = [...row.kinds].sort((one, other) => other.bytes * other.buffers - one.bytes * one.buffers);
  const list = make('ul', {class: 'kinds'}, ...kinds.map((kind) => {
    const site = kind.site == null ? null : trace.sites[kind.site];
    return make('li', {}, `${plural(kind.buffers, 'buffer')} of ${bytes(kind.bytes)}, named by launches ${plural(kind.uses, 'time')}`,
      make('details', {}, make('summary', {}, site ? site.title : 'call site not known'), frameList(site)));
  }));
  if (row.other_kinds) list.append(make('li', {}, `${plural(row.other_kinds, 'buffer')} of other sizes and call sites`));
  return list;
}

function kernelSection() {
  const host = body('kernels');
  for (const trace of traces) {
    host.append(...[heading(trace)].filter(Boolean));
    if (!trace.kernels.length) { host.append(empty('The trace has no launch.')); continue; }
    const isTimed = trace.kernels.some((kernel) => kernel.timed_launches > 0);
    if (!isTimed) host.append(hint('The trace has no times of kernels on the device.'));
    if (trace.kernels_in_all > trace.kernels.length) host.append(hint(`The ${count(trace.kernels.length)} of ${count(trace.kernels_in_all)} kernels that waited longest, or were launched most.`));
    const columns = [nameColumn('Kernel'), {title: 'Launches', value: (row) => row.launches, text: (row) => count(row.launches)}];
    if (isTimed) columns.push({title: 'On the device', value: (row) => row.device_ns, text: (row) => (row.timed_launches ? time(row.device_ns) : 'not measured')});
    columns.push(stallColumn(trace.stalls.all_ns), lateColumn, newPageColumn);
    addTable(host, trace.kernels.map((kernel) => ({...kernel, searched: kernel.name})), columns);
  }
}

function siteSection() {
  const host = body('sites');
  for (const trace of traces) {
    host.append(...[heading(trace)].filter(Boolean));
    if (!trace.sites.length) { host.append(empty('The trace has no allocation.')); continue; }
    if (trace.sites_in_all > trace.sites.length) host.append(hint(`The ${count(trace.sites.length)} of ${count(trace.sites_in_all)} call sites that held most.`));
    addTable(host, trace.sites.map((site) => ({...site, name: site.title, searched: searchedSite(site)})), [
      nameColumn('Call site'),
      {title: 'Allocations', value: (row) => row.allocations, text: (row) => count(row.allocations)},
      {title: 'Of them managed', value: (row) => row.managed, text: (row) => count(row.managed), minor: true},
      {title: 'In all', value: (row) => row.bytes, text: (row) => bytes(row.bytes), minor: true},
      {title: 'At most at once', value: (row) => row.most_live_bytes, text: (row) => bytes(row.most_live_bytes)}], frameList);
  }
}

function aboutSection() {
  const keys = [['/', 'search'], ['Enter', 'in the search: to the next row that was found; with Shift to the one before'], ['Tab', 'from one control, chart and table to the next'], ['\u2190 \u2192', 'on a chart: move its cursor; on the slider: another budget'],
    ['+ -', 'on a chart: zoom; Escape shows all again'], ['Enter', 'on a legend: switch a line off and on; on a row: open it']];
  body('about').append(
    make('p', {}, `Made by superpipe ${data.superpipe} of ${traces.map((trace) => trace.file).join(', ')}. The page has all that it needs: it loads nothing.`),
    make('p', {}, 'Drag over a chart of time to zoom all of them, double-click to see all. Keys: ', ...keys.flatMap(([key, meaning]) => [make('kbd', {}, key), ` ${meaning}. `])),
    make('p', {}, 'Charts: uPlot by Leon Sorokin, MIT License.'));
}

// Search, theme, printing

let hit = null;  // the row that Enter has led to

function foundRows() {
  if (!$('search').value.trim()) return [];
  return [...document.querySelectorAll('tr[data-searched]')].filter((row) => row.checkVisibility());
}

// To the row `by` places behind the last one, and to the first after the last.
function goToHit(by) {
  const rows = foundRows();
  if (!rows.length) return;
  const last = rows.indexOf(hit);
  const next = last < 0 ? (by > 0 ? 0 : rows.length - 1) : (last + by + rows.length) % rows.length;
  if (hit) hit.classList.remove('hit');
  hit = rows[next];
  hit.classList.add('hit');
  hit.scrollIntoView({block: 'center'});
  $('found').textContent = `row ${count(next + 1)} of ${count(rows.length)}`;
}

function search() {
  if (hit) hit.classList.remove('hit');
  hit = null;
  const wanted = $('search').value.trim().toLowerCase();
  let shown = 0;
  let all = 0;
  for (const {lines, none, box} of tables) {
    let here = 0;
    for (const line of lines) {
      const isFound = (line.row.searched || '').toLowerCase().includes(wanted);
      line.shown.hidden = !isFound;
      if (line.below) line.below.hidden = !isFound;
      here += isFound ? 1 : 0;
    }
    none.hidden = here > 0;
    box.hidden = here === 0;
    shown += here;
    all += lines.length;
  }
  $('found').hidden = !wanted;
  $('found').textContent = `${count(shown)} of ${count(all)} rows${shown ? ': Enter goes to the first' : ''}`;
}

const darkness = matchMedia('(prefers-color-scheme: dark)');
let chosen = null;  // by the user
function setTheme() {
  const theme = chosen || (darkness.matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  $('theme').setAttribute('aria-label', `Switch to the ${theme === 'dark' ? 'light' : 'dark'} theme`);
  charts.forEach(draw);
}

for (const section of document.querySelectorAll('main section')) {
  document.querySelector('nav').append(make('a', {href: `#${section.id}`}, section.dataset.title));
}
for (const fill of [overview, memorySection, residencySection, linkSection, stallSection, waitSection, markSection, passSection, whatIfSection, layerSection, kernelSection, siteSection, aboutSection]) fill();
setTheme();
darkness.addEventListener('change', setTheme);
$('theme').addEventListener('click', () => {
  chosen = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  setTheme();
});
$('search').addEventListener('input', search);
$('search').addEventListener('keydown', (event) => {
  if (event.key !== 'Enter') return;
  event.preventDefault();
  goToHit(event.shiftKey ? -1 : 1);
});
$('print').addEventListener('click', () => print());
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input')) return;
  event.preventDefault();
  $('search').focus();
});
let beforePrint = null;
addEventListener('beforeprint', () => { beforePrint = chosen; chosen = 'light'; setTheme(); });
addEventListener('afterprint', () => { chosen = beforePrint; setTheme(); });
new ResizeObserver(() => {
  for (const chart of charts) if (chart.box.clientWidth && chart.box.clientWidth !== chart.drawnWidth) draw(chart);
}).observe(document.querySelector('main'));
document.documentElement.dataset.ready = String(charts.length);
