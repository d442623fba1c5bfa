/* page.js: fills the page with the JSON of #data, which examples/atlas/results.h describes. */

/* ---- numbers; undefined where there is none ---- */

const count = x => x.toLocaleString("en-US", { maximumFractionDigits: 0 });
const digits = x => Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2;
const value = x => x.toFixed(digits(x));
const withDeviation = m => !m ? "–" : m.mean.toFixed(2) + (known(m.deviation) ? ` ± ${m.deviation.toFixed(2)}` : "");

/* ---- plots ---- */

const WIDTH = 360, RIGHT = 14, TOP = 6, ROW = 22, BOTTOM = 24; // in units of the drawing

/* Ticks of 1, 2 or 5 times a power of ten, some 60 units apart, right of the names. */
function axisOf(values, names) {
    const left = 24 + 5.9 * Math.max(...names.map(name => name.length));
    const least = Math.min(...values), most = Math.max(...values), extent = Math.max(most - least, 0.02);
    const rough = extent * 60 / (WIDTH - left), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find(part => rough / power <= part + 1e-9);
    const low = Math.floor(least / step - 1e-9) * step, high = Math.ceil(most / step + 1e-9) * step;
    const places = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)), ticks = [];
    for (let k = 0; low + k * step < high + step / 2; k++) ticks.push(low + k * step);
    return { ticks, text: x => x.toFixed(places), left,
        at: x => left + (WIDTH - left - RIGHT) * (x - low) / (high - low) };
}

/* Dots of seeds, the mean with its deviation, and the paper's number. */
function marks(r, measure, axis, y) {
    const m = r[measure], at = x => axis.at(x).toFixed(1), d = m.deviation || 0;
    const whisker = `M${at(m.mean - d)} ${y - 4}v8m0-4H${at(m.mean + d)}m0-4v8`;
    const seeds = m.values.map(x => draw("circle", { class: "seed", cx: at(x), cy: y, r: 2.6 }));
    const paper = measure === "error" && known(r.claim)
        ? [draw("path", { class: "paper", d: `M${at(r.claim)} ${y - 5}l5 5l-5 5l-5-5z` })] : [];
    return [...seeds, ...d ? [draw("path", { class: "whisker", d: whisker })] : [],
        draw("path", { class: "mean", d: `M${at(m.mean)} ${y - 6}v12` }), ...paper];
}

/* null where no row has the measure. */
function plot(title, rows, measure) {
    const shown = rows.filter(r => r[measure]);
    if (shown.length === 0) return null;
    const values = shown.flatMap(r => [...r[measure].values, r[measure].mean - (r[measure].deviation || 0),
        r[measure].mean + (r[measure].deviation || 0), ...measure === "error" && known(r.claim) ? [r.claim] : []]);
    const axis = axisOf(values, shown.map(r => r.name)), height = TOP + ROW * shown.length + BOTTOM, end = height - BOTTOM;
    const grid = axis.ticks.flatMap(tick => [
        draw("path", { class: "grid", d: `M${axis.at(tick).toFixed(1)} ${TOP}V${end}` }),
        draw("text", { x: axis.at(tick).toFixed(1), y: height - 7, "text-anchor": "middle" }, axis.text(tick))]);
    const lines = shown.flatMap((r, i) => {
        const y = TOP + ROW * (i + 0.5);
        return [draw("text", { class: "name", x: axis.left - 12, y: y + 4, "text-anchor": "end" }, r.name),
            draw("g", { class: "run0" }, ...marks(r, measure, axis, y))];
    });
    const said = shown.map(r => `${r.name} ${withDeviation(r[measure])}`).join("; ");
    return make("figure", { class: "plot" }, make("figcaption", {}, title),
        draw("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `${title}: ${said}` },
            ...grid, ...lines));
}

/* ---- experiments ---- */

const LEARNED = 6; // shown of a net's learned numbers

function learned(r) {
    const list = (r.learned || []).slice(0, LEARNED).map(p => p.least === p.most
        ? `${p.name} = ${value(p.mean)}` : `${p.name} from ${value(p.least)} to ${value(p.most)}`);
    return list.join(", ");
}

function outcome(r) {
    if (r.missing) return "not in this library";
    if (r.stuck > 0) return `${r.stuck} of ${r.runs} learned nothing`;
    if (r.failed > 0) return `${r.failed} of ${r.runs} diverged`;
    return r.runs > 0 ? "" : "not run";
}

function tableOf(rows) {
    const has = what => rows.some(r => known(r[what]));
    const learns = rows.some(r => learned(r));
    const columns = [["<pooling", r => label(r.name)],
        ["errors, %", r => cell(withDeviation(r.error))],
        ...has("claim") ? [["paper", r => cell(known(r.claim) ? r.claim.toFixed(2) : "–")]] : [],
        ...has("consistency") ? [["consistent, %", r => cell(withDeviation(r.consistency))],
            ["errors, shifted, %", r => cell(withDeviation(r.shifted))]] : [],
        ["parameters", r => cell(r.parameters ? count(r.parameters.mean) : "–")],
        ["seeds", r => cell(r.runs)],
        ...learns ? [["<learned, seed 1", r => cell(learned(r), { class: "text missing" })]] : []];
    return make("table", { class: "rows" }, headings(...columns.map(c => c[0])), make("tbody", {},
        ...rows.map(r => {
            const note = outcome(r), line = row(...columns.map(c => c[1](r)));
            if (note) line.firstChild.append(make("span", { class: "option" }, ` ${note}`));
            return line;
        })));
}

function experiment(e) {
    const plots = [plot("errors, % of the test images", e.rows, "error"),
        plot("same class in two shifts, %", e.rows, "consistency"),
        plot("errors of shifted images, %", e.rows, "shifted")].filter(known);
    return make("section", { id: e.key }, make("h2", {}, e.title), make("p", {}, e.claim),
        make("p", {}, `${e.scaled} ${count(e.train)} images to train on in ${e.epochs} epochs, ${count(e.test)} to test on, ` +
            `seeds 1 to ${e.seeds}.`),
        make("div", { class: "charts" }, ...plots),
        make("div", { class: "scroll", tabindex: 0 }, tableOf(e.rows)),
        make("details", {}, make("summary", {}, "The net"), make("pre", { tabindex: 0 }, e.net)));
}

/* ---- poolings ---- */

const bytes = image => Uint8Array.from(atob(image.pixels), c => c.charCodeAt(0));

function canvasOf({ width, height }, name, colour) {
    const image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++) image.data.set([...colour(i), 255], 4 * i);
    const canvas = make("canvas", { width, height, role: "img", "aria-label": name });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
}

function pooled(p) {
    const pixels = bytes(p.y);
    return make("figure", {}, canvasOf(p.y, `a digit after ${p.name}`, i => Array(3).fill(pixels[i])),
        make("figcaption", {}, `${p.y.height} × ${p.y.width}${p.drawn ? ", one draw of many" : ""}`));
}

/* The digit in dark grey, the gradient in colour. */
function gradient(p) {
    const under = bytes(data.digit), pixels = bytes(p.dx), positive = [96, 165, 255], negative = [255, 150, 80];
    const colour = i => {
        const part = (pixels[i] - 127.5) / 127.5, strength = Math.abs(part) < 0.01 ? 0 : Math.abs(part);
        return (part > 0 ? positive : negative).map(c => 0.3 * under[i] * (1 - strength) + c * strength);
    };
    return make("figure", {}, canvasOf(p.dx, `the gradient of ${p.name}`, colour),
        make("figcaption", {}, `gradient, at most ${value(p.most)}`));
}

function times(p, base) {
    const slowest = what => Math.max(...data.poolings.filter(q => q[what]).map(q => q[what].median));
    const lines = [["layer", "alone"], ["step", "step"]].filter(([what]) => p[what]).map(([what, name]) =>
        make("div", {}, make("dt", {}, name),
            make("dd", {}, make("div", { class: "line", style: `width:${100 * p[what].median / slowest(what)}%` })),
            make("dd", {}, `${value(p[what].median)} ms, ${value(p[what].median / base[what].median)} ×`)));
    return make("dl", { class: "times" }, ...lines);
}

function card(p) {
    return make("li", {}, make("h3", {}, p.name), make("p", { class: "formula" }, p.formula),
        make("p", { class: "source" }, `${p.source} · `, make("code", {}, p.text)),
        ...p.missing ? [make("p", { class: "missing" }, "Not in this library.")]
            : [make("div", { class: "pair" }, pooled(p), gradient(p)), times(p, data.poolings[0])]);
}

/* ---- the page ---- */

find("#facts").append(...data.facts.map(([name, text]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, text))));
find("#drawn").hidden = data.comparable;
const error = x => !known(x) ? "" : x === 0 ? "0" : x < 1e-3 ? x.toExponential(1) : value(x);
find("#golden table").append(headings("<layer", "<case", "error", "of the gradient"), make("tbody", {},
    ...data.golden.map(g => row(label(make("code", {}, g.layer)), cell(g.case, { class: "text" }),
        cell(g.missing ? "not in this library" : error(g.y)), cell(error(g.dx))))));
find("#experiments").append(...data.experiments.map(experiment));
find("#poolings ol").append(...data.poolings.map(card));
