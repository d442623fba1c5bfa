// onnx_peer.js: onnxruntime's side of a benchmark; stride_peer.c says in which words.
//
//   node onnx_peer.js FOLDER [BATCH]
//
// FOLDER holds node_modules, and the networks as NAME.onnx. With a BATCH images are run so many at a time, and what
// is answered is the time of as many as were asked for; one image is run as such, without a BATCH.
'use strict';
const fs = require('fs');
const path = require('path');
const readline = require('readline');

const [folder, batchGiven] = process.argv.slice(2);
const LEAST = Number(process.env.BENCH_SECONDS || 0.05); // of a measured repetition
const exchange = process.env.BENCH_FOLDER || '.';
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
    const [entry, exit] = [session.inputNames[0], session.outputNames[0]];
    return (images) => {
        const feeds = { [entry]: new runtime.Tensor('float32', images, [batch, 1, 28, 28]) };
        return async () => (await session.run(feeds))[exit];
    };
}

// The first array of what Stride has computed its result from (arrays.h): the images.
function given(count) {
    const bytes = fs.readFileSync(path.join(exchange, 'given'));
    const begin = bytes.indexOf(10) + 1;
    return new Float32Array(bytes.buffer.slice(bytes.byteOffset + begin, bytes.byteOffset + begin + 4 * count));
}

// Images that were not asked for, zeros, are left out of the last batch's.
async function writeResult(run, batch, asked) {
    const all = Math.ceil(asked / batch) * batch, images = new Float32Array(all * 784);
    images.set(given(asked * 784));
    let values = [], rows = 0, columns = 0;
    for (let first = 0; first < all; first += batch) {
        const y = await run(images.slice(first * 784, (first + batch) * 784))();
        rows += y.dims[0];
        columns = y.dims[1];
        values = values.concat(Array.from(y.data));
    }
    if (rows === all) values = values.slice(0, (rows = asked) * columns);
    fs.writeFileSync(path.join(exchange, 'result'),
        Buffer.concat([Buffer.from(`${rows}x${columns}\n`), Buffer.from(Float32Array.from(values).buffer)]));
}

async function answer(runtime, kept, line) {
    const words = line.split(' '), result = words[words.length - 1] === 'result';
    const [kind, name, asked, pass] = words;
    if (kind !== 'net' || pass !== 'infer' || (batchGiven && asked === '1')) return say('skip');
    const batch = Number(batchGiven || asked);
    const key = `${name} ${batch}`;
    kept[key] = kept[key] || (await prepare(runtime, name, batch));
    if (result) {
        await writeResult(kept[key], batch, Number(asked));
        return say('result');
    }
    const images = Float32Array.from({ length: batch * 784 }, Math.random);
    return say('ok', (await secondsACall(kept[key](images)) * Number(asked)) / batch, -1);
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
