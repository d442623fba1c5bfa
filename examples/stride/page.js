/* page.js: fills the page with the JSON of #data, which report.h describes. */
const COLUMNS = ["epoch", "loss", "accuracy", "validationLoss", "validationAccuracy", "lr", "seconds"];
const runs = data.runs.map(run => ({ ...run,
    epochs: run.epochs.map(numbers => Object.fromEntries(COLUMNS.map((name, i) => [name, numbers[i]]))) }));

/* ---- elements ---- */

const show = selector => { find(selector).hidden = false; return find(selector); };

function bar(part, text) {
    return cell(make("div", {}, make("i", { style: `--part:${part}` }), make("span", {}, text)), { class: "bar" });
}

/* ---- numbers; null where there is none ---- */

const count = x => known(x) ? x.toLocaleString("en-US", { maximumFractionDigits: 0 }) : "–";
const value = x => known(x) ? String(Number(x.toPrecision(4))) : "–";
const percent = x => known(x) ? (100 * x).toFixed(2) + " %" : "–";

function time(seconds) {
    if (!known(seconds)) return "–";
    const whole = Math.round(seconds), minutes = Math.floor(whole / 60);
    if (seconds < 9.995) return seconds.toFixed(2) + " s";
    if (seconds < 59.95) return seconds.toFixed(1) + " s";
    if (whole < 3600) return `${minutes} min ${whole % 60} s`;
    return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

/* ---- axes ---- */

const WIDTH = 360, HEIGHT = 220, RIGHT = 10, TOP = 16, BOTTOM = 26; // in units of the drawing
const FEW = 40; // up to this number of epochs each has a dot

/* 1, 2 or 5 times a power of ten, at least x. */
function roundUp(x) {
    const power = 10 ** Math.floor(Math.log10(x));
    return power * [1, 2, 5, 10].find(part => x / power <= part + 1e-6);
}

/* The fewest digits that tell ticks apart. */
function tickText(tick, step, top, percents) {
    const scale = percents ? 100 : 1, digits = Math.max(0, Math.ceil(-Math.log10(scale * step) - 1e-6));
    if (percents) return (100 * tick).toFixed(digits) + "\u2009%";
    if (Math.abs(tick) < 1e-9 * step) return "0";
    if (top >= 1e-3 && top < 1e6) return tick.toFixed(digits);
    return tick.toExponential(Math.max(0, Math.ceil(Math.log10(top / step) - 1e-6))).replace("e+", "e");
}

/* Begins and ends at a tick; percentages end at 100 %. */
function linearAxis(least, most, percents) {
    const tie = most !== 0 ? Math.abs(most) / 2 : 1, middle = (least + most) / 2;
    let extent = most - least > 1e-9 * Math.abs(most) ? most - least : tie;
    if (percents) extent = Math.max(extent, 0.002);
    const step = roundUp(extent / 5);
    let low = step * Math.floor(Math.min(least, middle - extent / 2) / step + 1e-6);
    let high = step * Math.ceil(Math.max(most, middle + extent / 2) / step - 1e-6);
    if (least >= 0) low = Math.max(low, 0);
    if (percents) high = Math.min(high, 1);
    const top = Math.max(Math.abs(low), Math.abs(high)), steps = Math.round((high - low) / step);
    const ticks = Array.from({ length: steps + 1 }, (_, k) => low + k * step);
    return { part: x => (x - low) / (high - low), drawn: known,
        ticks: ticks.map(tick => ({ at: tick, text: tickText(tick, step, top, percents) })) };
}

/* Powers of ten; over few of them also 2 and 5 times these. */
function logAxis(least, most) {
    const margin = 0.04 * (Math.log10(most) - Math.log10(least));
    const low = Math.log10(least) - margin, high = Math.log10(most) + margin, ticks = [];
    const every = 1 + Math.floor((Math.ceil(high) - Math.floor(low)) / 8);
    for (let power = Math.ceil(Math.floor(low) / every) * every; power <= Math.ceil(high); power += every)
        for (const part of high - low < 2.8 ? [1, 2, 5] : [1]) {
            const at = part * 10 ** power, height = Math.log10(at);
            if (height > low && height < high) ticks.push({ at, text: value(at) });
        }
    return { part: x => (Math.log10(x) - low) / (high - low), drawn: x => known(x) && x > 0, ticks };
}

/* Round numbers, and the first epoch if there is room. */
function epochTicks(first, last) {
    const step = last - first < 10 ? 1 : roundUp((last - first) / 7), ticks = [];
    const next = Math.ceil(first / step) * step;
    if (next - first >= 0.6 * step) ticks.push(first);
    for (let epoch = next; epoch <= last; epoch += step) ticks.push(epoch);
    return ticks;
}

/* ---- charts ---- */

/* A chart: { title, percents, mayBeLog, lines }. A line: { name, style, epochs, what: the column that it shows, best:
 * an epoch, tells: whether the chart says which }. Lines without a value are left out. A frame is a chart with axes. */
function frameOf({ title, percents = false, mayBeLog = false, lines }) {
    const shown = lines.filter(line => line.epochs.some(e => known(e[line.what])));
    if (shown.length === 0) return null;
    let least = Infinity, most = -Infinity, first = Infinity, last = 1;
    for (const line of shown)
        for (const e of line.epochs) {
            if (known(e[line.what])) least = Math.min(least, e[line.what]), most = Math.max(most, e[line.what]);
            first = Math.min(first, e.epoch), last = Math.max(last, e.epoch);
        }
    const axis = mayBeLog && least > 0 && most >= 10 * least ? logAxis(least, most) : linearAxis(least, most, percents);
    const left = Math.max(36, ...axis.ticks.map(tick => 16 + 6.6 * tick.text.length));
    const x = epoch => left + (WIDTH - left - RIGHT) * (last > first ? (epoch - first) / (last - first) : 0.5);
    const y = at => HEIGHT - BOTTOM - axis.part(at) * (HEIGHT - TOP - BOTTOM);
    return { title, lines: shown, axis, first, last, left, x, y, text: percents ? percent : value };
}

const has = (f, line, e) => e && f.axis.drawn(e[line.what]);
const circle = (f, line, e, kind, r) => draw("circle",
    { class: `${kind} ${line.style}`, cx: f.x(e.epoch).toFixed(1), cy: f.y(e[line.what]).toFixed(1), r });
const upright = (f, epoch, kind) =>
    draw("path", { class: kind, d: `M${f.x(epoch).toFixed(1)} ${TOP}V${HEIGHT - BOTTOM}` });

function grid(f) {
    const levels = f.axis.ticks.flatMap(tick => {
        const y = f.y(tick.at);
        return [draw("path", { class: "grid", d: `M${f.left} ${y.toFixed(1)}H${WIDTH - RIGHT}` }),
            draw("text", { class: "level", x: f.left - 8, y: (y + 4).toFixed(1), "text-anchor": "end" }, tick.text)];
    });
    const epochs = epochTicks(f.first, f.last).map(epoch =>
        draw("text", { class: "epoch", x: f.x(epoch).toFixed(1), y: HEIGHT - 8, "text-anchor": "middle" }, epoch));
    return [...levels, ...epochs];
}

/* A ring around the value, and an upright line with the number. */
function bestOf(f, line) {
    const e = line.epochs.find(each => each.epoch === line.best);
    if (!e) return [];
    const x = f.x(e.epoch), anchor = x < f.left + 40 ? "start" : x > WIDTH - RIGHT - 40 ? "end" : "middle";
    const note = [upright(f, e.epoch, "best"),
        draw("text", { x: x.toFixed(1), y: TOP - 5, "text-anchor": anchor }, `best: epoch ${e.epoch}`)];
    return [...line.tells ? note : [], ...has(f, line, e) ? [circle(f, line, e, "ring", 4.5)] : []];
}

/* Missing values leave a gap. A single value is a dot: a line of length 0 with round ends. */
function curve(f, line) {
    let pen = false, d = "";
    for (const e of line.epochs) {
        const here = has(f, line, e), place = here && `${f.x(e.epoch).toFixed(1)} ${f.y(e[line.what]).toFixed(1)}`;
        if (here) d += pen ? `L${place}` : `M${place}h0`;
        pen = here;
    }
    const dots = line.epochs.length > FEW ? [] : line.epochs.filter(e => has(f, line, e));
    return [draw("path", { class: `curve ${line.style}`, d }), ...dots.map(e => circle(f, line, e, "dot", 2))];
}

/* The caption names each line with its last value, or with that of the epoch under the pointer. */
function chart(given) {
    const f = frameOf(given);
    if (!f) return null;
    const last = line => f.text(line.epochs.at(-1)[line.what]);
    const at = make("span", { class: "at" }), over = draw("g", {});
    const numbers = f.lines.map(line => make("span", { class: "number" }, last(line)));
    const keys = f.lines.map((line, i) => make("span", { class: `key ${line.style}` }, `${line.name} `, numbers[i]));
    const ends = f.lines.map(line => `${line.name} from ${f.text(line.epochs[0][line.what])} to ${last(line)}`);
    const picture = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
        "aria-label": `${f.title}, epochs ${f.first} to ${f.last}: ${ends.join("; ")}` },
        ...grid(f), ...f.lines.flatMap(line => bestOf(f, line)), ...f.lines.flatMap(line => curve(f, line)), over);
    const epochs = [...new Set(f.lines.flatMap(line => line.epochs.map(e => e.epoch)))];

    picture.onpointermove = event => {
        const box = picture.getBoundingClientRect(), place = (event.clientX - box.left) * WIDTH / box.width;
        const far = epoch => Math.abs(f.x(epoch) - place), near = epochs.reduce((a, b) => far(a) <= far(b) ? a : b);
        const found = f.lines.map(line => line.epochs.find(e => e.epoch === near));
        at.textContent = `epoch ${near}`;
        numbers.forEach((number, i) => { number.textContent = f.text(found[i] && found[i][f.lines[i].what]); });
        over.replaceChildren(upright(f, near, "cursor"), ...f.lines.flatMap((line, i) =>
            has(f, line, found[i]) ? [circle(f, line, found[i], "dot", 3.5)] : []));
    };
    picture.onpointerleave = () => {
        at.textContent = "";
        numbers.forEach((number, i) => { number.textContent = last(f.lines[i]); });
        over.replaceChildren();
    };
    return make("figure", {}, make("figcaption", {}, make("b", {}, f.title), at, make("br", {}), ...keys), picture);
}

/* ---- the head ---- */

function putHead() {
    document.title = data.title;
    find("#title").textContent = data.title;
    const pair = ([name, text]) => make("div", {}, make("dt", {}, name), make("dd", {}, text));
    find("#facts").append(...(data.facts || []).map(pair));
    if (data.network) show("#network").textContent = data.network;
    const figures = [], run = runs[0];
    if (run && !data.compared) {
        /* Validation's scores at the best epoch, or training's at the last one. */
        const last = run.epochs.at(-1), best = run.epochs.find(e => e.epoch === run.best), at = best || last;
        const set = known(at.validationLoss) ? "validation" : "training";
        const accuracy = set === "validation" ? at.validationAccuracy : at.accuracy;
        if (known(accuracy)) figures.push([`${set} accuracy`, percent(accuracy)]);
        figures.push([`${set} loss`, value(set === "validation" ? at.validationLoss : at.loss)],
            [best ? "best epoch" : "epochs", `${at.epoch} of ${best ? last.epoch : run.of}`],
            ["time", time(last.seconds)]);
    }
    if (data.parameters) figures.push(["parameters", count(data.parameters)]);
    find("#figures").append(...figures.map(pair));
}

/* ---- epochs ---- */

/* A curve of what is measured on the validation set, or in training if there is none. */
const score = (run, of) => run.validated ? of === "loss" ? "validationLoss" : "validationAccuracy" : of;

function putCharts(charts) {
    find("#epochs .charts").append(...charts.map(chart).filter(figure => figure));
    show("#epochs");
}

function putRun(run) {
    const line = (name, style, what, best) => ({ name, style, what, best, epochs: run.epochs, tells: true });
    putCharts([
        { title: "Loss", mayBeLog: true, lines: [line("training", "run0", "loss", null),
            line("validation", "run1", "validationLoss", run.best)] },
        { title: "Accuracy", percents: true, lines: [line("training", "run0", "accuracy", null),
            line("validation", "run1", "validationAccuracy", run.best)] },
        { title: "Learning rate", lines: [line("last", "run0", "lr", run.best)] },
    ]);
    const rows = run.epochs.map(e => {
        const best = e.epoch === run.best;
        const numbers = [value(e.loss), percent(e.accuracy), value(e.validationLoss), percent(e.validationAccuracy),
            value(e.lr), time(e.seconds)];
        return fill(row(label(e.epoch + (best ? " (best)" : "")), ...numbers.map(text => cell(text))),
            best ? { class: "here" } : {}, []);
    });
    show("#epochs details").querySelector("summary").textContent =
        run.every > 1 ? `Every ${run.every}th epoch as a table` : "All epochs as a table";
    find("#epochs table").append(headings("<epoch", "loss", "accuracy", "validation loss", "validation accuracy",
        "learning rate", "time"), make("tbody", {}, ...rows));
}

function putRuns() {
    const lines = what => runs.map((run, i) => ({ name: run.name, style: `run${i}`, epochs: run.epochs,
        best: run.best, tells: false, what: what(run) }));
    find("#epochs p").textContent =
        "Loss and accuracy on the validation set, or in training if there is none. Rings mark the best epochs.";
    putCharts([
        { title: "Loss", mayBeLog: true, lines: lines(run => score(run, "loss")) },
        { title: "Accuracy", percents: true, lines: lines(run => score(run, "accuracy")) },
        { title: "Training loss", mayBeLog: true, lines: lines(() => "loss") },
        { title: "Learning rate", lines: lines(() => "lr") },
    ]);
    const rows = runs.map((run, i) => {
        const e = run.epochs.find(each => each.epoch === run.best);
        return row(label(make("span", { class: `key run${i}` }), run.name), cell(`${e.epoch} of ${run.count}`),
            cell(value(e.loss)), cell(value(e.validationLoss)), cell(percent(e[score(run, "accuracy")])));
    });
    show("#best").querySelector("table").append(
        headings("<log", "best epoch", "training loss", "validation loss", "accuracy"), make("tbody", {}, ...rows));
}

/* ---- the confusion matrix ---- */

/* Cells are shaded relative to the most frequent class, and to the most frequent mistake. */
function putMatrix(scores) {
    const { classes, confusion } = scores, counts = new Map(confusion.map(([t, p, n]) => [`${t} ${p}`, n]));
    const most = hit => Math.max(...confusion.filter(([t, p]) => (t === p) === hit).map(([, , n]) => n));
    const peak = { right: most(true), wrong: most(false) };
    const square = (truth, predicted) => {
        const n = counts.get(`${truth} ${predicted}`), kind = truth === predicted ? "right" : "wrong";
        return n ? cell(n, { class: kind, style: `--part:${(n / peak[kind]).toFixed(3)}` }) : cell("");
    };
    const sum = (...texts) => make("td", { class: "sum" }, ...texts), head = c => make("th", { scope: "col" }, c);
    find(".matrix").append(make("caption", {}, "rows: class; columns: predicted class"),
        make("thead", {}, row(sum(), ...classes.map(c => head(c.name)), head("recall"))),
        make("tbody", {}, ...classes.map((c, truth) =>
            row(label(c.name), ...classes.map((_, k) => square(truth, k)), sum(percent(c.recall))))),
        make("tfoot", {}, row(label("precision"), ...classes.map(c => sum(percent(c.precision))),
            sum(make("b", {}, percent(scores.accuracy))))));
    find(".matrix").parentElement.hidden = false;
}

function putConfusion(scores) {
    const { classes, confused, samples } = scores, MOST = 20; // classes in the matrix
    show("#confusion").querySelector("p").textContent = `${count(samples)} validation samples, ` +
        `${count(Math.round(scores.accuracy * samples))} classified correctly: accuracy ${percent(scores.accuracy)}, ` +
        `loss ${value(scores.loss)}.`;
    if (classes.length <= MOST) putMatrix(scores);
    if (confused.length > 0) {
        find("#confused").append(headings("<class", "<predicted", "times", "of"), make("tbody", {},
            ...confused.map(([truth, predicted, times]) => row(label(classes[truth].name),
                cell(classes[predicted].name, { class: "text" }), cell(times), cell(classes[truth].samples)))));
        find("#confused").parentElement.hidden = false;
    }
    if (classes.length <= MOST) return;
    show("#confusion details").querySelector("table").append(headings("<class", "samples", "precision", "recall"),
        make("tbody", {}, ...classes.map(c =>
            row(label(c.name), cell(count(c.samples)), cell(percent(c.precision)), cell(percent(c.recall))))));
}

/* ---- pictures ---- */

/* Bytes of rows, of one channel or of three for each pixel. */
function picture({ width, height, channels, pixels }, name) {
    const bytes = Uint8Array.from(atob(pixels), c => c.charCodeAt(0)), image = new ImageData(width, height);
    for (let i = 0; i < width * height; i++)
        for (let k = 0; k < 4; k++)
            image.data[4 * i + k] = k === 3 ? 255 : bytes[channels === 3 ? 3 * i + k : i];
    const canvas = make("canvas", { width, height, role: "img", "aria-label": name });
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
}

function putMistakes(mistakes) {
    const named = k => data.scores.classes[k].name;
    show("#mistakes").querySelector("ol").append(...mistakes.map(m => make("li", {},
        ...m.image ? [picture(m.image, `sample ${m.sample}`)] : [],
        make("b", {}, named(m.truth)), " → ", make("b", { class: "run1" }, named(m.predicted)),
        make("small", {}, make("span", { class: "number" }, percent(m.confidence)),
            make("br", {}), m.file || `no. ${m.sample}`))));
}

function putFilters({ count: all, size, channels, images }) {
    const which = images.length < all ? `first ${images.length} of ${all} filters` : `${all} filter${all > 1 ? "s" : ""}`;
    show("#filters").querySelector("p").textContent = `The weights of its ${which} of ${size.join(" × ")}, each ` +
        `scaled by its maximum: ${channels === 1 || channels === 3 ? "" : "the mean over their channels, "}` +
        "0 is grey, positive weights are bright.";
    find("#filters ol").append(...images.map((image, i) => make("li", {}, picture(image, `filter ${i}`))));
}

/* ---- layers ---- */

/* Bars of parameters and times are relative to the largest, percentages to all layers. */
function putLayers(layers, times) {
    const sum = what => layers.reduce((all, layer) => all + (layer[what] || 0), 0);
    const most = what => Math.max(...layers.map(layer => layer[what] || 0)) || 1;
    const share = (layer, what) =>
        known(layer[what]) ? bar(layer[what] / most(what), percent(layer[what] / (sum(what) || 1))) : cell("");
    const rows = layers.map(layer => row(
        fill(label(`${layer.name} ${layer.type}`), { style: `padding-left:${1.5 * layer.depth}em` },
            layer.options ? [make("span", { class: "option" }, ` ${layer.options}`)] : []),
        cell(layer.output, { class: "text" }),
        layer.parameters ? bar(layer.parameters / most("parameters"), count(layer.parameters)) : cell(""),
        cell(layer.flops ? count(layer.flops) : ""),
        ...times ? [share(layer, "forward"), share(layer, "backward")] : []));
    if (times)
        find("#layers p").textContent = `A training step on ${times.batch} samples takes ` +
            `${(1e3 * times.forward).toFixed(2)} ms forward and ${(1e3 * times.backward).toFixed(2)} ms backward; ` +
            "the bars show each layer's share.";
    show("#layers").querySelector("table").append(
        headings("<layer", "<output", "parameters", "FLOPs per sample", ...times ? ["forward", "backward"] : []),
        make("tbody", {}, ...rows),
        make("tfoot", {}, row(label("all"), cell(""), cell(count(data.parameters)), cell(count(data.flops)),
            ...times ? [cell(""), cell("")] : [])));
}

putHead();
if (data.compared) putRuns();
else if (runs.length > 0) putRun(runs[0]);
if (data.scores && data.scores.classes.length > 0) putConfusion(data.scores);
if (data.mistakes && data.mistakes.length > 0) putMistakes(data.mistakes);
if (data.filters) putFilters(data.filters);
if (data.layers) putLayers(data.layers, data.times);
