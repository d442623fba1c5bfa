// runtime.js: the same nets in onnxruntime: max |delta| of what they make of the same images.
//
//   node runtime.js MODULES FOLDER
//
// MODULES holds onnxruntime-node; FOLDER what export.c left there, its stdout as nets.jsonl and the output of
// checker.py as verdicts. One line a net; the last one counts.
'use strict';
const fs = require('fs');
const path = require('path');

const [modules, folder] = process.argv.slice(2);
const MOST = 1e-5;
const FEW = 50; // images at a small batch, of many

function numbers(file) {
    const bytes = fs.readFileSync(path.join(folder, file));
    return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

const count = (shape) => shape.slice(1).reduce((product, size) => product * size, 1);

function argmax(values) {
    return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}

// All images, or few of them, so many at a time.
async function infer(runtime, session, net, x, batch, images) {
    const each = count(net.x), out = count(net.y);
    const y = new Float32Array(images * out);
    for (let first = 0; first < images; first += batch) {
        const n = Math.min(batch, images - first);
        const part = new runtime.Tensor('float32', x.subarray(first * each, (first + n) * each), [n, ...net.x.slice(1)]);
        const answer = (await session.run({ input: part })).output;
        if (String(answer.dims) !== String([n, ...net.y.slice(1)]))
            throw new Error(`makes [${answer.dims}], expected [${[n, ...net.y.slice(1)]}]`);
        y.set(answer.data, first * out);
    }
    return y;
}

// NaN is the greatest of all.
function greatest(y, expected) {
    let most = 0;
    for (let i = 0; i < y.length; i++) {
        const delta = y[i] === expected[i] ? 0 : Math.abs(y[i] - expected[i]);
        if (!(delta <= most)) most = delta;
    }
    return most;
}

async function compare(runtime, net) {
    const session = await runtime.InferenceSession.create(path.join(folder, net.name + '.onnx'), {
        intraOpNumThreads: 1, logSeverityLevel: 3,
    });
    const x = numbers(net.name + '.x'), expected = numbers(net.name + '.y'), out = count(net.y);
    let most = 0, same = '', alike = true;
    for (const batch of [1, 3, net.full]) {
        const images = batch === net.full ? net.x[0] : Math.min(net.x[0], FEW);
        const y = await infer(runtime, session, net, x, batch, images);
        most = Math.max(most, greatest(y, expected));
        if (net.name !== 'mnist' || batch !== net.full) continue;
        let agree = 0;
        for (let i = 0; i < images; i++)
            agree += argmax(y.subarray(i * out, (i + 1) * out)) === argmax(expected.subarray(i * out, (i + 1) * out));
        alike = agree === images;
        same = `, the same class of ${agree} of ${images}`;
    }
    return { good: most <= MOST && alike, text: `max |delta| ${most.toExponential(1)} at batches of 1, 3 and ${net.full}${same}` };
}

async function verdict(runtime, net, checked) {
    if (net.error) return { good: false, text: net.error };
    try {
        const result = await compare(runtime, net);
        const accepted = checked[net.name] === 'ok';
        return { good: result.good && accepted, text: result.text + (accepted ? '' : `; onnx: ${checked[net.name]}`) };
    } catch (error) {
        return { good: false, text: error.message };
    }
}

function load() {
    try {
        return require(path.resolve(modules, 'onnxruntime-node'));
    } catch (error) {
        console.error('runtime.js: onnxruntime-node is not installed (make deps-onnx)');
        process.exit(1);
    }
}

async function main() {
    const runtime = load();
    const lines = (file) => fs.readFileSync(path.join(folder, file), 'utf8').split('\n').filter(Boolean);
    const checked = Object.fromEntries(lines('verdicts').map((line) => line.match(/^(\S+) (.*)$/).slice(1)));
    let passed = 0, failed = 0;
    for (const net of lines('nets.jsonl').map((line) => JSON.parse(line))) {
        const { good, text } = await verdict(runtime, net, checked);
        if (good) passed++;
        else failed++;
        console.log(`${good ? 'ok  ' : 'FAIL'} ${net.title}: ${text}`);
    }
    console.log(`${passed} passed, ${failed} failed`);
    process.exitCode = failed || !passed ? 1 : 0;
}

main();
