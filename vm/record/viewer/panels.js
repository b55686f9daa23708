/* Panels about the whole run: summary, critical path, idle time, findings. */

/* ---- Summary ------------------------------------------------------------------------------ */

function cells(row, values) {
  /* The first cell is the row's heading. */
  values.forEach((v, k) => {
    const cell = k ? row.insertCell() : row.appendChild(element('th', '', {scope: 'row'}));
    cell.append(v);
  });
}
function busyBar(share, color) {
  const bar = element('span', '', {className: 'bar'}), fill = element('i');
  fill.style.width = Math.min(100, 100 * share) + '%';
  fill.style.background = color;
  bar.append(fill);
  return bar;
}
function chipped(name, color) {
  const label = document.createDocumentFragment(), chip = element('span', '', {className: 'chip'});
  chip.style.background = color;
  label.append(chip, name);
  return label;
}

/* A table with named columns.
 * The body apart from the head: screen readers need the difference. */
function headed(names) {
  const table = element('table'), head = table.createTHead().insertRow();
  for (const h of names) head.append(element('th', h, {scope: 'col'}));
  return [table, table.createTBody()];
}

function engineTable() {
  const f = model.data.figures, whole = model.total - model.begin;
  const used = f && f.utilization.length > 0, color = (e) => colors[model.engineKind(e)];
  /* Utilisation is known from the run's figures alone. */
  const [table, body] = headed(['Engine', 'instr.', 'waits', ...(used ? ['utilised'] : []), 'busy', '']);
  model.engines.forEach((name, e) => {
    const [count, active, waiting] = model.data.summary.engines[e];
    if (!count && !waiting) return;
    cells(body.insertRow(), [chipped(name, color(e)), count.toLocaleString('en'), percentText(waiting, whole),
      ...(used ? [e < model.data.firstCc ? percentText(f.utilization[e], 1e6) : ''] : []), percentText(active, whole), busyBar(active / whole, color(e))]);
  });
  return table;
}

function factTable(facts) {
  const table = element('table'), body = table.createTBody();
  /* null: not known, so the row is left out. */
  for (const [name, value] of facts) if (value !== null) cells(body.insertRow(), [name, value]);
  return table;
}

/* Names and meanings are those of the vendor's profiler. */
function figureTable(f) {
  const row = (name, long, value, color) => {
    const label = element('abbr', name, {title: long}), cell = document.createDocumentFragment();
    cell.append(percentText(value, 1e6) + ' ', busyBar(value / 1e6, color));
    return [label, cell];
  };
  const hbm = f.hbm[0] + f.hbm[1];
  return factTable([
    row('MFU', 'Model flops utilisation: what the tensor engine did for the model, of what it can do', f.mfu, colors.tensor),
    row('HFU', 'Hardware flops utilisation: all that the tensor engine did, transposes too', f.hfu, colors.tensor),
    row('MBU', 'Memory bandwidth utilisation: bytes read and written in HBM, of what it can move', f.mbu, colors.load),
    ['Arithmetic intensity', hbm && f.model ? (f.intensity / 1000).toFixed(1) + ' flop/B' : null],
    ['Bound at this intensity', !f.model || !hbm ? null : f.intensity < f.ridge ? 'memory' : 'compute'],
    ['Achieved', f.model ? rateText(f.model) : null],
    /* At the intensity of this run, by the roofline. */
    ['of attainable', f.model ? `${rateText(f.attainable)} (${percentText(f.model, f.attainable)})` : null]]);
}
function rateText(flops) { return countText(flops) + (flops < 1e5 ? '\u00a0' : '') + 'flop/s'; }

/* The name space without an address in the text: a page loads nothing from elsewhere. */
const svgSpace = (() => {
  const t = document.createElement('template');
  t.innerHTML = '<svg></svg>';
  return t.content.firstChild.namespaceURI;
})();
function svg(tag, attributes, text) {
  const el = document.createElementNS(svgSpace, tag);
  for (const [name, value] of Object.entries(attributes)) el.setAttribute(name, value);
  if (text) el.textContent = text;
  return el;
}

/* The roofline, both scales logarithmic, and where the run is under it. */
function roofline(f) {
  const W = 300, H = 112, left = 8, right = 8, top = 8, bottom = 18, log = Math.log10;
  /* The axes hold the ridge and the run, with room around them. */
  const x0 = Math.min(-1, log(f.intensity / 1000) - 0.5), x1 = Math.max(log(f.ridge / 1000) + 1.2, log(f.intensity / 1000) + 0.5);
  const y1 = log(f.peak) + 0.6, y0 = Math.min(log(f.peak) - 4, log(f.model) - 0.5);
  const x = (v) => left + (v - x0) / (x1 - x0) * (W - left - right);
  const y = (v) => top + (y1 - v) / (y1 - y0) * (H - top - bottom);
  const knee = log(f.ridge / 1000), at = log(f.intensity / 1000), slope = (v) => Math.max(y0, log(f.bandwidth) + v);
  /* The slanted part begins where it comes out of the axis. */
  const start = Math.max(x0, y0 - log(f.bandwidth));
  const text = `Roofline: intensity ${(f.intensity / 1000).toFixed(1)} flop/B, ridge at ${(f.ridge / 1000).toFixed(1)}`;
  const box = svg('svg', {viewBox: `0 0 ${W} ${H}`, class: 'roofline', role: 'img', 'aria-label': text});
  box.append(
    svg('path', {d: `M${left} ${H - bottom}H${W - right}`, class: 'axis'}),
    svg('path', {d: `M${x(start)} ${y(slope(start))}L${x(knee)} ${y(log(f.peak))}H${W - right}`, class: 'roof'}),
    svg('path', {d: `M${x(at)} ${y(log(f.attainable))}V${y(log(f.model))}`, class: 'drop'}),
    svg('circle', {cx: x(at), cy: y(log(f.model)), r: 4, class: 'dot'}),
    svg('text', {x: W - right, y: y(log(f.peak)) - 4, 'text-anchor': 'end'}, rateText(f.peak)),
    svg('text', {x: x(at), y: y(log(f.model)) + 15, 'text-anchor': 'middle'}, 'this run'),
    svg('text', {x: W - right, y: H - 5, 'text-anchor': 'end'}, 'flop/B'),
    svg('text', {x: x(knee), y: H - 5, 'text-anchor': 'middle'}, (f.ridge / 1000).toFixed(0)));
  return box;
}

function memoryParts(data, f) {
  /* null where nothing was used. */
  const text = (v, m) => v ? `${bytesText(v)} (${percentText(v, data.capacity[m])})` : null;
  const peaks = data.peak.flatMap((peak, core) => ['SBUF', 'PSUM'].map((name, m) =>
    [(data.cores > 1 ? 'core ' + core + ' ' : '') + name, text(peak[m], m)]));
  const water = (m) => f && f.touched[m] ? `${bytesText(f.touched[m])} of ${bytesText(f.size[m])}` : null;
  const parts = [];
  if (f && (f.touched[0] || f.touched[1]))
    parts.push(element('h3', 'High-water mark in a partition'), factTable([['SBUF', water(0)], ['PSUM', water(1)]]));
  if (peaks.some(([, value]) => value)) parts.push(element('h3', 'Most memory in use, by tiles'), factTable(peaks));
  return parts;
}

/* For the run; or for the stretch that was kept, if that is all there is. */
function runTime() {
  const d = model.data;
  /* With a part of the events only that part's length is known. */
  return d.figures && !d.dropped && !d.begin ? d.figures.time : d.total - d.begin;
}

function showSummary() {
  const s = model.data.summary, d = s.dma, whole = model.total - model.begin, data = model.data, f = data.figures;
  const parts = [factTable([
    ['Simulated time', spanText(runTime())],
    ['Launch, not part of it', f && f.launch ? spanText(f.launch) : null],
    ['Instructions', s.instructions === undefined ? null : s.instructions.toLocaleString('en')],
    ['Matmul flops', s.flops ? countText(s.flops) : null],
    ['Anything active', percentText(s.active, whole)]]),
  element('h3', 'Engines'), engineTable()];
  if (f) parts.push(element('h3', 'Utilisation'), figureTable(f));
  if (f && f.model && f.hbm[0] + f.hbm[1]) parts.push(roofline(f));
  if (d.shares)
    /* Bytes per ps times 1000 are GB per second. */
    parts.push(element('h3', 'DMA'), factTable([
      ['Transfers', d.transfers.toLocaleString('en')], ['Moved', bytesText(d.bytes)],
      ['of which from HBM', bytesText(d.read)], ['to HBM', bytesText(d.written)],
      ['Mean transfer', bytesText(Math.round(d.bytes / Math.max(1, d.transfers)))],
      ['Active', percentText(d.active, whole)],
      ['Rate while active', (d.bytes / Math.max(1, d.active) * 1000).toFixed(1) + ' GB/s']]));
  parts.push(...memoryParts(data, f));
  if (data.dropped)
    parts.push(element('p', `${data.dropped.toLocaleString('en')} events were not kept: the figures of engines, DMA and tiles cover only the others.`,
      {className: 'quiet'}));
  $('summary').replaceChildren(...parts);
}

/* ---- Critical path ------------------------------------------------------------------------ */

/* Coloured as on the timeline: by engine, or by direction. */
function shareColor(s) {
  if (!s.steps.length) return colors.wait;
  const k = s.steps[0], kind = path.kind[k], c = model.data.code[path.code[k]];
  if (kind === TRANSFER) return c && c[8] === 'hbm' ? colors.store : c && c[7] === 'hbm' ? colors.load : colors.other;
  return kind === DELAY ? colors.wait : colors[model.engineKind(path.engine[k])];
}

function setShare(share) {
  view.share = share;
  [...$('why').querySelectorAll('button.share')].forEach((b) =>
    b.setAttribute('aria-pressed', share !== null && b.dataset.name === share.name));
  draw();
}

let shares = null;
function shareList() {
  const total = model.data.figures ? model.data.figures.time : model.total;
  const [table, body] = headed(['What the time went into', 'time', 'share']);
  /* Worked out once: a path may have a million steps. */
  shares = shares || path.shares(total);
  for (const s of shares) {
    const name = element('button', '', {type: 'button', className: 'link share', disabled: !s.steps.length});
    name.append(chipped(s.name, shareColor(s)));
    name.dataset.name = s.name;
    name.setAttribute('aria-pressed', view.share !== null && view.share.name === s.name);
    name.addEventListener('click', () => {
      if (!view.path) togglePath();
      setShare(view.share === s ? null : s);
    });
    cells(body.insertRow(), [name, spanText(s.time), percentText(s.time, total)]);
  }
  return table;
}

/* The longest steps, in order of time.
 * The longest twelve, then in the order of the path. */
function longestSteps() {
  const most = 12, all = [...Array(path.n).keys()].filter((k) => path.end[k] > path.start[k]);
  all.sort((a, b) => (path.end[b] - path.start[b]) - (path.end[a] - path.start[a]) || a - b);
  const [table, body] = headed(['Longest steps', 'from', 'time']);
  for (const k of all.slice(0, most).sort((a, b) => a - b)) {
    const b = element('button', path.label(k), {type: 'button', className: 'link'});
    b.addEventListener('click', () => selectStep(k));
    cells(body.insertRow(), [b, timeText(path.start[k]), spanText(path.end[k] - path.start[k])]);
  }
  return table;
}

/* Where a step's instruction stands. */
function stepPlace(k) {
  const c = model.data.code[path.code[k]];
  return c && c[4] ? ` ${model.data.files[c[4] - 1].replace(/^.*\//, '')}:${c[5]}` : '';
}
const PATH_HEAD = 60, PATH_TAIL = 20; /* rows of the path that are listed, as by --explain-time */

/* The path from its beginning, with repeating steps shown once: for a loop, the time of all its
 * rounds. */
function foldedPath() {
  const [table, body] = headed(['The path, earliest first', 'time']), b = path.blocks;
  let rows = 0, row = 0;
  for (let k = 0; k < b.length; k += 3) rows += b[k + 1];
  const shown = (r) => rows <= PATH_HEAD + PATH_TAIL || r < PATH_HEAD || r >= rows - PATH_TAIL;
  for (let k = 0; k < b.length; k += 3) {
    const [first, n, repeats] = [b[k], b[k + 1], b[k + 2]], last = first + n * repeats - 1;
    if (repeats > 1 && shown(row)) {
      const head = body.insertRow();
      head.className = 'repeats';
      cells(head, [`${repeats.toLocaleString('en')} times`, spanText(path.end[last] - path.start[first])]);
    }
    for (let i = 0; i < n; i++, row++) {
      if (!shown(row)) {
        if (row === PATH_HEAD) cells(body.insertRow(), [`${(rows - PATH_HEAD - PATH_TAIL).toLocaleString('en')} more`, '']);
        continue;
      }
      /* The time of one step in all rounds of its loop. */
      let time = 0;
      for (let j = first + i; j <= last; j += n) time += path.end[j] - path.start[j];
      const step = element('button', path.label(first + i), {type: 'button', className: 'link'}), cell = document.createDocumentFragment();
      step.addEventListener('click', () => selectStep(first + i));
      cell.append(step, element('span', stepPlace(first + i), {className: 'quiet'}));
      const tr = body.insertRow();
      if (repeats > 1) tr.className = 'repeated';
      cells(tr, [cell, spanText(time)]);
    }
  }
  return table;
}

function showWhy() {
  const box = $('why');
  /* The text says how to get what is missing. */
  if (!path) {
    box.replaceChildren(element('p', 'This run was recorded without causes, so its critical path is not known.'),
      element('p', 'soma --html records them, unless --trace-last or --trace-limit is given; so does soma.core {causes = true}.',
        {className: 'quiet'}));
    return;
  }
  if (!path.n) {
    box.replaceChildren(element('p', 'Nothing took time.'));
    return;
  }
  const walk = element('p', '', {className: 'walk'});
  for (const [label, what, run] of [['\u2039 Step', 'Step before, on the critical path', () => stepPath(-1)],
    ['Step \u203a', 'Next step of the critical path', () => stepPath(1)]]) {
    const b = element('button', label, {type: 'button', ariaLabel: what});
    b.addEventListener('click', run);
    walk.append(b, ' ');
  }
  walk.append(element('span', `${path.n.toLocaleString('en')} steps; x shows them`, {className: 'quiet'}));
  box.replaceChildren(walk, shareList(), longestSteps(), foldedPath());
}

/* ---- Idle time ---------------------------------------------------------------------------- */

function codeText(code) {
  const c = model.data.code[code];
  return !c ? '?' : c[4] ? `${c[2]} at ${model.data.files[c[4] - 1]}:${c[5]}` : c[2];
}
/* Who was late, as a sentence.
 * "tensor idle 1.2 us, waiting for loaded>=16: queue q0 was late (dma_copy at a.s:12)". */
function gapText(g) {
  const idle = `${model.engines[g.engine]} idle ${spanText(g.end - g.start)}`, q = model.data.idle.firstEngine;
  if (g.sem < 0 && g.late < 0) return `${idle}, ${whomText(g.whom)}`;
  const waits = `${idle}, waiting ${g.sem < 0 ? MEETING : `for ${model.semName(g.sem)}${g.condition}`}`;
  if (g.late < 0) return waits;
  const who = whomText(g.whom).replace('for ', '');
  return `${waits}: ${g.whom < q ? 'queue ' : ''}${who} was late (${codeText(g.late)})`;
}

function idleOf(e) {
  const sums = model.data.idle.sums.filter((s) => s[0] === e).sort((a, b) => b[2] - a[2]);
  const [table, body] = headed(['Idle', 'gaps', 'time', 'share']);
  for (const [, whom, time, count] of sums)
    cells(body.insertRow(), [whomText(whom), count.toLocaleString('en'), spanText(time), percentText(time, model.total - model.begin)]);
  return table;
}

const GAPS_SHOWN = 5; /* of an engine */
function gapList(e) {
  const list = element('ul', '', {className: 'links'});
  for (const g of gaps.filter((x) => x.engine === e).slice(0, GAPS_SHOWN)) {
    const li = element('li'), b = element('button', gapText(g), {type: 'button', className: 'link'});
    b.addEventListener('click', () => selectGap(g));
    li.append(b, element('span', ' from ' + timeText(g.start), {className: 'quiet'}));
    list.append(li);
  }
  return list;
}

function showIdle() {
  /* Engines in the order of the sums, which is their own. */
  const engines = [...new Set(model.data.idle.sums.map((s) => s[0]))], parts = [];
  if (!engines.length) parts.push(element('p', 'No data path ran, or none was ever idle.'));
  for (const e of engines) {
    const h = element('h3');
    h.append(chipped(model.engines[e], colors[model.engineKind(e)]));
    parts.push(h, idleOf(e), element('h4', 'The longest'), gapList(e));
  }
  $('idle').replaceChildren(...parts);
}

/* ---- Faults and findings ------------------------------------------------------------------ */

function markTitle(m) { return (m.what === 'fault' ? 'fault: ' : '') + m.text.split('\n')[0]; }

function showFaults() {
  /* Findings beyond those that were kept are counted. */
  const list = element('ul', '', {className: 'links'}), more = (model.data.findings || 0) - marks.filter((m) => m.what !== 'fault').length;
  marks.forEach((m, k) => {
    const li = element('li'), b = element('button', markTitle(m), {type: 'button', className: 'link'});
    b.addEventListener('click', () => selectMark(k));
    li.append(b, element('span', ' at ' + timeText(m.t), {className: 'quiet'}));
    list.append(li);
  });
  $('faults').replaceChildren(marks.length ? list : element('p', model.data.marks
    ? 'No fault, and no finding. Checks look for more when they are on: soma --check.' : 'The page was made without its run.'));
  if (more > 0) $('faults').append(element('p', `and ${more.toLocaleString('en')} more`, {className: 'quiet'}));
}

/* ---- Tabs --------------------------------------------------------------------------------- */

const TABS = [['summary', 'Summary'], ['why', 'Critical path'], ['idle', 'Idle'], ['faults', 'Findings'], ['source', 'Source'],
  ...(world ? [['world', 'World']] : [])];
let tab = 0;

function showTab(k, focus) {
  tab = (k + TABS.length) % TABS.length;
  TABS.forEach(([id], i) => {
    const b = $('tab-' + id);
    b.setAttribute('aria-selected', i === tab);
    /* One tab is in the order of the Tab key, the arrows go to its neighbours. */
    b.tabIndex = i === tab ? 0 : -1;
    $(id).hidden = i !== tab;
  });
  document.querySelector('main').classList.toggle('reading', TABS[tab][0] === 'source');
  /* Its rows are made when they can be seen, as their number may be large. */
  if (TABS[tab][0] === 'source') showSource();
  if (focus) $('tab-' + TABS[tab][0]).focus();
}

function startPanels() {
  TABS.forEach(([id, name], k) => {
    const text = id === 'faults' && marks.length ? `${name} (${model.data.findings || marks.length})` : name;
    const b = element('button', text, {type: 'button', id: 'tab-' + id});
    b.setAttribute('role', 'tab');
    b.setAttribute('aria-controls', id);
    b.addEventListener('click', () => showTab(k));
    b.addEventListener('keydown', (e) => {
      const by = {ArrowLeft: -1, ArrowRight: 1}[e.key];
      if (!by) return;
      e.preventDefault();
      e.stopPropagation();
      showTab(tab + by, true);
    });
    $('tabs').append(b);
  });
  /* Faults and findings come first: they are why somebody opens the page. */
  showTab(asked.has('tab') ? Number(asked.get('tab')) : marks.length ? 3 : world ? 5 : 0);
}

function showPanels() {
  showSummary();
  showWhy();
  showIdle();
  showFaults();
  if (world) showWorld();
}
