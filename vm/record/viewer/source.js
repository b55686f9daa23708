/* The source, with the time that each line took. */

const LINE_HEIGHT = 18;
/* marked: the line of the selected event, as [file, line]. */
const source = {file: 0, by: null, whole: 0, rows: [], marked: null};

/* Time of the critical path by line, and what the model knows about lines. */
function lineTimes() {
  if (source.by) return source.by;
  source.by = model.lines();
  for (const row of source.by.values()) row.path = 0;
  /* A step of the path counts for the line of its instruction. */
  for (let k = 0; path && k < path.n; k++) {
    const c = model.data.code[path.code[k]], row = c && source.by.get(c[4] + ':' + c[5]);
    const time = path.end[k] - path.start[k];
    source.whole += time;
    if (row) row.path += time;
  }
  /* Without a path heat is the time at work, of the busiest line. */
  if (!path) source.whole = [...source.by.values()].reduce((a, r) => Math.max(a, r.work), 0);
  const total = new Map(), main = (r) => path ? r.path : r.work;
  for (const r of source.by.values()) total.set(r.file, (total.get(r.file) || 0) + main(r));
  /* The file that took most comes first. */
  source.files = [...total.keys()].sort((a, b) => total.get(b) - total.get(a));
  source.file = source.files[0] || 0;
  return source.by;
}

/* The lines of a file; without its text, the instructions of the lines that instructions came
 * from. */
function linesOf(file) {
  const by = lineTimes(), text = model.data.sources[file - 1];
  /* A last newline ends the last line, and begins none. */
  if (text !== null && text !== undefined)
    return text.replace(/\r?\n$/, '').split(/\r?\n/).map((t, k) => ({line: k + 1, text: t, row: by.get(file + ':' + (k + 1))}));
  /* The first instruction of a line stands for its text. */
  const code = new Map();
  for (const c of model.data.code) if (c[4] === file && !code.has(c[5])) code.set(c[5], `${c[2]} ${c[3]}`);
  return [...by.values()].filter((r) => r.file === file).sort((a, b) => a.line - b.line)
    .map((r) => ({line: r.line, text: code.get(r.line) || '', row: r}));
}

function lineSays(file, {line, row}) {
  const parts = [`line ${line} of ${model.data.files[file - 1]}: ${row.count.toLocaleString('en')} instructions issued`,
    `at work ${spanText(row.work)}`, `waited ${spanText(row.wait)}`];
  if (path) parts.push(`${spanText(row.path)} of the critical path, ${percentText(row.path, source.whole)}`);
  return parts.join(', ');
}

function lineElement(file, entry) {
  const {line, text, row} = entry, el = element(row ? 'button' : 'div', '', {className: 'line'});
  /* The share of the whole; its root gives small shares a visible heat. */
  const main = row ? (path ? row.path : row.work) : 0, share = source.whole ? main / source.whole : 0;
  const cell = (name, value) => el.append(element('span', value, {className: name}));
  cell('no', String(line));
  /* "-": it ran, but the path does not go through it. */
  cell('time', main ? spanText(main) : row && path ? '-' : '');
  cell('time', row && path ? spanText(row.work) : '');
  el.append(element('code', text));
  if (!row) return el;
  el.type = 'button';
  el.title = lineSays(file, entry);
  el.setAttribute('aria-label', lineSays(file, entry) + ': ' + text.trim());
  el.setAttribute('aria-pressed', Boolean(view.hits && view.hits.line && view.hits.line[0] === file && view.hits.line[1] === line));
  if (source.marked && source.marked[0] === file && source.marked[1] === line) el.classList.add('here');
  el.style.setProperty('--heat', Math.round(100 * Math.min(1, share ** 0.5) * 0.55) + '%');
  el.addEventListener('click', () => markLine(file, line));
  return el;
}

/* Lights the events of a line, and dims the others; a second call lights none. */
function markLine(file, line) {
  const same = view.hits && view.hits.line && view.hits.line[0] === file && view.hits.line[1] === line;
  $('query').value = '';
  if (same) {
    find('');
  } else {
    view.hits = model.ofLine(file, line);
    view.hit = -1;
    $('hits').textContent = view.hits.list.length.toLocaleString('en') + ' events';
    $('said').textContent = lineSays(file, {line, row: lineTimes().get(file + ':' + line)});
    showMarkedLine();
    draw();
  }
}
function showMarkedLine() {
  if (!$('source').hidden) showLines();
}

/* Only the lines in view have elements: a file may have a hundred thousand. */
function showLines() {
  const box = $('lines'), inner = box && box.firstChild, focus = document.activeElement;
  if (!inner) return;
  /* Elements are made anew at each scroll: the focus must not be lost. */
  const at = focus && focus.dataset ? focus.dataset.line : undefined;
  /* Some more above and below, so that scrolling shows no gap. */
  const first = Math.max(0, Math.floor(box.scrollTop / LINE_HEIGHT) - 5);
  const last = Math.min(source.rows.length, first + Math.ceil((box.clientHeight || 400) / LINE_HEIGHT) + 10);
  inner.replaceChildren(...source.rows.slice(first, last).map((entry, k) => {
    const el = lineElement(source.file, entry);
    el.style.top = (first + k) * LINE_HEIGHT + 'px';
    el.dataset.line = entry.line;
    return el;
  }));
  if (at !== undefined) {
    const same = [...inner.children].find((e) => e.dataset.line === at);
    if (same) same.focus({preventScroll: true});
  }
}

function scrollToLine(line) {
  const box = $('lines');
  if (!box) return;
  const k = source.rows.findIndex((r) => r.line === line);
  const y = k * LINE_HEIGHT;
  /* Only if it is out of view. */
  if (k >= 0 && (y < box.scrollTop || y + LINE_HEIGHT > box.scrollTop + box.clientHeight))
    box.scrollTop = Math.max(0, y - box.clientHeight / 2);
  showLines();
}

function showFile(file) {
  source.file = file;
  source.rows = linesOf(file);
  const inner = element('div', '', {className: 'inner'});
  inner.style.height = source.rows.length * LINE_HEIGHT + 'px';
  $('lines').replaceChildren(inner);
  /* At first the line that took most is shown. */
  const most = source.rows.filter((r) => r.row).sort((a, b) => path ? b.row.path - a.row.path : b.row.work - a.row.work)[0];
  if (most) scrollToLine(source.marked && source.marked[0] === file ? source.marked[1] : most.line);
  else showLines();
}

/* Made when it is looked at for the first time. */
function showSource() {
  const box = $('source');
  lineTimes();
  /* Made already, or there is nothing to make. */
  if (box.firstChild || !source.files.length) {
    if (!source.files.length) box.replaceChildren(element('p', 'The program does not say its lines: assemble it from source.'));
    else showLines();
    return;
  }
  const head = element('p', '', {className: 'files'});
  if (source.files.length > 1) {
    const pick = element('select', '', {ariaLabel: 'Source file', id: 'file'});
    for (const f of source.files) pick.append(element('option', model.data.files[f - 1], {value: String(f)}));
    pick.addEventListener('change', () => showFile(Number(pick.value)));
    head.append(pick);
  } else {
    head.append(element('b', model.data.files[source.file - 1]));
  }
  if (model.data.sources[source.file - 1] === null || model.data.sources[source.file - 1] === undefined)
    head.append(element('span', ' The text is not in the page: these are its instructions.', {className: 'quiet'}));
  const names = element('p', '', {className: 'line head'});
  for (const [name, text] of [['no', ''], ['time', path ? 'path' : 'at work'], ['time', path ? 'at work' : '']])
    names.append(element('span', text, {className: name}));
  names.append(element('span', path ? 'time on the critical path; time at work, its transfers too' : 'time at work, its transfers too', {className: 'quiet'}));
  const lines = element('div', '', {id: 'lines', tabIndex: 0, ariaLabel: 'Lines'});
  lines.setAttribute('role', 'group');
  lines.addEventListener('scroll', showLines);
  box.append(head, names, lines);
  showFile(source.file);
}

/* The line of the selected event. */
function showLineOf(i) {
  const c = model.insn(i);
  source.marked = c && c[4] ? [c[4], c[5]] : null;
  /* The panel is hidden: it will look at `marked` when it is shown. */
  if ($('source').hidden || !source.marked) return;
  if (source.marked[0] !== source.file) {
    if ($('file')) $('file').value = String(source.marked[0]);
    showFile(source.marked[0]);
  }
  scrollToLine(source.marked[1]);
}

/* "kernel.py:12", which leads there. */
function sourceLink(c) {
  const b = element('button', '', {type: 'button', className: 'link'});
  b.append(element('code', model.data.files[c[4] - 1] + ':' + c[5]));
  b.addEventListener('click', () => {
    source.marked = [c[4], c[5]];
    showTab(TABS.findIndex(([id]) => id === 'source'));
    if (source.file !== c[4]) {
      if ($('file')) $('file').value = String(c[4]);
      showFile(c[4]);
    }
    scrollToLine(c[5]);
  });
  return b;
}
