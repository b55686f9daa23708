'use strict';
/* What the trace viewer does, in a browser. Usage: node viewer.js FOLDER, which holds small.html,
 * large.html and large.count; screenshots go there. */
const assert = require('assert');
const fs = require('fs');
const path = require('path');
const {chromium} = require('playwright-core');

const folder = path.resolve(process.argv[2]);
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];
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
  const b = await press(page, 'a');
  assert.strictEqual(b.arrows, 0);
  await press(page, 'a', ']', 'f', '-', '-', '-');
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
      for (const [a, b] of [['text', 'panel'], ['text', 'bg'], ['muted', 'panel'], ['muted', 'bg'], ['accent', 'panel']])
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
  for (const id of ['query', 'prev', 'next', 'in', 'out', 'fit', 'arrows', 'theme', 'help', 'canvas']) assert(seen.has(id), id);
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
  const count = Number(fs.readFileSync(path.join(folder, 'large.count'), 'utf8'));
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
  const browser = await chromium.launch({executablePath: process.env.CHROMIUM, headless: true, args: FLAGS});
  for (const t of tests) passed += await runOne(browser, t) ? 1 : 0;
  await browser.close();
  console.log(`${passed} passed, ${tests.length - passed} failed`);
  process.exit(passed === tests.length ? 0 : 1);
})();
