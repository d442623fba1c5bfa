// drive.js PAGE FOLDER: uses the page as a person does, through chromedriver at $DRIVER. Writes into FOLDER
// the file that it saves, digits.safetensors, its last drawing as an array, seven.npy, and pictures.
"use strict";
const fs = require("fs"), path = require("path"), [page, folder] = process.argv.slice(2);
const ELEMENT = "element-6066-11e4-a52e-4f735466cecf";
let session = "", failed = 0;

async function ask(method, what, body) {
    const answer = await fetch(process.env.DRIVER + what, { method, body: JSON.stringify(body) });
    const { value } = await answer.json();
    if (value && value.error) throw Error(`${what}: ${value.message.split("\n")[0]}`);
    return value;
}
const tell = (what, body = {}) => ask("POST", session + what, body);
const run = script => tell("/execute/sync", { script: "return " + script, args: [] });
const find = async css => (await tell("/element", { using: "css selector", value: css }))[ELEMENT];
const click = async css => tell(`/element/${await find(css)}/click`);
const pause = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const text = css => run(`document.querySelector("${css}").textContent`);

function claim(what, holds, found) {
    console.log(`${holds ? "ok" : "not ok"} ${what}${holds ? "" : ": " + found}`);
    failed += !holds;
}

async function until(what, script, seconds) {
    for (const end = Date.now() + 1000 * seconds; Date.now() < end; await pause(100))
        if (await run(script)) return;
    throw Error(`${what}: not after ${seconds} seconds; the page says: ${await text("#news")}`);
}

async function picture(name, width, scheme) {
    const devtools = (cmd, params) => tell("/goog/cdp/execute", { cmd, params });
    const features = [{ name: "prefers-color-scheme", value: scheme }], mobile = width < 500;
    const screen = { width, height: 900, deviceScaleFactor: 1, mobile };
    await devtools("Emulation.setDeviceMetricsOverride", screen);
    await devtools("Emulation.setEmulatedMedia", { features });
    await pause(300);
    const shot = await devtools("Page.captureScreenshot", { captureBeyondViewport: true });
    fs.writeFileSync(path.join(folder, name), Buffer.from(shot.data, "base64"));
    const over = await run("document.documentElement.scrollWidth") - width;
    claim(`${width} pixels wide, ${scheme}: nothing is wider`, over <= 0, `by ${over} pixels`);
}

// A stroke from place to place, in parts of the drawing area from its middle.
async function draw(places) {
    await click("#clear");
    const origin = { [ELEMENT]: await find("#pad") }, size = await run("pad.clientWidth");
    const moves = places.map(p => p.map(v => Math.round(v * size)))
        .map(([x, y]) => ({ type: "pointerMove", duration: 40, origin, x, y }));
    const actions = [moves[0], { type: "pointerDown" }, ...moves.slice(1), { type: "pointerUp" }];
    const pen = { type: "pointer", id: "pen", parameters: { pointerType: "touch" }, actions };
    await tell("/actions", { actions: [pen] });
}
const SEVEN = [[-0.25, -0.3], [0, -0.3], [0.22, -0.3], [0.1, 0], [-0.05, 0.32]];
const most = () => run("(document.querySelector('#bars .most span') || {}).textContent");
const image = () => run("Array.from(net.HEAPF32.subarray(net._web_image() / 4).subarray(0, 784))");

function writeArray(name, values) {
    const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 28, 28), }".padEnd(117) + "\n";
    const start = Buffer.from("\x93NUMPY\x01\x00\x76\x00" + header, "latin1");
    const numbers = new Uint8Array(Float32Array.from(values).buffer);
    fs.writeFileSync(path.join(folder, name), Buffer.concat([start, numbers]));
}

async function use() {
    await tell("/url", { url: "file://" + path.resolve(page) });
    await until("the engine starts", "!$('train').disabled", 30);
    await click("#train");
    await until("the net is trained", "!worker && epochs.length > 0", 400);
    const accuracies = await run("epochs.map(e => e.accuracy)"), last = accuracies[accuracies.length - 1];
    const shown = accuracies.map(a => (100 * a).toFixed(1) + " %").join(", ");
    console.log(`trained at ${await text("#speed")} images per second, to ${shown}`);
    claim("training comes to 95 %", accuracies.length === 4 && last >= 0.95, accuracies);
    const points = await run("document.querySelector('#chart .each').points.numberOfItems");
    const labels = await run("document.querySelectorAll('#chart .accuracy').length");
    const [first, end] = await run("[losses[0], losses.slice(-50).reduce((a, b) => a + b) / 50]");
    const whole = points === 4 * 375 && labels === 4;
    claim("the curve has every step and every epoch, and falls", whole && end < first / 4,
        [points, labels, first, end]);
    await draw(SEVEN);
    claim("a stroke like a 7 is a 7", (await most()) === "7", await text("#bars"));
    const seen = await text("#bars"), drawing = await image();
    writeArray("seven.npy", drawing);
    await picture("light.png", 1280, "light");
    await picture("dark.png", 1280, "dark");
    await picture("phone-light.png", 390, "light");
    await picture("phone-dark.png", 390, "dark");
    await click("#save");
    const saved = path.join(folder, "digits.safetensors");
    for (let i = 0; i < 50 && !fs.existsSync(saved); i++) await pause(100);
    const maps = await run("[...$('maps').children].map(c => c.toDataURL())");
    await click("#reset");
    const others = await run("[...$('maps').children].map(c => c.toDataURL())");
    const changed = maps.filter((m, i) => m !== others[i]).length;
    claim("the six feature maps are those of the weights", changed === 6, `${changed} have changed`);
    claim("without its weights the net sees something else", (await text("#bars")) !== seen, "the same");
    await tell(`/element/${await find("#file")}/value`, { text: path.resolve(saved) });
    await until("the file is loaded", "$('news').textContent.startsWith('Loaded')", 10);
    claim("the saved net, loaded, sees the same again", (await text("#bars")) === seen, await text("#bars"));
    fs.writeFileSync(path.join(folder, "short.safetensors"), fs.readFileSync(saved).subarray(0, 5000));
    await tell(`/element/${await find("#file")}/value`, { text: path.resolve(folder, "short.safetensors") });
    await until("a short file is refused", "$('news').textContent.startsWith('short.safetensors: ')", 10);
    await run("pad.focus()");
    const [escape, right, down] = ["\uE00C", "\uE014", "\uE015"];
    const keys = [escape, " ", ...Array(10).fill(right), ...Array(14).fill(down), " "];
    const actions = keys.flatMap(value => ["keyDown", "keyUp"].map(type => ({ type, value })));
    await tell("/actions", { actions: [{ type: "key", id: "keys", actions }] });
    const drawn = await run("strokes.flat().length");
    claim("keys draw", drawn === 25, `${drawn} points`);
    const log = await tell("/se/log", { type: "browser" });
    claim("nothing is written to the console", log.length === 0, log.map(l => l.message).join("; "));
}

(async () => {
    const args = ["--headless=new", "--disable-gpu", "--window-size=1280,900"];
    if (process.getuid() === 0) args.push("--no-sandbox");
    const options = { args, prefs: { "download.default_directory": path.resolve(folder) } };
    const alwaysMatch = { "goog:chromeOptions": options, "goog:loggingPrefs": { browser: "ALL" } };
    const made = await ask("POST", "/session", { capabilities: { alwaysMatch } });
    session = "/session/" + made.sessionId;
    await use().catch(e => { console.log("not ok " + e.message), failed++; });
    await ask("DELETE", session);
    process.exitCode = failed ? 1 : 0;
})();
