'use strict';
/* The picture of the page in README.md. Usage: node picture.js PAGE.html OUT.png */
const path = require('path');
const {launch} = require('./browser.js');

(async () => {
  const browser = await launch();
  const page = await (await browser.newContext({viewport: {width: 1180, height: 640}, colorScheme: 'light'})).newPage();
  await page.goto('file://' + path.resolve(process.argv[2]));
  await page.evaluate(() => {
    setView(model.begin + (model.total - model.begin) * 0.2, model.begin + (model.total - model.begin) * 0.34);
    $('title').textContent = 'samples/matmul.s';
    togglePath();
    showTab(1);
  });
  await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  await page.screenshot({path: process.argv[3]});
  await browser.close();
})();
