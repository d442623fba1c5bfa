// browse.js BROWSER PROFILE WIDTH PAGE...: shows each page on a screen of that width, in light and in dark. Prints
// "PAGE: ..." for what the browser complains of and where the page is wider. Then runs PAGE.js, where there is one, in the
// page, and prints the lines that it returns.
// Talks to the browser through pipes (DevTools protocol), so that it needs no package.
'use strict';
const fs = require('fs');
const { spawn } = require('child_process');
const [browser, profile, width, ...pages] = process.argv.slice(2);

const options = ['--headless', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--remote-debugging-pipe',
    `--user-data-dir=${profile}`].concat(process.getuid() === 0 ? ['--no-sandbox'] : []);
const child = spawn(browser, options, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const deadline = setTimeout(() => end(`${browser} did not answer in a minute`), 60000);

const answers = new Map(), events = new Map();
let asked = 0, rest = '';
child.stdio[4].on('data', data => {
    const messages = (rest + data).split('\0');
    rest = messages.pop();
    for (const m of messages.map(text => JSON.parse(text))) {
        if (m.id) answers.get(m.id)(m);
        else if (events.has(m.method)) events.get(m.method)(m);
    }
});
child.on('error', e => end(e.message));

function ask(method, params, sessionId) {
    return new Promise((resolve, reject) => {
        answers.set(++asked, m => m.error ? reject(new Error(`${method}: ${m.error.message}`)) : resolve(m.result));
        child.stdio[3].write(JSON.stringify({ id: asked, method, params, sessionId }) + '\0');
    });
}

function end(failure) {
    clearTimeout(deadline);
    if (failure) console.log(failure);
    child.on('exit', () => process.exit(failure ? 1 : 0));
    child.kill();
}

async function browse() {
    const { targetId } = await ask('Target.createTarget', { url: 'about:blank' });
    const { sessionId } = await ask('Target.attachToTarget', { targetId, flatten: true });
    const call = (method, params = {}) => ask(method, params, sessionId);
    let shown;
    events.set('Log.entryAdded', m => console.log(`${shown}: ${m.params.entry.text}`));
    events.set('Runtime.exceptionThrown', m => console.log(`${shown}: ${m.params.exceptionDetails.exception.description}`));
    for (const domain of ['Page', 'Log', 'Runtime']) await call(`${domain}.enable`);
    await call('Emulation.setDeviceMetricsOverride', { width: +width, height: 800, deviceScaleFactor: 2, mobile: true });
    for (shown of pages) {
        for (const value of ['light', 'dark']) {
            await call('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] });
            const loaded = new Promise(resolve => events.set('Page.loadEventFired', resolve));
            await call('Page.navigate', { url: `file://${shown}` });
            await loaded;
            const { cssContentSize } = await call('Page.getLayoutMetrics');
            if (cssContentSize.width > +width) console.log(`${shown}: ${cssContentSize.width} pixels wide in ${value}`);
        }
        if (!fs.existsSync(`${shown}.js`)) continue;
        const expression = fs.readFileSync(`${shown}.js`, 'utf8');
        const { result, exceptionDetails } = await call('Runtime.evaluate', { expression, returnByValue: true });
        if (exceptionDetails) console.log(`not ok ${shown}.js: ${exceptionDetails.exception.description}`);
        else result.value.forEach(line => console.log(line));
    }
}
browse().then(end, e => end(e.message));
