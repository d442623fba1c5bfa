/* elements.js: the JSON of a page and the elements that its script makes of it; a page's script follows. */
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const known = x => x !== null && x !== undefined;

/* Texts become text nodes, so that no name is markup. */
function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
}
const make = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const find = selector => document.querySelector(selector);

const row = (...cells) => make("tr", {}, ...cells);
const cell = (text, attributes = {}) => make("td", attributes, text);
const label = (...children) => make("th", { scope: "row" }, ...children);

/* Headings that begin with < stand at the left. */
const headings = (...names) => make("thead", {}, row(...names.map(name => name.startsWith("<")
    ? make("th", { scope: "col", class: "text" }, name.slice(1))
    : make("th", { scope: "col" }, name))));
