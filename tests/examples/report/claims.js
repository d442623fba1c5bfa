// claims.js: runs in a page of tests/examples/test_report.sh, which puts before it
//
//     const log = "…";        the CSV of the page's run, "" if it has none
//     const texts = […];      what must be on the page, as text
//
// A list of lines, "ok CLAIM" or "not ok CLAIM: what was found".
"use strict";
(() => {
const lines = [], all = selector => [...document.querySelectorAll(selector)];
function claim(what, test, applies = true) {
    if (!applies) return;
    let found;
    try { found = test(); } catch (e) { found = String(e); }
    lines.push(found === true ? `ok ${what}` : `not ok ${what}: ${JSON.stringify(found)}`);
}
const near = (a, b, by) => Math.abs(a - b) <= by;
// The numbers of the log, and where its columns stand in a row of the table.
const epochs = log.trim().split("\n").slice(1).map(line => line.split(",").map(x => x === "" ? NaN : Number(x)));
const EPOCH = 0, RATE = 2, LOSS = 3, ACCURACY = 4, BEST = 7;
const best = epochs.findLastIndex(e => e[BEST] === 1);

// ---- text ----

claim("every name is shown as it is", () => {
    const missing = texts.filter(text => !document.body.innerText.includes(text));
    return missing.length === 0 || missing;
});
claim("no name is markup", () => {
    const strange = all("img, b b, iframe, [onerror], style ~ style");
    return strange.length === 0 && document.scripts.length === 2 || strange.map(e => e.outerHTML);
});
claim("a page cannot make markup of text, nor run what is written into it", () => {
    try { document.body.innerHTML += "<b>bold</b>"; } catch (e) { return e instanceof TypeError; }
    return "innerHTML was set";
});

// ---- numbers ----

claim("numbers are short", () => {
    const given = [count(0), count(1234567), count(999), value(0.123456), value(null), value(1e-9), percent(0.98414),
        percent(null), time(2.129), time(59.94), time(59.96), time(3905), time(null)];
    const expected = ["0", "1,234,567", "999", "0.1235", "–", "1e-9", "98.41 %", "–", "2.13 s", "59.9 s", "1 min 0 s",
        "1 h 05 min", "–"];
    return JSON.stringify(given) === JSON.stringify(expected) || given;
});
claim("the table has the numbers of the log", () => {
    const rows = all("#epochs tbody tr").map(row => [...row.cells].map(cell => cell.textContent));
    if (rows.length !== epochs.length) return `${rows.length} rows`;
    const wrong = [];
    epochs.forEach((e, i) => {
        const name = e[EPOCH] + (i === best ? " (best)" : "");
        const percents = k => isNaN(e[k]) ? "–" : (100 * e[k]).toFixed(2) + " %";
        if (rows[i][0] !== name) wrong.push(rows[i][0]);
        [LOSS, LOSS + 2, RATE].forEach((k, j) => {
            const shown = Number(rows[i][[1, 3, 5][j]]);
            if (!near(shown, e[k], 5.001e-4 * Math.abs(e[k]))) wrong.push([name, shown, e[k]]);
        });
        [ACCURACY, ACCURACY + 2].forEach((k, j) => {
            if (rows[i][[2, 4][j]] !== percents(k)) wrong.push([name, rows[i][[2, 4][j]], e[k]]);
        });
    });
    return wrong.length === 0 || wrong;
}, !data.compared && epochs.length > 0);

// ---- charts: what is drawn is measured by the marks of the axes that are written ----

const number = (element, name) => Number(element.getAttribute(name));
// The value at a height, by the highest and the lowest mark, linear or logarithmic.
function scaleOf(svg) {
    const marks = [...svg.querySelectorAll("text.level")].map(t => {
        const text = t.textContent, part = text.endsWith("%") ? 0.01 : 1;
        return { y: number(t, "y") - 4, at: part * parseFloat(text) };
    });
    const [a, b] = [marks[0], marks.at(-1)], middle = marks[marks.length >> 1];
    const line = (f, y) => f(a.at) + (f(b.at) - f(a.at)) * (y - a.y) / (b.y - a.y);
    const linear = near(line(x => x, middle.y), middle.at, 0.01 * (b.at - a.at));
    return linear ? y => line(x => x, y) : y => Math.exp(line(Math.log, y));
}
const pointsOf = path => path.getAttribute("d").match(/[-\d.]+ [-\d.]+/g).map(pair => pair.split(" ").map(Number));

claim("curves go through the numbers of the log", () => {
    const wrong = [], columns = [[LOSS, LOSS + 2], [ACCURACY, ACCURACY + 2], [RATE]];
    all("#epochs svg").forEach((svg, i) => {
        const valueAt = scaleOf(svg), curves = svg.querySelectorAll(".curve");
        if (curves.length !== columns[i].length) wrong.push(`${curves.length} curves`);
        columns[i].forEach((column, k) => {
            const points = pointsOf(curves[k]), values = epochs.map(e => e[column]);
            const range = Math.max(...values) - Math.min(...values);
            if (points.length !== values.length) wrong.push(`${points.length} points`);
            points.forEach(([x, y], n) => {
                const below = [...svg.querySelectorAll("text.epoch")].find(t => Number(t.textContent) === epochs[n][EPOCH]);
                if (below && number(below, "x") !== x) wrong.push([i, k, n, x]);
                if (!near(valueAt(y), values[n], 0.01 * range + 0.002 * Math.abs(values[n])))
                    wrong.push([i, k, n, valueAt(y), values[n]]);
            });
        });
    });
    return wrong.length === 0 && all("#epochs svg").length === 3 || wrong;
}, !data.compared && epochs.length > 0);
claim("the best epoch is marked where it is", () => {
    const notes = all("svg text").filter(t => t.textContent === `best: epoch ${epochs[best][EPOCH]}`);
    const rings = all(".ring").map(ring => {
        const svg = ring.closest("svg"), curve = [...svg.querySelectorAll(".curve")].at(-1);
        const [x, y] = pointsOf(curve)[best];
        return near(number(ring, "cx"), x, 0.11) && near(number(ring, "cy"), y, 0.11);
    });
    return notes.length === 3 && rings.length === 3 && rings.every(right => right) || [notes.length, rings];
}, !data.compared && best >= 0);
claim("under the pointer a chart tells the numbers of an epoch, and afterwards the last ones", () => {
    const svg = document.querySelector("#epochs svg"), figure = svg.closest("figure");
    const before = figure.textContent, box = svg.getBoundingClientRect();
    const x = box.left + pointsOf(svg.querySelector(".curve"))[1][0] / 360 * box.width;
    svg.dispatchEvent(new PointerEvent("pointermove", { clientX: x + 1, clientY: box.top + 9 }));
    const said = figure.querySelector("figcaption").textContent, dots = svg.querySelectorAll("g .dot").length;
    svg.dispatchEvent(new PointerEvent("pointerleave"));
    const right = said.includes(`epoch ${epochs[1][EPOCH]}`) && said.includes(value(epochs[1][LOSS])) &&
        said.includes(value(epochs[1][LOSS + 2])) && dots === 2 && figure.textContent === before &&
        !svg.querySelector(".cursor");
    return right || [said, dots, figure.textContent];
}, !data.compared && epochs.length > 1);
// However narrow a range is.
claim("marks of axes are told apart, and lie inside the drawing", () => {
    const wrong = [];
    const ranges = [[0.98761, 0.98763], [123456.1, 123456.2], [1e-9, 1.1e-9], [5e12, 5e12 + 4e5], [0.5, 0.5], [-3e-5, 7e-5],
        [1e-5, 1], [0.0003, 0.2], [2e-300, 1e300], [0, 0]];
    for (const [a, b] of ranges)
        for (const percents of a >= 0 && b <= 1 ? [false, true] : [false]) {
            const e = [{ epoch: 1, lr: a }, { epoch: 2, lr: b }];
            const lines = [{ name: "rate", style: "run0", what: "lr", epochs: e, best: null }];
            const figure = chart({ title: "Rate", percents, mayBeLog: !percents, lines });
            document.querySelector("#epochs .charts").append(figure);
            const svg = figure.querySelector("svg"), marks = [...svg.querySelectorAll("text.level")];
            const names = marks.map(t => t.textContent), left = Math.min(...marks.map(t => t.getBBox().x));
            const points = pointsOf(svg.querySelector(".curve")), inside = ([x, y]) => x > 30 && y > 15 && y < 195;
            figure.remove();
            const apart = new Set(names).size === names.length && names.length >= 3;
            if (!apart || left < 0 || !points.every(inside)) wrong.push([a, b, percents, names, left, points]);
        }
    return wrong.length === 0 || wrong;
});

claim("runs compared: each one's best epoch, in the table and in every chart", () => {
    const e = epochs[best], rows = all("#best tbody tr").map(row => [...row.cells].slice(1).map(c => c.textContent).join(" "));
    const expected = `${e[EPOCH]} of ${epochs.length} ${value(e[LOSS])} ${value(e[LOSS + 2])} ${percent(e[ACCURACY + 2])}`;
    const rings = all("#epochs svg").map(svg => svg.querySelectorAll(".ring").length);
    return rows.length === 2 && rows.every(row => row === expected) && String(rings) === "2,2,2,2" || [rows, expected, rings];
}, data.compared);

// ---- tables and pictures ----

claim("the matrix and its sums are those of the data", () => {
    const rows = all(".matrix tbody tr").map(row => [...row.cells].map(cell => cell.textContent)), wrong = [];
    let samples = 0, hits = 0;
    rows.forEach((cells, truth) => {
        const counts = cells.slice(1, -1).map(Number), sum = counts.reduce((a, b) => a + b, 0);
        const recall = sum ? (100 * counts[truth] / sum).toFixed(2) + " %" : "–";
        if (cells.at(-1) !== recall) wrong.push([truth, cells.at(-1), recall]);
        samples += sum, hits += counts[truth];
    });
    const accuracy = document.querySelector(".matrix tfoot b").textContent;
    for (const kind of ["right", "wrong"]) {
        const shades = all(`.matrix .${kind}`).map(cell => Number(cell.style.getPropertyValue("--part")));
        if (shades.length > 0 && Math.max(...shades) !== 1) wrong.push([kind, shades]);
    }
    const right = wrong.length === 0 && samples === data.scores.samples && accuracy === (100 * hits / samples).toFixed(2) + " %";
    return right || [wrong, samples, hits, accuracy];
}, Boolean(data.scores));
claim("pictures have the pixels that they were given", () => {
    const pixels = image => [...picture(image, "").getContext("2d").getImageData(0, 0, 2, 1).data];
    const grey = pixels({ width: 2, height: 1, channels: 1, pixels: btoa("\x05\xff") });
    const rgb = pixels({ width: 2, height: 1, channels: 3, pixels: btoa("\x01\x02\x03\xff\x80\x00") });
    const found = JSON.stringify([grey, rgb]);
    return found === "[[5,5,5,255,255,255,255,255],[1,2,3,255,255,128,0,255]]" || found;
});
claim("each mistake has its picture", () => {
    const pictures = data.mistakes ? data.mistakes.filter(m => m.image).length : 0;
    return all("#mistakes canvas").length === pictures || pictures;
});
claim("no bar is longer than its place, and none covers a number", () => {
    const wrong = all(".bar").filter(cell => {
        const mark = cell.querySelector("i"), text = cell.querySelector("span").getBoundingClientRect();
        return mark.getBoundingClientRect().right > text.left + 0.5;
    });
    return wrong.length === 0 || wrong.map(cell => cell.textContent);
});
return lines;
})();
