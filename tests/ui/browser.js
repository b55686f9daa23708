'use strict';
/* Chromium at $CHROMIUM, headless, without a network of its own. */
const {chromium} = require('playwright-core');

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--disable-dev-shm-usage', '--no-first-run',
  '--disable-background-networking', '--disable-component-update', '--disable-sync'];

exports.launch = () => chromium.launch({executablePath: process.env.CHROMIUM, headless: true, args: FLAGS});
