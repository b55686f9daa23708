'use strict';
/* What the trace viewer does, in a browser. Usage: node viewer.js FOLDER [PATTERN]: the folder
 * holds the pages that run.sh makes, and screenshots go there; the tests whose page matches. */
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {launch} = require('./browser.js');

const folder = path.resolve(process.argv[2]);
const tests = [];
const test = (name, page, run, options) => tests.push({name, page, run, options});

/* Waits until the next frame has been drawn; then what the canvas says of itself, as numbers. */
async function state(page) {
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  const data = await page.$eval('#canvas', (c) => ({...c.dataset}));
  return Object.fromEntries(Object.entries(data).map(([k, v]) => [k, Number(v)]));
}
async function press(page, ...keys) {
  for (const k of keys) await page.keyboard.press(k);
  return state(page);
}
const details = (page) => page.$eval('#details', (e) => e.innerText);
const span = (s) => s.to - s.from;

test('shows the whole run', 'small', async (page) => {
  const s = await state(page);
  const total = await page.evaluate(() => model.total);
  assert(s.from <= 0 && s.to >= total && s.drawn > 0);
  assert.match(await page.$eval('#about', (e) => e.textContent), /^trn2, .*events$/);
  assert.strictEqual(await page.title(), 'a run');
  const rows = await page.$$eval('#rows .name', (l) => l.map((e) => e.textContent));
  for (const name of ['vector', 'sync', 'qload', 'qstore', 'SBUF', 'full0']) assert(rows.includes(name), name);
});

test('the picture has the colours of what ran', 'small', async (page) => {
  const found = await page.evaluate(() => {
    paint();
    const row = rows.find((r) => r.track && r.track.name === 'vector'), i = row.track.spans.ev[0];
    const k = devicePixelRatio, x = X((model.start[i] + model.end[i]) / 2), y = RULER + row.y - view.y + 5 + BAR - 3;
    const d = ctx.getImageData(Math.round(x * k), Math.round(y * k), 1, 1).data;
    return ['#' + [...d.slice(0, 3)].map((v) => v.toString(16).padStart(2, '0')).join(''), colorOf(i)];
  });
  assert.strictEqual(found[0], found[1]);
});

test('zooms and pans by keyboard', 'small', async (page) => {
  const a = await state(page);
  const b = await press(page, '+', '+', '+');
  assert(Math.abs(span(b) / span(a) - 0.343) < 0.01);
  const c = await press(page, 'ArrowRight');
  assert(c.from > b.from && Math.abs(span(c) - span(b)) <= 2);
  const d = await press(page, 'ArrowLeft', 'Shift+ArrowLeft');
  assert(d.from < b.from);
  assert(span(await press(page, '-')) > span(d));
  const e = await press(page, '0');
  assert.deepStrictEqual([e.from, e.to], [a.from, a.to]);
});

test('never zooms or pans out of the run', 'small', async (page) => {
  const a = await state(page);
  for (let i = 0; i < 60; i++) await page.keyboard.press('+');
  const b = await press(page);
  assert(span(b) >= 999);
  for (let i = 0; i < 90; i++) await page.keyboard.press('-');
  const c = await press(page, 'Shift+ArrowRight', 'Shift+ArrowRight');
  assert.deepStrictEqual([c.from, c.to], [a.from, a.to]);
});

test('zooms around the pointer with the wheel, and drags', 'small', async (page) => {
  const box = await (await page.$('#canvas')).boundingBox(), x = box.x + box.width * 0.75, y = box.y + 60;
  const a = await state(page);
  await page.mouse.move(x, y);
  await page.keyboard.down('Control');
  await page.mouse.wheel(0, -200);
  await page.keyboard.up('Control');
  const b = await state(page);
  const under = (s) => s.from + 0.75 * span(s);
  assert(span(b) < span(a) && Math.abs(under(a) - under(b)) < span(a) * 0.005);
  await page.mouse.down();
  await page.mouse.move(x + 100, y, {steps: 4});
  await page.mouse.up();
  const c = await state(page);
  assert(Math.abs((b.from - c.from) - 100 / box.width * span(b)) < span(b) * 0.01);
  assert.strictEqual(c.selected, -1);
});

test('search finds, selects and dims', 'small', async (page) => {
  await page.keyboard.press('/');
  assert(await page.evaluate(() => document.activeElement.id === 'query'));
  await page.keyboard.type('tensor_tensor');
  assert.strictEqual(await page.textContent('#hits'), '16 found');
  const a = await press(page, 'Enter');
  assert.strictEqual(await page.textContent('#hits'), '1 of 16');
  assert.match(await details(page), /tensor_tensor[\s\S]*vector_add\.s:\d+/);
  const b = await press(page, 'Enter');
  assert.notStrictEqual(a.selected, b.selected);
  const c = await press(page, 'Escape');
  assert.strictEqual(await page.inputValue('#query'), '');
  assert.strictEqual(c.selected, b.selected);
  assert.strictEqual((await press(page, 'Escape')).selected, -1);
  await page.fill('#query', 'no such thing');
  assert.strictEqual(await page.textContent('#hits'), 'none');
});

test('a click selects what is under it', 'small', async (page) => {
  const want = await page.evaluate(() => {
    const row = rows.find((r) => r.track && r.track.name === 'vector'), i = row.track.spans.ev[3];
    return {i, x: X((model.start[i] + model.end[i]) / 2), y: RULER + row.y - view.y + 12};
  });
  await page.click('#canvas', {position: {x: want.x, y: want.y}});
  assert.strictEqual((await state(page)).selected, want.i);
  assert.match(await page.textContent('#said'), /^tensor_tensor on vector, at .* takes /);
  assert.strictEqual((await press(page, ']', '[')).selected, want.i);
});

test('arrows lead from signals to waits', 'small', async (page) => {
  const waits = await page.evaluate(() => [...model.kind].filter((k) => k === WAIT).length);
  const fitting = await page.evaluate(() => MANY_ARROWS);
  const a = await press(page, '+', '+', '+');
  assert(a.arrows > 0 && a.arrows <= fitting && waits > 0);
  const b = await press(page, 'l');
  assert.strictEqual(b.arrows, 0);
  await press(page, 'l', ']', 'f', '-', '-', '-');
  assert((await state(page)).links > 0);
});

test('p and c walk the dependencies', 'small', async (page) => {
  await page.fill('#query', 'tensor_tensor');
  await page.press('#query', 'Enter');
  await page.keyboard.press('Tab');
  const a = await press(page);
  const b = await press(page, 'p');
  assert.notStrictEqual(b.selected, a.selected);
  assert.match(await details(page), /qload ring \d+/); /* it waited for a load */
  const c = await press(page, 'c');
  assert.strictEqual(c.selected, a.selected);
  const d = await press(page, 'c');
  assert.match(await details(page), /qstore ring \d+|sync|scalar/);
  assert.notStrictEqual(d.selected, a.selected);
});

test('every wait ended with an update of its semaphore, at that time', 'large', async (page) => {
  const wrong = await page.evaluate(() => {
    let n = 0, waits = 0;
    for (let i = 0; i < model.n; i++) {
      if (model.kind[i] !== WAIT) continue;
      const u = model.from[i], s = u >= 0 ? model.from[u] : -1;
      waits++;
      if (u < 0 || model.kind[u] !== SEM || model.id[u] !== model.id[i] || model.start[u] !== model.end[i]) n++;
      else if (s < 0 || model.end[s] > model.start[u]) n++;
    }
    return [n, waits > 1000];
  });
  assert.deepStrictEqual(wrong, [0, true]);
});

test('tracks open and close', 'small', async (page) => {
  const height = () => page.evaluate(() => view.content);
  const a = await height();
  await page.click('#rows button:has-text("qload")');
  const b = await height();
  assert(b > a + 100);
  assert(await page.evaluate(() => document.activeElement.getAttribute('aria-expanded') === 'true'));
  await page.keyboard.press('Enter');
  assert.strictEqual(await height(), a);
  await page.click('#rows button:has-text("Semaphores")');
  assert(await height() < a);
});

test('follows the system into the dark, and changes by key', 'small', async (page) => {
  const theme = () => page.evaluate(() => [document.documentElement.dataset.theme,
    getComputedStyle(document.body).backgroundColor, [...ctx.getImageData(3, 300, 1, 1).data].slice(0, 3)]);
  await state(page);
  const dark = await theme();
  await page.screenshot({path: path.join(folder, 'dark.png')});
  assert.strictEqual(dark[0], 'dark');
  assert(dark[2].every((v) => v < 64));
  await press(page, 't');
  const light = await theme();
  assert.strictEqual(light[0], 'light');
  assert(light[2].every((v) => v > 200));
}, {colorScheme: 'dark'});

test('texts have the contrast of WCAG AA in both themes', 'small', async (page) => {
  const poor = await page.evaluate(() => {
    const part = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const lum = (c) => [1, 3, 5].map((k) => part(parseInt(c.slice(k, k + 2), 16) / 255))
      .reduce((s, v, k) => s + v * [0.2126, 0.7152, 0.0722][k], 0);
    const ratio = (a, b) => (Math.max(lum(a), lum(b)) + 0.05) / (Math.min(lum(a), lum(b)) + 0.05);
    const out = [];
    for (const theme of ['light', 'dark']) {
      setTheme(theme);
      for (const [a, b] of [['text', 'panel'], ['text', 'bg'], ['muted', 'panel'], ['muted', 'bg'], ['accent', 'panel'],
        ['bad', 'bg'], ['bad', 'panel']])
        if (ratio(colors[a], colors[b]) < 4.5) out.push([theme, a, b]);
      for (const tint of tints) if (ratio(colors.ink, tint) < 4.5) out.push([theme, tint]);
    }
    return out;
  });
  assert.deepStrictEqual(poor, []);
});

test('everything can be reached with Tab, and has a name', 'small', async (page) => {
  const seen = new Set();
  for (let i = 0; i < 40; i++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      return e === document.body ? null : [e.id || e.textContent, e.getAttribute('aria-label') || e.textContent,
        getComputedStyle(e).outlineStyle];
    });
    if (!at) continue;
    assert(at[1], 'no name: ' + at[0]);
    assert.notStrictEqual(at[2], 'none', 'no ring: ' + at[0]);
    seen.add(at[0]);
  }
  for (const id of ['query', 'prev', 'next', 'in', 'out', 'fit', 'arrows', 'path', 'theme', 'help', 'canvas',
    'tab-summary', 'summary']) assert(seen.has(id), id);
});

test('the help opens with ? and closes with Esc', 'small', async (page) => {
  await page.keyboard.press('?');
  assert(await page.$eval('#keys', (d) => d.open));
  await page.keyboard.press('Escape');
  assert(!await page.$eval('#keys', (d) => d.open));
});

test('the summary agrees with the events', 'small', async (page) => {
  const text = await page.$eval('#summary', (e) => e.innerText);
  assert.match(text, /vector\s+16\s/);
  assert.match(text, /Transfers\s+48/);
  assert.match(text, /Moved\s+12 MiB/);
  assert.match(text, /of which from HBM\s+8 MiB/);
});

test('fits a narrow window', 'small', async (page) => {
  await page.setViewportSize({width: 480, height: 800});
  await state(page);
  assert(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert(await page.evaluate(() => view.width > 200 && view.height > 100));
});

test('a hundred thousand events answer', 'large', async (page) => {
  const count = Number(fs.readFileSync(path.join(folder, 'large.txt'), 'utf8'));
  assert(count >= 1e5, String(count));
  assert.strictEqual(await page.evaluate(() => model.n), count);
  const a = await state(page);
  assert(a.drawn < count);
  const b = await press(page, '+', '+', '+', '+', 'ArrowRight', ']', 'f', '-', '-');
  assert(b.drawn > 0 && b.drawn < 5000 && b.selected >= 0);
  await page.fill('#query', 'ldweights');
  assert.match(await page.textContent('#hits'), /^1,536 found$/);
  await page.click('#fit');
  assert(span(await state(page)) > span(b));
  await page.screenshot({path: path.join(folder, 'large.png')});
});

test('the keys of other viewers work too: w a s d', 'small', async (page) => {
  const a = await state(page), b = await press(page, 'w', 'w');
  assert(span(b) < span(a) * 0.5);
  const c = await press(page, 'd');
  assert(c.from > b.from);
  assert((await press(page, 'a', 'a')).from < b.from);
  assert(span(await press(page, 's')) > span(b));
});

test('shows what memory holds over time', 'race', async (page) => {
  /* A tile is 128 partitions of four float32: 2 KiB. t0 lives until t1 is made of it. */
  const steps = await page.evaluate(() => {
    const t = model.tracks.find((x) => x.name === 'SBUF');
    return [...t.v].filter((v, k) => k === 0 || v !== t.v[k - 1]);
  });
  assert.deepStrictEqual(steps, [2048, 4096, 2048, 0]);
  assert.match(await page.$eval('#summary', (e) => e.textContent), /SBUF4 KiB \(0\.0 %\)/);
  const at = await page.evaluate(() => {
    const row = rows.find((r) => r.track && r.track.name === 'SBUF'), i = model.tracks.find((t) => t.name === 'scalar').spans.ev[0];
    return {x: X((model.start[i] + model.end[i]) / 2), y: RULER + row.y - view.y + 20};
  });
  await page.hover('#canvas', {position: at});
  assert.match(await page.textContent('#tip'), /^SBUF4 KiB in use$/);
});

/* Shares that --explain-time's text has, as [name, percent]. */
function sharesOf(text) {
  return text.split('the path, earliest first')[0].split('\n').map((l) => l.match(/^ +([\d.]+)% +\S+ \S+ +(.*)$/))
    .filter(Boolean).map((m) => [m[2], Number(m[1])]);
}

test('the critical path is listed with its shares', 'small', async (page) => {
  const want = sharesOf(fs.readFileSync(path.join(folder, 'small.txt'), 'utf8'));
  await press(page, '2');
  assert(await page.isVisible('#why') && !await page.isVisible('#summary'));
  const got = await page.$$eval('#why table:first-of-type tbody tr', (l) => l.map((r) => [r.cells[0].innerText.trim().replace(/\s+/g, ' '), parseFloat(r.cells[2].innerText)]));
  assert(want.length > 5 && got.length === want.length);
  const byName = new Map(got);
  for (const [name, percent] of want) assert(Math.abs(byName.get(name) - percent) <= 0.11, `${name}: ${byName.get(name)}, not ${percent}`);
  assert(Math.abs(got.reduce((s, r) => s + r[1], 0) - 100) < 0.6);
});

test('the critical path is a chain on the timeline', 'small', async (page) => {
  const look = () => page.evaluate(() => {
    const k = [...path.kind].indexOf(TRANSFER, 5), d = devicePixelRatio, place = placeOfStep(k);
    const at = (x, y) => [...ctx.getImageData(Math.round(x * d), Math.round(y * d), 1, 1).data].slice(0, 3);
    const off = model.tracks.find((t) => t.name === 'vector').spans.ev[5], over = placeOf(off);
    return {on: at(X((path.start[k] + path.end[k]) / 2), RULER - view.y + place.y),
      off: at(X((model.start[off] + model.end[off]) / 2), RULER - view.y + over.y + 15)};
  });
  const accent = await page.evaluate(() => [1, 3, 5].map((k) => parseInt(colors.accent.slice(k, k + 2), 16)));
  const gapless = await page.evaluate(() => path.start[0] === 0 && [...path.start].every((t, k) => k === 0 || t === path.end[k - 1]));
  assert(gapless);
  const before = await look();
  const a = await press(page, 'x');
  assert.strictEqual(a.steps, await page.evaluate(() => path.n));
  const after = await look();
  assert.deepStrictEqual(after.on, accent);
  assert.notDeepStrictEqual(after.off, before.off); /* veiled */
  assert.strictEqual(await page.getAttribute('#path', 'aria-pressed'), 'true');
  await page.screenshot({path: path.join(folder, 'critical.png')});
  assert.strictEqual((await press(page, 'x')).steps, 0);
  assert.deepStrictEqual((await look()).off, before.off);
});

test('one can walk along the critical path', 'small', async (page) => {
  const a = await press(page, '.');
  assert.strictEqual(a.step, 0);
  assert.match(await details(page), /step 1 of \d+/);
  const b = await press(page, '.', '.', '.');
  assert.strictEqual(b.step, 3);
  assert.strictEqual((await press(page, ',')).step, 2);
  /* A step that is an event selects it, and an event tells that it is on the path. */
  const found = await page.evaluate(() => {
    const k = [...path.kind].indexOf(DATA);
    selectStep(k);
    return [k, view.selected, model.kind[view.selected], model.engine[view.selected], path.engine[k], model.end[view.selected] === path.end[k]];
  });
  assert.deepStrictEqual(found.slice(2), [1, found[4], found[4], true]);
  await page.evaluate((i) => { select(-1, false); select(i, true); }, found[1]);
  assert.match(await details(page), new RegExp(`step ${found[0] + 1} of`));
});

test('a share shows its steps alone', 'small', async (page) => {
  await press(page, '2');
  await page.click('#why button.share:has-text("vector: data path")');
  assert.strictEqual(await page.getAttribute('#why button.share:has-text("vector: data path")', 'aria-pressed'), 'true');
  const steps = await page.evaluate(() => view.share.steps);
  const a = await press(page, '.'), b = await press(page, '.');
  assert.deepStrictEqual([a.step, b.step], steps.slice(0, 2));
  await page.click('#why button.share:has-text("vector: data path")');
  assert.strictEqual(await page.evaluate(() => view.share), null);
});

test('says so when the causes were not kept', 'nocauses', async (page) => {
  assert(await page.isDisabled('#path'));
  await press(page, '2');
  assert.match(await page.textContent('#why'), /recorded without causes/);
  assert.strictEqual((await press(page, 'x', '.', ',')).steps, 0);
  assert.match(await page.textContent('#said'), /not known/);
});

test('idle and busy time of an engine are all of it', 'small', async (page) => {
  const sums = await page.evaluate(() => {
    const time = {};
    for (const [e, , t] of model.data.idle.sums) time[e] = (time[e] || 0) + t;
    return Object.entries(time).map(([e, t]) => t + model.data.summary.engines[e][1] - model.data.figures.time);
  });
  assert(sums.length > 0);
  for (const d of sums) assert(Math.abs(d) < 100, String(d)); /* ps, of rounding */
});

test('a gap leads to the wait, and to who was late', 'small', async (page) => {
  await press(page, '3');
  assert.match(await page.textContent('#idle'), /for qload/);
  const gap = page.locator('#idle button:has-text("queue qload was late (dma_copy at samples/vector_add.s:")').first();
  await gap.click();
  const s = await state(page), at = await page.evaluate(() => [view.gap.start, view.gap.end, model.kind[view.selected] === WAIT]);
  assert(s.from <= at[0] && s.to >= at[1] && at[2]);
  assert.match(await details(page), /Ended by\s+\S+ \(qload ring \d+\)/);
});

test('says what the hardware was used for', 'mm', async (page) => {
  /* 2 M N K flops of 16-bit elements; 128 x 128 cells at 2.4 GHz make two flops each. */
  const flops = 2 * 512 * 1024 * 1024, peak = 128 * 128 * 2 * 2.4e9;
  const [time, read, written] = await page.evaluate(() => [model.total * 1e-12, model.data.summary.dma.read, model.data.summary.dma.written]);
  const text = await page.$eval('#summary', (e) => e.innerText);
  const number = (name) => Number(text.match(new RegExp(name + '\\s+([\\d.]+)'))[1]);
  assert(Math.abs(number('MFU') - 100 * flops / peak / time) < 0.3);
  assert.strictEqual(number('HFU'), number('MFU')); /* no transposes */
  assert(Math.abs(number('Arithmetic intensity') - flops / (read + written)) < 0.06);
  assert.match(text, /Bound at this intensity\s+memory/);
  assert.match(text, /High-water mark in a partition\s+SBUF\s+[\d.]+ KiB of 224 KiB\s+PSUM\s+[\d.]+ KiB of 16 KiB/);
  assert(await page.isVisible('svg.roofline'));
});

test('a run that faulted says where', 'fault', async (page) => {
  assert.match(await page.textContent('#about'), /ended by a fault$/);
  assert.strictEqual(await page.getAttribute('#tab-faults', 'aria-selected'), 'true');
  assert.strictEqual((await state(page)).marks, 1);
  await page.click('#faults button');
  assert.match(await details(page), /^Fault[\s\S]*no engine can move[\s\S]*never/);
  assert(await page.evaluate(() => model.tracks.some((t) => t.name === 'scalar' && t.spans.n === 1)));
});

test('findings of checks are flags on the ruler', 'race', async (page) => {
  assert.strictEqual(await page.textContent('#tab-faults'), 'Findings (1)');
  const s = await state(page);
  assert.strictEqual(s.marks, 1);
  const x = await page.evaluate(() => X(marks[0].t));
  await page.click('#canvas', {position: {x, y: 20}});
  assert.match(await details(page), /^Finding: race[\s\S]*scalar[\s\S]*race\.s:\d+/);
  await page.keyboard.press('Escape');
  assert.match(await details(page), /^Nothing selected/);
});

test('an empty trace is a page', 'empty', async (page) => {
  assert.match(await page.textContent('#about'), /, 0 events$/);
  for (const tab of ['1', '2', '3', '4', '5']) await press(page, tab);
  const s = await press(page, '+', '-', ']', '[', 'p', 'c', 'f', 'x', '.', ',', 'n', 'l', '0', 'Escape', 't');
  assert.deepStrictEqual([s.selected, s.drawn, s.marks], [-1, 0, 0]);
  await page.fill('#query', 'x');
  assert.strictEqual(await page.textContent('#hits'), 'none');
});

test('says that a trace is only a part', 'part', async (page) => {
  assert.match(await page.textContent('#about'), / 1,000 events$/);
  assert.match(await page.textContent('#summary'), /676 events were not kept/);
  const s = await state(page), begin = await page.evaluate(() => model.begin);
  assert(begin > 0 && s.from > 0);
});

test('a page without its run is complete', 'alone', async (page) => {
  assert.strictEqual((await state(page)).marks, 0);
  assert(await page.isDisabled('#path'));
  assert.strictEqual(await page.$eval('#summary', (e) => /MFU/.test(e.innerText)), false);
  await press(page, '4');
  assert.match(await page.textContent('#faults'), /without its run/);
});

test('tabs are one stop, and move with the arrows', 'small', async (page) => {
  await page.focus('#tab-summary');
  const a = await state(page);
  await press(page, 'ArrowRight');
  assert.strictEqual(await page.evaluate(() => document.activeElement.id), 'tab-why');
  assert(await page.isVisible('#why'));
  const b = await press(page, 'ArrowLeft', 'ArrowLeft', 'ArrowLeft');
  assert.strictEqual(await page.evaluate(() => document.activeElement.id), 'tab-faults');
  assert.deepStrictEqual([b.from, b.to], [a.from, a.to]);
  assert.strictEqual(await page.$$eval('#tabs [tabindex="0"]', (l) => l.length), 1);
});

for (const name of ['mm', 'meet']) test('nothing of the panels is cut off', name, async (page) => {
  for (const [width, height] of [[1280, 800], [800, 600], [480, 800]]) {
    await page.setViewportSize({width, height});
    for (const tab of ['1', '2', '3', '4', '5', '.']) {
      await press(page, tab);
      const over = await page.$eval('aside', (e) => [e.scrollWidth - e.clientWidth, document.documentElement.scrollWidth - innerWidth]);
      assert(over.every((v) => v <= 0), `${width} wide, ${tab}: ${over}`);
    }
  }
});

test('two cores lie one below the other', 'pair', async (page) => {
  await page.screenshot({path: path.join(folder, 'pair.png')});
  const rows = await page.$$eval('#rows .name', (l) => l.map((e) => e.textContent));
  const at = (name) => rows.indexOf(name);
  for (const name of ['engines', 'DMA', 'by engine', 'memory', 'semaphores']) assert(at('Core 0 ' + name) >= 0, rows.join());
  assert(at('Core 0 semaphores') < at('Core 1 engines') && at('Core 1 engines') < at('Core 1 DMA'));
  const cut = await page.$$eval('#rows .name', (l) => l.filter((e) => { // by less than a pixel, too
    const text = document.createRange();
    text.selectNodeContents(e);
    return text.getBoundingClientRect().width > e.getBoundingClientRect().width;
  }).map((e) => e.textContent));
  assert.deepStrictEqual(cut, []);
  assert.strictEqual(rows.filter((r) => r === 'vector').length, 2);
  assert.match(await page.textContent('#summary'), /core 0 vector.*core 1 vector/);
  assert.match(await page.textContent('#summary'), /core 1 SBUF/);
});

test('arrows and details lead from core to core', 'pair', async (page) => {
  const of = (core) => page.evaluate((c) => { // the addition of a core
    const i = [...Array(model.n).keys()].find((k) => model.kind[k] === INSN && model.engine[k] === 5 * c + 1);
    select(i, true);
    return model.producer(i);
  }, core);
  for (const core of [0, 1]) {
    const source = await of(core), s = await state(page);
    assert(s.links > 0);
    const text = await details(page);
    assert.match(text, new RegExp(`core ${core} vector`));
    assert.match(text, new RegExp(`core ${1 - core} q`)); // what it waited for
    assert.strictEqual(await page.evaluate((k) => Math.floor(model.id[k] / 16), source), 1 - core);
  }
  const b = await press(page, 'x', '.');
  assert(b.steps > 0);
  assert.match(await page.textContent('#why'), /core 1 q: moving data/);
  assert.match(await page.textContent('#idle'), /core 1 vector idle .*: queue core 0 q was late/);
  await press(page, '2');
  await page.screenshot({path: path.join(folder, 'pair-path.png')});
});

test('the wait in a sendrecv is shown, and leads to the core that was late', 'meet', async (page) => {
  const of = (core, engine) => page.evaluate(([c, e]) => { // the longest wait of kind MEET
    const all = [...Array(model.n).keys()].filter((k) => model.kind[k] === MEET && model.engine[k] === 5 * c + e);
    const i = all.reduce((a, k) => model.end[k] - model.start[k] > model.end[a] - model.start[a] ? k : a);
    select(i, true);
    return [all.length, model.producer(i), model.engine[model.producer(i)]];
  }, [core, engine]);
  for (const [core, engine, name] of [[1, 3, 'gpsimd'], [0, 4, 'sync']]) {
    const [n, , late] = await of(core, engine), s = await state(page);
    assert.deepStrictEqual([n, late], [1, 5 * (1 - core) + engine]);
    assert(s.links > 0);
    const text = await details(page);
    assert.match(text, new RegExp(`wait for the other core's sendrecv[\\s\\S]*core ${core} ${name}`));
    assert.match(text, new RegExp(`Ended by[\\s\\S]*core ${1 - core} ${name}`));
  }
  const found = await page.evaluate(() => { // hatched as other waits are, on the row of the engine
    const row = rows.find((r) => r.track && r.track.type === 'engine' && r.track.engine === 8), waits = row.track.waits;
    return [...Array(waits.n).keys()].map((k) => model.label(waits.ev[k]));
  });
  assert.deepStrictEqual(found, ["wait for the other core's sendrecv"]);
  await press(page, '.');
  assert.match(await page.textContent('#idle'), /core 1 gpsimd idle .*, waiting for the other core's sendrecv: core 0 gpsimd was late \(sendrecv_gpsimd at .*meet.s:15\)/);
  await page.evaluate(() => [...document.querySelectorAll('#idle button')].find((b) => b.textContent.includes('other core')).click());
  await page.screenshot({path: path.join(folder, 'meet.png')});
  const s = await page.evaluate(() => model.search("other core's sendrecv").list.length);
  assert.strictEqual(s, 4);
});

/* ---- Triggers, transfers, counters ------------------------------------------------------------ */

test('a trigger leads to its transfer, and the shares to it', 'small', async (page) => {
  const all = await page.evaluate(() => [...Array(model.n).keys()].filter((k) => model.kind[k] === TRIGGER).map((k) => {
    const shares = model.sharesOf(k);
    return [model.bytes[k] === shares.reduce((a, i) => a + model.bytes[i], 0), shares.length, shares.every((i) => model.triggerOf(i) === k),
      shares.every((i) => model.start[i] >= model.start[k] && model.code[i] === model.code[k])];
  }));
  assert.strictEqual(all.length, 48);
  for (const one of all) assert.deepStrictEqual(one, [true, 16, true, true]);
  await page.evaluate(() => select([...model.kind].indexOf(TRIGGER), true));
  const s = await state(page);
  assert.strictEqual(s.links, 16);
  assert.match(await details(page), /^dma_copy[\s\S]*Queue\s+qload[\s\S]*Moves\s+256 KiB, hbm to sbuf[\s\S]*Semaphore\s+full0, \+ 16: 1 by each ring[\s\S]*and 8 more/);
  await page.click('#details button:has-text("ring 3")');
  assert.match(await details(page), /Triggered\s+dma_copy \(sync\)[\s\S]*Then writes\s+4 bytes to full0, seen at/);
  await page.click('#details button:has-text("4 bytes to full0")');
  assert.match(await details(page), /Writes\s+4 bytes to full0/);
  await press(page, '[');
  assert(await page.evaluate(() => view.selected < 0 || model.isWrite(view.selected)));
});

test('a click finds a trigger, and in an open queue what a ring writes', 'small', async (page) => {
  await page.click('#rows button:has-text("qload")');
  const at = await page.evaluate(() => {
    const i = [...model.kind].indexOf(TRIGGER), w = [...Array(model.n).keys()].find((k) => model.isWrite(k));
    setView(0, 3e6);
    const spot = (k) => { const p = placeOf(k); return [k, X((beginOf(k) + endOf(k)) / 2), RULER + p.y - view.y + p.h / 2]; };
    return [spot(i), spot(w)];
  });
  for (const [k, x, y] of at) {
    await page.click('#canvas', {position: {x, y}});
    assert.strictEqual((await state(page)).selected, k);
  }
});

test('pending transfers and bytes per second add up', 'small', async (page) => {
  const sums = await page.evaluate(() => {
    const p = model.tracks.find((t) => t.type === 'pending'), r = model.tracks.find((t) => t.type === 'rate');
    return [p.v[0], Math.min(...p.v), p.v[p.v.length - 1], model.movedUntil(r, model.total) / model.data.summary.dma.bytes, model.movedUntil(r, 0)];
  });
  assert.deepStrictEqual([sums[0], sums[1], sums[2], sums[4]], [1, 0, 0, 0]);
  assert(Math.abs(sums[3] - 1) < 1e-6);
  const at = await page.evaluate(() => {
    const row = rows.find((r) => r.track && r.track.type === 'rate'), share = [...model.kind].indexOf(DMA);
    return {x: X((model.start[share] + model.end[share]) / 2), y: RULER + row.y - view.y + 20};
  });
  await page.hover('#canvas', {position: at});
  assert.match(await page.textContent('#tip'), /^Throughput\d+ GB\/s$/);
});

test('the same shares lie by queue and by DMA engine', 'small', async (page) => {
  const [queues, engines, ids] = await page.evaluate(() => {
    const list = (type) => model.tracks.filter((t) => t.type === type).flatMap((t) => t.rings.flatMap((s) => [...s.ev])).sort((a, b) => a - b);
    return [list('queue'), list('dma'), model.tracks.find((t) => t.type === 'dma').ids.length];
  });
  assert.strictEqual(ids, 16);
  assert(queues.length === 768);
  assert.deepStrictEqual(engines, queues);
  const writes = await page.evaluate(() => model.tracks.filter((t) => t.type === 'queue').flatMap((t) => t.writes.flatMap((w) => [...w])).length);
  assert.strictEqual(writes, 768);
});

test('lines over time are scaled to what is in view', 'small', async (page) => {
  const scale = () => page.evaluate(() => model.tracks.find((t) => t.name === 'full0').scale);
  await state(page);
  assert.strictEqual(await scale(), 256);
  await page.evaluate(() => setView(0, model.total / 8));
  await state(page);
  const near = await scale();
  assert(near > 0 && near < 128, String(near));
  await press(page, '0');
  assert.strictEqual(await scale(), 256);
});

test('every engine that ran is shown', 'race', async (page) => {
  const names = await page.evaluate(() => model.tracks.filter((t) => t.type === 'engine').map((t) => t.name));
  assert.deepStrictEqual(names, ['vector', 'scalar', 'gpsimd', 'sync']);
});

test('a selected finding lights both bars', 'race', async (page) => {
  assert.strictEqual((await state(page)).lit, 0);
  await page.click('#faults button');
  const s = await state(page);
  assert.strictEqual(s.lit, 2);
  const lit = await page.evaluate(() => view.lit.map((i) => [model.kind[i], model.insn(i)[2]]));
  assert.deepStrictEqual(lit.map((x) => x[1]).sort(), ['dma_copy', 'tensor_copy']);
  assert.match(await details(page), /The two\s+.*tensor_copy \(scalar\)/);
  await page.screenshot({path: path.join(folder, 'lit.png')});
  assert.strictEqual((await press(page, 'Escape')).lit, 0);
});

test('the path is listed with its repeats folded, as --explain-time has them', 'small', async (page) => {
  const text = fs.readFileSync(path.join(folder, 'small.txt'), 'utf8').split('the path, earliest first\n')[1];
  const want = [...text.matchAll(/^  x (\d+) /gm)].map((m) => Number(m[1]));
  const rows = text.split('\n').filter((l) => /^  (\| )?[\d.]+ \w?s /.test(l)).length;
  await press(page, '2');
  const got = await page.$$eval('#why table:last-of-type tr.repeats', (l) => l.map((r) => parseInt(r.cells[0].innerText, 10)));
  assert.deepStrictEqual(got, want);
  assert(want.length > 0);
  assert.strictEqual(await page.$$eval('#why table:last-of-type tbody tr:not(.repeats)', (l) => l.length), rows);
  await page.click('#why table:last-of-type tr.repeated button >> nth=0');
  assert((await state(page)).step >= 0);
});

/* ---- Source ----------------------------------------------------------------------------------- */

test('the source has the time of each line', 'small', async (page) => {
  await press(page, '5');
  assert(await page.isVisible('#source'));
  const lines = fs.readFileSync('samples/vector_add.s', 'utf8').split('\n');
  const [rows, whole, sum] = await page.evaluate(() => [source.rows.filter((r) => r.row).map((r) => [r.line, r.text, r.row.path, r.row.count]),
    source.whole, path.end[path.n - 1]]);
  assert.strictEqual(whole, sum);
  assert(Math.abs(rows.reduce((a, r) => a + r[2], 0) - whole) < 1);
  for (const [line, text] of rows) assert.strictEqual(text, lines[line - 1]);
  const add = rows.find((r) => /tensor_tensor/.test(r[1]));
  assert.strictEqual(add[3], 16);
  assert.match(await page.textContent('#lines'), /dma_copy +ta%\+i/);
  await page.screenshot({path: path.join(folder, 'source.png')});
});

test('a line lights its events, and an event marks its line', 'small', async (page) => {
  await press(page, '5');
  await page.click('#lines button:has-text("dma_copy  ta%+i")');
  assert.match(await page.textContent('#hits'), /^\d+ events$/);
  const hits = await page.evaluate(() => view.hits.list.map((i) => model.insn(i)[5]));
  assert(hits.length > 100 && hits.every((l) => l === hits[0]));
  assert.strictEqual(await page.$$eval('#lines [aria-pressed="true"]', (l) => l.length), 1);
  await page.click('#lines button:has-text("dma_copy  ta%+i")');
  assert.strictEqual(await page.evaluate(() => view.hits), null);
  await page.evaluate(() => select([...model.kind].indexOf(INSN), true));
  await state(page);
  assert.match(await page.textContent('#lines .here'), /tensor_tensor/);
  await press(page, '1');
  await page.click('#details button:has-text("vector_add.s:")');
  assert(await page.isVisible('#lines .here'));
});

test('without its text the source is its instructions', 'alone', async (page) => {
  await press(page, '5');
  assert.match(await page.textContent('#source'), /text is not in the page/);
  assert.match(await page.textContent('#lines'), /tensor_tensor/);
});

test('a world has a row for each rank and link, and says what they did', 'world', async (page) => {
  const rows = await page.$$eval('#rows .name', (l) => l.map((e) => e.textContent));
  for (const name of ['Ranks', 'rank 0', 'rank 7', 'Links', '0-1', 'gpsimd', 'cc0']) assert(rows.includes(name), name);
  const text = await page.textContent('#world');
  assert.match(text, /8 on trn1.32xlarge/);
  assert.match(text, /all_reduce by rdh 8 ranks, world.s:9/);
  assert.match(text, /all_gather by rdh 8 ranks, world.s:11/);
  const got = await page.evaluate(() => ({busbw: world.collectives[0].busbw, algbw: world.collectives[0].algbw,
    busiest: world.collectives[0].busiest.share, percent: world.links.map((l) => l.busy / world.total),
    waits: world.waits.every((w) => w.src !== w.rank && w.sent < w.end && w.start < w.end)}));
  assert(Math.abs(got.busbw / got.algbw - 14 / 8) < 0.01);
  assert(got.busiest > 0.01 && got.busiest < 1 && got.waits);
  assert(Math.max(...got.percent) < 1 && Math.max(...got.percent) > 0.01);
});

test('arrows lead over ranks, and the path over ranks is all of the time', 'world', async (page) => {
  const a = await state(page);
  assert(a.messages > 20);
  assert.strictEqual((await press(page, 'l')).messages, 0);
  const b = await press(page, 'l', 'x');
  assert(b.worldsteps > 20 && b.messages === 0);
  const path = await page.evaluate(() => ({gaps: world.steps.filter((s, k) => k && s.start !== world.steps[k - 1].end).length,
    end: world.steps[world.steps.length - 1].end, total: world.total, ranks: new Set(world.steps.map((s) => s.rank)).size,
    over: [...world.onPath].length, shares: world.pathShares().reduce((n, s) => n + s[1], 0), last: world.data.path.rank}));
  assert.strictEqual(path.gaps, 0);
  assert(path.ranks > 1 && path.over > 0 && path.end <= path.total && path.shares === path.end);
});

test('another rank is chosen, at the same time', 'world', async (page) => {
  const before = await press(page, '+', '+', 'ArrowRight');
  assert.match(await page.textContent('#about'), /^rank 0 of 8, trn1/);
  await Promise.all([page.waitForEvent('load'), page.click('#rows button:has-text("rank 5")')]);
  const after = await state(page);
  assert.match(await page.textContent('#about'), /^rank 5 of 8, trn1/);
  assert(Math.abs(after.from - before.from) <= 2 && Math.abs(after.to - before.to) <= 2);
  assert.strictEqual(await page.$eval('#rows [aria-pressed="true"] .name', (e) => e.textContent), 'rank 5');
  const own = await page.evaluate(() => ({causes: model.data.path.causes, end: path.end[path.n - 1], total: model.data.total}));
  assert(own.causes.includes('other ranks') && own.end === own.total);
  await Promise.all([page.waitForEvent('load'), page.selectOption('#rank', '2')]);
  assert.match(await page.textContent('#about'), /^rank 2 of 8/);
});

test('what is on the rows of a world is told under the pointer', 'world', async (page) => {
  const at = await page.evaluate(() => {
    const y = (name) => { const r = rows.find((k) => k.track && k.track.name === name); return RULER + r.y - view.y; };
    const c = world.collectives.find((k) => k.rank === 1), w = world.waits.find((k) => k.rank === 3), l = world.links.find((k) => world.linkName(k) === '0-1');
    return {bar: worldTip(X((c.start + c.end) / 2), y('rank 1') + 8), wait: worldTip(X((w.start + w.end) / 2), y('rank 3') + 22),
      link: worldTip(X(l.start[0]), y('0-1') + 6)};
  });
  assert.match(at.bar.join(' '), /all_reduce by rdh of 8 ranks, 256 KiB .*busbw .*link .* at work/);
  assert.match(at.wait.join(' '), /rank 3 waits for rank \d .*sent at/);
  assert.match(at.link.join(' '), /rank \d to rank \d .*B, /);
});

test('a million events open', 'huge', async (page) => {
  assert(await page.evaluate(() => model.n) >= 1e6);
  const a = await state(page), b = await press(page, '+', '+', '+', 'ArrowRight', 'x');
  assert(span(b) < span(a) && b.steps > 0);
  assert((await press(page, ']')).selected >= 0);
});

async function runOne(browser, t) {
  const context = await browser.newContext({viewport: {width: 1280, height: 800}, colorScheme: 'light', ...t.options});
  const page = await context.newPage(), problems = [];
  page.setDefaultTimeout(30000);
  page.on('pageerror', (e) => problems.push(e.message));
  page.on('console', (m) => m.type() === 'error' && problems.push(m.text()));
  page.on('request', (r) => r.url().startsWith('file:') || problems.push('asked for ' + r.url()));
  try {
    await page.goto('file://' + path.join(folder, t.page + '.html'));
    await t.run(page);
    assert.deepStrictEqual(problems, []);
    console.log('ok - ' + t.name);
    return true;
  } catch (e) {
    console.log(`not ok - ${t.name}\n  ${String(e.stack).replace(/\n/g, '\n  ')}`);
    return false;
  } finally {
    await context.close();
  }
}

(async () => {
  let passed = 0;
  const browser = await launch(), wanted = tests.filter((t) => t.page.match(process.argv[3] || ''));
  for (const t of wanted) passed += await runOne(browser, t) ? 1 : 0;
  await browser.close();
  console.log(`${passed} passed, ${wanted.length - passed} failed`);
  process.exit(passed === wanted.length ? 0 : 1);
})();
