/* Details, selection, mouse and keyboard. */

/* ---- Details ------------------------------------------------------------------------------ */

/* Elements are made by calls, not by text: no name in a trace can become markup. */
function element(tag, text, attributes) {
  const el = document.createElement(tag);
  if (text) el.textContent = text;
  return Object.assign(el, attributes || {});
}
function factRow(table, name, value) {
  const row = table.insertRow();
  row.append(element('th', name, {scope: 'row'}));
  const cell = row.insertCell();
  cell.append(value);
}
function eventLink(i, text) {
  const b = element('button', text || `${model.label(i)} (${model.trackName(i)})`, {type: 'button', className: 'link'});
  b.addEventListener('click', () => select(i, true));
  return b;
}
function linkList(events) {
  const ul = element('ul', '', {className: 'links'});
  /* Eight are enough to go on; the others are counted. */
  for (const i of events.slice(0, 8)) {
    const li = element('li');
    li.append(eventLink(i), element('span', ' at ' + timeText(model.start[i]), {className: 'quiet'}));
    ul.append(li);
  }
  if (events.length > 8) ul.append(element('li', `and ${events.length - 8} more`, {className: 'quiet'}));
  return ul;
}

function showWait(table, i) {
  const wait = model.waitBefore(i), source = model.producer(i);
  /* A ring's write has no wait: its row shows when it was seen. */
  if (model.isWrite(i)) return;
  if (wait < 0) {
    if (model.kind[i] === INSN || model.kind[i] === TRIGGER) factRow(table, 'Waited', 'not on a semaphore');
    return;
  }
  const how = document.createDocumentFragment();
  how.append(`${spanText(model.end[wait] - model.start[wait])} ${model.kind[wait] === MEET ? '' : 'for '}${model.waitedFor(wait)}`);
  if (model.kind[wait] === WAIT && model.from[wait] >= 0) how.append(` to be ${model.value[model.from[wait]]}`);
  /* A wait shows itself; any other event shows the wait before it, and leads there. */
  if (model.isWait(i)) factRow(table, 'Waited', how);
  else {
    const b = eventLink(wait, 'before it');
    how.append(', ', b);
    factRow(table, 'Waited', how);
  }
  if (source >= 0) factRow(table, 'Ended by', eventLink(source));
}

function linkWrites(updates) {
  const out = document.createDocumentFragment();
  updates.forEach((u, k) => out.append(k ? ', ' : '', eventLink(u, '4 bytes to ' + model.semName(model.id[u])), `, seen at ${timeText(model.start[u])}`));
  return out;
}
/* For a trigger: what it started. For a share, or what its ring writes: what started it. */
function showTransfer(table, i) {
  const trigger = model.triggerOf(i), kind = model.kind[i];
  if (kind === TRIGGER) {
    const shares = model.sharesOf(i), first = shares.reduce((a, k) => Math.min(a, model.start[k]), Infinity);
    const last = shares.reduce((a, k) => Math.max(a, model.end[k]), 0), q = model.queues.get(model.id[i]), c = model.insn(i) || [];
    factRow(table, 'Queue', model.queueName(model.id[i]));
    /* To what and from where, if the transfer's ends are known. */
    factRow(table, 'Moves', `${bytesText(model.bytes[i])}${c[7] ? `, ${c[7]} to ${c[8]}` : ''}`);
    if (model.value[i] !== NONE) factRow(table, 'Semaphore', `${model.semName(model.value[i])}, + ${q ? q.rings : '?'}: 1 by each ring`);
    if (shares.length) {
      factRow(table, 'Transfer', `${timeText(first)} to ${timeText(last)}, ${(model.bytes[i] / (last - first) * 1000).toFixed(1)} GB/s`);
      factRow(table, 'Shares', linkList(shares));
    } else {
      factRow(table, 'Transfer', model.bytes[i] ? 'not started' : 'no bytes');
    }
  } else if (trigger >= 0) {
    factRow(table, 'Triggered', eventLink(trigger));
  } else if (kind === DMA) {
    factRow(table, 'Triggered', 'by ' + model.owner(i));
  }
}

function showSignals(table, i) {
  const updates = model.followers(i).filter((k) => model.kind[k] === SEM);
  if (model.kind[i] === DMA && updates.length)
    factRow(table, 'Then writes', linkWrites(updates));
  else if (updates.length)
    factRow(table, 'Signals', updates.map((u) => `${model.label(u)} at ${timeText(model.start[u])}`).join(', '));
  const next = model.consumers(i).filter((k) => k !== i);
  if (next.length) factRow(table, model.isWait(i) ? 'Then' : 'Unblocked', linkList(next));
  /* Updates that nobody waited for. */
  else if (updates.length) factRow(table, 'Unblocked', 'nothing: no wait ended with this');
}

/* What a step of the critical path shows about itself. */
function showStep(table, k) {
  factRow(table, 'Critical path', `step ${(k + 1).toLocaleString('en')} of ${path.n.toLocaleString('en')}, ` +
    spanText(path.end[k] - path.start[k]));
  if (path.kind[k] === DELAY && path.sem[k] >= 0) factRow(table, 'Waited', path.semText(k));
  else factRow(table, 'Because of', path.causeText(k));
}
/* A step without an event: time in a sequencer, say. */
function showStepAlone(box, k) {
  const c = model.data.code[path.code[k]], table = element('table', '', {className: 'facts'});
  box.append(element('h2', path.label(k)));
  factRow(table, 'Engine', path.engineName(k));
  factRow(table, 'From', timeText(path.start[k]));
  factRow(table, 'To', timeText(path.end[k]));
  showStep(table, k);
  if (c && c[4]) factRow(table, 'Source', element('code', model.data.files[c[4] - 1] + ':' + c[5]));
  if (c) box.append(element('p'));
  if (c) box.lastChild.append(element('code', `${c[2]} ${c[3]}`));
  box.append(table);
}
function showMark(box, m) {
  box.append(element('h2', m.what === 'fault' ? 'Fault' : 'Finding: ' + m.what),
    element('p', m.text, {className: 'text'}));
  const table = element('table', '', {className: 'facts'});
  if (view.lit.length) factRow(table, view.lit.length > 1 ? 'The two' : 'The one', linkList(view.lit));
  if (m.engine >= 0) factRow(table, 'Engine', model.engines[m.engine]);
  factRow(table, 'At', timeText(m.t));
  if (m.line) factRow(table, 'Source', element('code', m.file + ':' + m.line));
  box.append(table);
}

function showDetails() {
  const box = $('details'), i = view.selected;
  box.replaceChildren();
  /* What is selected: a mark, a step, or an event, in this order if there is no event. */
  if (i < 0 && view.mark >= 0) {
    showMark(box, marks[view.mark]);
    return;
  }
  if (i < 0 && view.step >= 0) {
    showStepAlone(box, view.step);
    return;
  }
  if (i < 0) {
    box.append(element('h2', 'Nothing selected'),
      element('p', 'Click a bar, or press ] to step through events. Press ? for all keys.', {className: 'quiet'}));
    return;
  }
  const title = element('h2'), chip = element('span', '', {className: 'chip'}), c = model.insn(i);
  chip.style.background = colorOf(i);
  title.append(chip, model.label(i));
  const table = element('table', '', {className: 'facts'});
  factRow(table, 'Track', model.trackName(i));
  if (model.kind[i] === DMA) {
    /* A share of a transfer whose instruction is not known has no ends. */
    const c2 = c || [];
    factRow(table, 'Moves', `${bytesText(model.bytes[i])}${c2[7] ? `, ${c2[7]} to ${c2[8]}` : ''}`);
    factRow(table, 'Rate', (model.bytes[i] / (model.end[i] - model.start[i]) * 1000).toFixed(1) + ' GB/s');
  }
  if (model.isWrite(i)) {
    factRow(table, 'Writes', '4 bytes to ' + model.semName(model.id[i]));
    factRow(table, 'At', timeText(model.writtenAt(i)));
    factRow(table, 'Seen at', timeText(model.start[i]));
  } else {
    factRow(table, 'From', timeText(model.start[i]));
    factRow(table, 'To', timeText(model.end[i]));
    factRow(table, 'Takes', spanText(model.end[i] - model.start[i]));
  }
  showTransfer(table, i);
  showWait(table, i);
  showSignals(table, i);
  const step = path ? path.stepOf(i) : -1;
  if (step >= 0) showStep(table, step);
  if (c) {
    const code = element('code', `${c[2]} ${c[3]}`);
    if (model.source(i)) factRow(table, 'Source', sourceLink(c));
    factRow(table, 'pc', String(c[1]));
    /* The instruction stands between the heading and its facts. */
    box.append(title, element('p'), table);
    box.children[1].append(code);
  } else {
    box.append(title, table);
  }
}

/* ---- Selection and search ----------------------------------------------------------------- */

/* Brings event i into view: opens its section, moves time and rows no more than necessary. */
function openSection(i) {
  const track = model.trackOf(i), section = track && 'section ' + track.section;
  if (!section || open.has(section)) return;
  open.add(section);
  showAll();
}
function reveal(i) {
  openSection(i);
  const span = view.t1 - view.t0, start = beginOf(i), end = endOf(i), length = end - start, place = placeOf(i);
  if (start < view.t0 || end > view.t1) {
    /* Only as far as needed, so that a person keeps the place. */
    const room = Math.max(span, length * 1.3), middle = (start + end) / 2;
    view.t0 = middle - room / 2;
    view.t1 = view.t0 + room;
  }
  if (!place) return;
  if (place.row.y < view.y) view.y = place.row.y - 8;
  if (place.row.y + place.row.h > view.y + view.height - RULER) view.y = place.row.y + place.row.h - view.height + RULER + 8;
}

/* One event, one step, one mark or one gap is selected: the others end. */
function select(i, bring) {
  view.selected = i;
  view.step = i >= 0 && path ? path.stepOf(i) : -1;
  view.mark = -1;
  view.lit = [];
  view.gap = null;
  if (i >= 0) showLineOf(i);
  if (i >= 0) {
    if (bring) reveal(i);
    /* For readers of the screen: what was selected, in words. */
    $('said').textContent = `${model.label(i)} on ${model.trackName(i)}, at ${timeText(model.start[i])}, ` +
      `takes ${spanText(model.end[i] - model.start[i])}`;
  } else {
    $('said').textContent = 'Nothing selected';
  }
  showDetails();
  draw();
}

/* Brings a span of time into view, and a row. */
function revealTime(start, end, row) {
  const length = Math.max(end - start, 1000);
  if (start < view.t0 || end > view.t1) {
    const room = Math.max(view.t1 - view.t0, length * 1.3), middle = (start + end) / 2;
    view.t0 = middle - room / 2;
    view.t1 = view.t0 + room;
  }
  if (row && row.y < view.y) view.y = row.y - 8;
  if (row && row.y + row.h > view.y + view.height - RULER) view.y = row.y + row.h - view.height + RULER + 8;
}

/* Selects step k of the critical path: its event, or the step if it has none. */
function selectStep(k) {
  const i = path.eventOf(k), place = placeOfStep(k);
  if (!view.path) togglePath();
  select(i, i >= 0);
  view.step = k;
  if (i < 0) {
    revealTime(path.start[k], path.end[k], place && place.row);
    $('said').textContent = `Step ${k + 1} of the critical path: ${path.label(k)}, takes ${spanText(path.end[k] - path.start[k])}`;
    showDetails();
  }
  draw();
}
function stepPath(by) {
  if (!path || !path.n) {
    $('said').textContent = 'The critical path is not known';
    return;
  }
  const list = view.share ? view.share.steps : null, n = list ? list.length : path.n;
  const at = (j) => list ? list[j] : j;
  let j = view.step >= 0 ? firstWhere(n, (m) => at(m) >= view.step) : by > 0 ? -1 : n;
  /* Between two steps of the share that is shown, the one before. */
  if (view.step >= 0 && by > 0 && (j === n || at(j) > view.step)) j--;
  j += by;
  if (j >= 0 && j < n) selectStep(at(j));
}

function selectGap(gap) {
  const row = rowOf.engine[gap.engine], length = Math.max(gap.end - gap.start, 1000);
  select(waitOf(gap), false);
  view.gap = gap;
  view.t0 = gap.start - length * 0.4;
  view.t1 = gap.end + length * 0.4;
  /* A gap is shown with some time around it. */
  revealTime(gap.start, gap.end, row);
  $('said').textContent = gapText(gap);
  draw();
}

function selectMark(k) {
  const m = marks[k];
  if (!m) return;
  /* Ends what was selected before. */
  select(-1, false);
  view.mark = k;
  view.lit = eventsOf(m);
  for (const i of view.lit) openSection(i);
  const times = view.lit.flatMap((i) => [beginOf(i), endOf(i)]).concat(m.t);
  const place = view.lit.length ? placeOf(view.lit[view.lit.length - 1]) : null;
  revealTime(Math.min(...times), Math.max(...times), place ? place.row : m.engine >= 0 ? rowOf.engine[m.engine] : null);
  if (view.lit.length) showLineOf(view.lit[view.lit.length - 1]);
  $('said').textContent = m.text;
  showDetails();
  draw();
}

function find(query) {
  view.hits = model.search(query);
  view.hit = -1;
  showMarkedLine();
  const n = view.hits ? view.hits.list.length : 0;
  /* "none" instead of 0: it stands where a person looks. */
  $('hits').textContent = view.hits ? (n ? n.toLocaleString('en') + ' found' : 'none') : '';
  draw();
}
function stepHit(by) {
  const list = view.hits ? view.hits.list : [];
  if (!list.length) return;
  if (view.hit < 0) {
    /* From what is in view, not from the beginning. */
    const at = firstWhere(list.length, (k) => model.start[list[k]] >= view.t0);
    view.hit = by > 0 ? at % list.length : (at + list.length - 1) % list.length;
  } else {
    view.hit = (view.hit + by + list.length) % list.length;
  }
  $('hits').textContent = `${(view.hit + 1).toLocaleString('en')} of ${list.length.toLocaleString('en')}`;
  select(list[view.hit], true);
}

/* The event before or after the selected one on its track; at first, the first event in view. */
function stepEvent(by) {
  if (view.selected < 0) {
    const track = model.tracks.find((t) => t.type === 'engine' && t.spans.n) || model.tracks.find((t) => t.type === 'queue');
    const s = track && (track.type === 'queue' ? track.rings[0] : track.spans);
    if (!s || !s.n) return;
    const k = firstWhere(s.n, (m) => model.start[s.ev[m]] >= view.t0);
    select(s.ev[Math.min(k, s.n - 1)], true);
    return;
  }
  const s = listOf(view.selected);
  /* A section that is closed has no list. */
  if (!s) return;
  const k = positionIn(s, view.selected) + by;
  if (k >= 0 && k < s.n) select(s.ev[k], true);
}

function zoomToSelection() {
  const i = view.selected, k = view.step;
  if (i < 0 && k < 0) return;
  const [start, end] = i >= 0 ? [beginOf(i), endOf(i)] : [path.start[k], path.end[k]];
  const length = Math.max(end - start, 1000);
  setView(start - length, end + length);
}
function follow(events) {
  const i = events.find((k) => k >= 0 && k !== view.selected);
  if (i === undefined) $('said').textContent = 'Nothing to go to';
  else select(i, true);
}

/* ---- Mouse -------------------------------------------------------------------------------- */

/* The event of s at x, the topmost one; narrow ones can be hit two pixels beside them. */
function pick(s, x, lane) {
  /* Two pixels beside it: a bar may be a pixel wide. */
  const lo = T(x - 2), hi = T(x + 2), t = T(x);
  let best = -1, k = firstWhere(s.n, (m) => s.maxEnd[m] >= lo);
  for (; k < s.n && model.start[s.ev[k]] <= hi; k++) {
    const i = s.ev[k];
    if (model.end[i] < lo || (lane >= 0 && s.lane[k] !== lane)) continue;
    /* Inside wins; the last of several is on top. */
    const inside = model.start[i] <= t && model.end[i] >= t;
    if (inside || best < 0) best = i;
  }
  return best;
}
function pickWrite(list, x) {
  const k = firstWhere(list.length, (m) => model.writtenAt(list[m]) >= T(x - 2));
  return k < list.length && model.writtenAt(list[k]) <= T(x + 1) ? list[k] : -1;
}
function eventAt(x, y) {
  const at = y - RULER + view.y;
  /* The ruler is no row. */
  const row = y < RULER ? null : rows.find((r) => at >= r.y && at < r.y + r.h);
  if (!row || !row.track) return -1;
  const t = row.track, wide = open.has(t), within = at - row.y;
  if (t.type === 'engine') {
    if (within > waitsTop(t) - 2) return pick(t.waits, x, -1);
    if (within > triggersTop(t) - 2) return pick(t.triggers, x, -1);
    return pick(t.spans, x, wide ? Math.max(0, Math.floor((within - 5) / LANE)) : -1);
  }
  if (!t.rings) return -1;
  const r = Math.max(0, Math.min(t.rings.length - 1, Math.floor((within - 4) / (wide ? 10 : 2))));
  const write = wide && t.writes ? pickWrite(t.writes[r], x) : -1;
  return write >= 0 ? write : pick(t.rings[r], x, -1);
}

/* On a step line: its value under the pointer. */
function stepAt(x, y) {
  const at = y - RULER + view.y, row = rows.find((r) => at >= r.y && at < r.y + r.h);
  if (!row || !row.track || !row.track.t) return null;
  if (row.track.type === 'rate') {
    /* The mean of a pixel's time. */
    const moved = model.movedUntil(row.track, T(x + 1)) - model.movedUntil(row.track, T(x));
    return ['Throughput', valueText(row.track, 1000 * moved / (T(x + 1) - T(x)))];
  }
  const k = firstWhere(row.track.t.length, (m) => row.track.t[m] > T(x)) - 1, v = k < 0 ? 0 : row.track.v[k];
  return [row.track.name, row.track.type === 'memory' ? bytesText(v) + ' in use'
    : row.track.type === 'pending' ? v + (v === 1 ? ' transfer' : ' transfers') : 'value ' + v];
}

function showTip(x, y) {
  const tip = $('tip'), i = eventAt(x, y), step = i < 0 ? stepAt(x, y) : null;
  const flag = markAt(x, y);
  const ofWorld = world ? worldTip(x, y) : null;
  const text = ofWorld ? ofWorld : flag >= 0 ? [markTitle(marks[flag]), 'at ' + timeText(marks[flag].t)] : i >= 0 ? [model.label(i), `${model.trackName(i)}, ${model.isWrite(i) ? '4 bytes' : spanText(model.end[i] - model.start[i])}, from ${timeText(beginOf(i))}`] : step;
  view.hover = i;
  canvas.style.cursor = i >= 0 || flag >= 0 ? 'pointer' : 'default';
  tip.style.display = text && !view.measure ? 'block' : 'none';
  if (!text) return;
  tip.replaceChildren(element('b', text[0]), element('span', text[1]));
  const box = canvas.getBoundingClientRect(), left = box.left - tip.parentElement.getBoundingClientRect().left;
  tip.style.left = Math.min(left + x + 14, left + view.width - tip.offsetWidth - 6) + 'px';
  /* 46 is the height of the page's head. */
  tip.style.top = Math.min(46 + y + 18, 46 + view.height - tip.offsetHeight - 6) + 'px';
}

let drag = null;
canvas.addEventListener('pointerdown', (e) => {
  /* Shift: a span is measured; else the timeline is moved. */
  drag = {x: e.offsetX, y: e.offsetY, t0: view.t0, t1: view.t1, top: view.y, moved: false, span: e.shiftKey};
  if (e.shiftKey) view.measure = [T(e.offsetX), T(e.offsetX)];
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener('pointermove', (e) => {
  view.at = e.offsetX;
  if (!drag) {
    showTip(e.offsetX, e.offsetY);
    draw();
    return;
  }
  const dx = e.offsetX - drag.x, dy = e.offsetY - drag.y;
  /* A click trembles: below four pixels it is not a drag. */
  drag.moved = drag.moved || Math.abs(dx) + Math.abs(dy) > 4;
  if (drag.span) view.measure[1] = T(e.offsetX);
  else if (drag.moved) {
    const by = dx / view.width * (drag.t1 - drag.t0);
    view.y = drag.top - dy;
    setView(drag.t0 - by, drag.t1 - by);
  }
  $('tip').style.display = 'none';
  draw();
});
canvas.addEventListener('pointerup', (e) => {
  if (drag && !drag.moved && !drag.span) {
    view.measure = null;
    const flag = markAt(e.offsetX, e.offsetY);
    if (flag >= 0) selectMark(flag);
    else select(eventAt(e.offsetX, e.offsetY), false);
  }
  drag = null;
  draw();
});
canvas.addEventListener('pointerleave', () => {
  view.at = -1;
  $('tip').style.display = 'none';
  draw();
});
canvas.addEventListener('dblclick', (e) => {
  if (eventAt(e.offsetX, e.offsetY) >= 0) zoomToSelection();
});
$('time').addEventListener('wheel', (e) => {
  /* Wheels count in lines or in pixels. */
  const lines = e.deltaMode === 1 ? 16 : 1;
  e.preventDefault();
  /* As in maps: with Ctrl, or two fingers on a pad, it zooms. */
  if (e.ctrlKey || e.metaKey) zoom(Math.exp(e.deltaY * lines * 0.004), T(e.clientX - canvas.getBoundingClientRect().left));
  else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) * lines / view.width);
  else view.y += e.deltaY * lines;
  draw();
}, {passive: false});
overview.addEventListener('pointerdown', (e) => overview.setPointerCapture(e.pointerId));
/* Only while the left button is down. */
for (const type of ['pointerdown', 'pointermove'])
  overview.addEventListener(type, (e) => {
    if (!(e.buttons & 1)) return;
    const t = model.begin + e.offsetX / overview.clientWidth * (model.total - model.begin);
    const half = (view.t1 - view.t0) / 2;
    setView(t - half, t + half);
  });

/* ---- Keyboard ----------------------------------------------------------------------------- */

function toggleArrows() {
  view.arrows = !view.arrows;
  $('arrows').setAttribute('aria-pressed', view.arrows);
  draw();
}
function togglePath() {
  if (!path) {
    /* A run without causes has no path: it says so instead of doing nothing. */
    $('said').textContent = 'The critical path is not known';
    return;
  }
  view.path = !view.path;
  $('path').setAttribute('aria-pressed', view.path);
  $('said').textContent = view.path ? 'Critical path shown' : 'Critical path hidden';
  if (!view.path) setShare(null);
  draw();
}
function escape() {
  /* What was last comes off first: measure, search, selection, path. */
  view.measure = null;
  if (view.hits) { /* of a search, or a line of the source */
    $('query').value = '';
    find('');
  } else if (view.selected >= 0 || view.step >= 0 || view.mark >= 0 || view.gap) {
    select(-1, false);
  } else if (view.path) {
    togglePath();
  }
  canvas.focus();
}
function scrollRows(by) {
  view.y += by;
  draw();
}

const KEYS = {
  ArrowLeft: (e) => pan(e.shiftKey ? -0.9 : -0.15), ArrowRight: (e) => pan(e.shiftKey ? 0.9 : 0.15),
  ArrowUp: () => scrollRows(-40), ArrowDown: () => scrollRows(40),
  PageUp: () => scrollRows(RULER - view.height), PageDown: () => scrollRows(view.height - RULER),
  '+': () => zoom(0.7), '=': () => zoom(0.7), '-': () => zoom(1 / 0.7), '_': () => zoom(1 / 0.7),
  '0': fit, Home: fit, '[': () => stepEvent(-1), ']': () => stepEvent(1),
  p: () => view.selected >= 0 && follow([model.producer(view.selected)]),
  c: () => view.selected >= 0 && follow(model.consumers(view.selected)),
  a: () => pan(-0.15), d: () => pan(0.15), w: () => zoom(0.7), s: () => zoom(1 / 0.7),
  f: zoomToSelection, n: () => stepHit(1), N: () => stepHit(-1), l: toggleArrows, t: toggleTheme,
  x: togglePath, ',': () => stepPath(-1), '.': () => stepPath(1),
  '1': () => showTab(0, true), '2': () => showTab(1, true), '3': () => showTab(2, true), '4': () => showTab(3, true), '5': () => showTab(4, true),
  '6': () => world && showTab(5, true),
  '/': () => $('query').select(), '?': () => $('keys').showModal(), Escape: escape,
};
document.addEventListener('keydown', (e) => {
  /* Single letters are commands, but not while somebody types. */
  const typing = e.target === $('query'), handler = KEYS[e.key];
  if (!handler || e.ctrlKey || e.metaKey || e.altKey || $('keys').open) return;
  if (typing && e.key !== 'Escape') return;
  /* The arrows scroll a panel that has the focus. */
  if (/^(Arrow|Page|Home)/.test(e.key) && e.target.closest && e.target.closest('aside')) return;
  e.preventDefault();
  handler(e);
});

$('query').addEventListener('input', () => find($('query').value));
$('find').addEventListener('submit', (e) => e.preventDefault());
$('query').addEventListener('keydown', (e) => {
  if (e.key !== 'Enter') return;
  e.preventDefault();
  stepHit(e.shiftKey ? -1 : 1);
});
$('next').addEventListener('click', () => stepHit(1));
$('prev').addEventListener('click', () => stepHit(-1));
$('in').addEventListener('click', () => zoom(0.7));
$('out').addEventListener('click', () => zoom(1 / 0.7));
$('fit').addEventListener('click', fit);
$('arrows').addEventListener('click', toggleArrows);
$('path').addEventListener('click', togglePath);
$('path').disabled = !path;
$('theme').addEventListener('click', toggleTheme);
$('help').addEventListener('click', () => $('keys').showModal());

/* ---- Start -------------------------------------------------------------------------------- */

let stored = null;
try { stored = localStorage.getItem('soma-theme'); } catch (e) { /* a file may have no storage */ }
/* A theme that was chosen stays, whatever the system does. */
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => stored || setTheme(null));
setTheme(stored);
const title = model.data.title || 'Soma trace';
document.title = title;
$('title').textContent = title;
$('about').textContent = `${world ? `rank ${rank} of ${world.n}, ` : ''}${model.data.target}, ${spanText(runTime())}, ${model.n.toLocaleString('en')} events` +
  (marks.some((m) => m.what === 'fault') ? ', ended by a fault' : '');
startPanels();
showAll();
if (asked.has('from')) setView(Number(asked.get('from')), Number(asked.get('to')));
else fit();
/* Also when the panel beside it is folded. */
new ResizeObserver(() => {
  [view.width, view.height] = fitCanvas(canvas);
  drawOverview();
  draw();
}).observe($('time'));
