// onnx_peer.js: onnxruntime's side of a benchmark; stride_peer.c says in which words.
//
//   node onnx_peer.js FOLDER [BATCH]
//
// FOLDER holds node_modules, and the networks as NAME.onnx. With a BATCH images are run so many at a time, and what
// is answered is the time of as many as were asked for; one image is run as such, without a BATCH.
'use strict';
const path = require('path');
const readline = require('readline');

const [folder, batchGiven] = process.argv.slice(2);
const LEAST = 0.05; // seconds of a measured repetition
const threads = Number(process.env.OMP_NUM_THREADS || 1);

function say(...words) {
    process.stdout.write(words.join(' ').replace(/\n/g, ' ') + '\n');
}

function load() {
    try {
        return require(path.resolve(folder, 'node_modules', 'onnxruntime-node'));
    } catch (error) {
        return null;
    }
}

function seconds() {
    if (process.env.BENCH_CLOCK !== 'cpu') return Number(process.hrtime.bigint()) / 1e9;
    const used = process.cpuUsage();
    return (used.user + used.system) / 1e6;
}

async function secondsACall(call) {
    await call();
    for (let calls = 1; ; ) {
        const began = seconds();
        for (let i = 0; i < calls; i++) await call();
        const taken = seconds() - began;
        if (taken >= LEAST) return taken / calls;
        calls = Math.floor(calls * Math.min(10, 1.2 * LEAST / Math.max(taken, 1e-9))) + 1;
    }
}

async function prepare(runtime, name, batch) {
    const session = await runtime.InferenceSession.create(path.join(folder, name + '.onnx'), {
        intraOpNumThreads: threads,
        interOpNumThreads: 1,
        executionMode: 'sequential',
        graphOptimizationLevel: 'all',
    });
    const images = (first) => Float32Array.from({ length: batch * 784 }, (_, i) => 0.5 + pattern(first * 784 + i, 0));
    const feeds = (first) => ({
        [session.inputNames[0]]: new runtime.Tensor('float32', images(first), [batch, 1, 28, 28]),
    });
    const same = feeds(0);
    return { run: () => session.run(same), from: (first) => session.run(feeds(first)), name: session.outputNames[0] };
}

// outline.h's.
function pattern(i, k) {
    return ((i * 7919 + k * 104729) % 1009) / 1009 - 0.5;
}

// What stride_peer.c says of an output. Images that were not asked for are left out of the last batch.
async function outline(prepared, batch, asked) {
    let values = [], rows = 0, columns = 0;
    for (let first = 0; first < asked; first += batch) {
        const y = (await prepared.from(first))[prepared.name];
        rows += y.dims[0];
        columns = y.dims[1];
        values = values.concat(Array.from(y.data));
    }
    if (rows === Math.ceil(asked / batch) * batch) values = values.slice(0, (rows = asked) * columns);
    const sum = values.reduce((all, v, i) => all + v * pattern(i, 1), 0);
    const picked = Array.from({ length: 12 }, (_, k) => values[Math.floor((k * (values.length - 1)) / 11)]);
    const largest = values.reduce((most, v) => (Math.abs(v) <= most ? most : Math.abs(v)), 0);
    return [`${rows}x${columns}`, largest, sum, ...picked.map((v) => v.toPrecision(9))];
}

async function answer(runtime, kept, line) {
    const [kind, name, asked, pass, output] = line.split(' ');
    if (kind !== 'net' || pass !== 'infer' || (batchGiven && asked === '1')) return say('skip');
    const batch = Number(batchGiven || asked);
    const key = `${name} ${batch}`;
    kept[key] = kept[key] || (await prepare(runtime, name, batch));
    if (output) return say('output', ...(await outline(kept[key], batch, Number(asked))));
    return say('ok', (await secondsACall(kept[key].run) * Number(asked)) / batch, -1);
}

async function main() {
    const runtime = load();
    if (!runtime) return say('skip onnxruntime-node is not installed (make deps-bench)');
    const kept = {};
    const { version } = require(path.resolve(folder, 'node_modules', 'onnxruntime-node', 'package.json'));
    say('ready onnxruntime', version, 'through node', process.version + ', threads by intraOpNumThreads');
    for await (const line of readline.createInterface({ input: process.stdin })) {
        try {
            await answer(runtime, kept, line);
        } catch (error) {
            say('error', error.message);
        }
    }
}

main();
