'use strict';
/* The pictures of pages in the documents. Usage: node picture.js PAGE.html WORLD.html FOLDER */
const path = require('path');
const {launch} = require('./browser.js');

(async () => {
  const browser = await launch();
  /* as: what is done on the page before it is taken */
  const take = async (file, height, name, as) => {
    const page = await (await browser.newContext({viewport: {width: 1180, height}, colorScheme: 'light'})).newPage();
    await page.goto('file://' + path.resolve(file));
    await page.evaluate(as);
    await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
    await page.screenshot({path: path.join(process.argv[4], name)});
  };
  await take(process.argv[2], 640, 'page.png', () => {
    setView(model.begin + (model.total - model.begin) * 0.2, model.begin + (model.total - model.begin) * 0.34);
    $('title').textContent = 'samples/matmul.s';
    togglePath();
    showTab(1);
  });
  await take(process.argv[3], 720, 'world.png', () => { $('title').textContent = 'two collectives'; });
  await browser.close();
})();
