'use strict';
/* How long frames take while the view zooms and pans. Usage: node bench.js PAGE.html ...
 * Prints for each page: events, time until the page answers, median and longest frame in ms. */
const path = require('path');
const {launch} = require('./browser.js');

/* Runs in the page: draws n frames, each after move(k), and times the drawing alone. */
function frames(n, kind) {
  const times = [], whole = model.total - model.begin;
  const moves = {
    zoom: (k) => zoom(k < n / 2 ? 0.9 : 1 / 0.9, model.begin + whole * 0.37),
    pan: () => pan(0.05),
    far: () => pan(0.002),
  };
  if (kind === 'far') fit();
  if (kind === 'pan') setView(model.begin, model.begin + whole / 20);
  for (let k = 0; k < n; k++) {
    moves[kind](k);
    const t = performance.now();
    paint();
    ctx.getImageData(0, 0, 1, 1); /* waits until it is drawn */
    times.push(performance.now() - t);
  }
  times.sort((a, b) => a - b);
  return [times[n >> 1], times[n - 1]];
}

async function measure(browser, file) {
  const page = await (await browser.newContext({viewport: {width: 1280, height: 800}})).newPage();
  const t = Date.now();
  await page.goto('file://' + path.resolve(file));
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  const opened = Date.now() - t, events = await page.evaluate(() => model.n);
  console.log(`${path.basename(file)}: ${events} events, opened in ${opened} ms`);
  for (const shown of [false, true]) {
    if (shown) await page.keyboard.press('x');
    for (const kind of ['far', 'zoom', 'pan']) {
      const [median, most] = await page.evaluate(`(${frames})(120, '${kind}')`);
      const name = {far: 'pan, whole run', zoom: 'zoom', pan: 'pan, a twentieth'}[kind] + (shown ? ', critical path' : '');
      console.log(`  ${name.padEnd(36)} median ${median.toFixed(1).padStart(6)} ms   longest ${most.toFixed(1).padStart(6)} ms`);
    }
  }
  await page.context().close();
}

(async () => {
  const browser = await launch();
  for (const file of process.argv.slice(2)) await measure(browser, file);
  await browser.close();
})();
