/* style.c: how a page looks: one colour for training and what is right, one for validation and what is wrong, in
 * light and in dark, on a phone and on paper. Texts have a contrast of 4.5 and more. */
#include "examples/stride/page.h"

static const char *const sheet[] = {
    ":root{color-scheme:light dark;--ink:#1b2027;--soft:#59626e;--rule:#e2e5e9;--paper:#fff;--panel:#f6f7f9;",
    "--a:38,98,196;--v:190,80,18;--strong:.42}",
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e7ea;--soft:#9ba5b1;--rule:#2b323a;--paper:#13171c;",
    "--panel:#1b2027;--a:118,169,255;--v:255,156,88;--strong:.32}}",
    "*{box-sizing:border-box}",
    "html{-webkit-text-size-adjust:100%}",
    "body{margin:0 auto;max-width:72rem;padding:2.5rem 1.25rem "
    "3rem;background:var(--paper);color:var(--ink);",
    "font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','Liberation Sans',sans-serif}",
    "h1{margin:0 0 "
    "1.5rem;font-size:1.75rem;line-height:1.2;font-weight:650;letter-spacing:-.015em;overflow-wrap:anywhere}",
    "h2{margin:0 0 .25rem;font-size:1.125rem;font-weight:650}",
    "section{margin-top:2.5rem;padding-top:1.5rem;border-top:1px solid var(--rule)}",
    "p{margin:0 0 1rem;max-width:44rem;color:var(--soft);font-size:.9375rem}",
    "dl,dd,figure,ol{margin:0;padding:0}",
    ".key::before{content:'';display:inline-block;width:.8em;height:.18em;margin-right:.4em;vertical-align:."
    "28em;",
    "border-radius:1px;background:currentColor}",
    ".training{color:rgb(var(--a))}.validation{color:rgb(var(--v))}",
    ".number,td,tfoot th{font-variant-numeric:tabular-nums}",

    /* the head */
    ".figures{display:flex;flex-wrap:wrap;gap:1rem 3rem;margin-bottom:1.75rem}",
    ".figures div{display:flex;flex-direction:column-reverse}",
    ".figures dt{color:var(--soft);font-size:.875rem}",
    ".figures "
    "dd{font-size:1.625rem;font-weight:600;letter-spacing:-.01em;line-height:1.25;font-variant-numeric:"
    "tabular-nums}",
    ".facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:.3rem "
    "2.5rem;font-size:.9375rem}",
    ".facts div{display:grid;grid-template-columns:7rem 1fr;gap:.75rem}",
    ".facts dt{color:var(--soft)}.facts dd{overflow-wrap:anywhere}",
    "pre{margin:1.25rem 0 0;padding:.875rem "
    "1rem;max-height:22rem;overflow:auto;background:var(--panel);border-radius:.5rem;",
    "font:.8125rem/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,'Liberation Mono',monospace}",

    /* curves */
    ".charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:1.75rem "
    "2rem;margin-top:1rem}",
    ".charts svg{display:block;width:100%;height:auto;overflow:visible}",
    ".charts text{fill:var(--soft);font-size:11.5px;font-variant-numeric:tabular-nums}",
    "figcaption{font-size:.875rem}figcaption b{font-weight:600;margin-right:.6em}figcaption "
    ".key{margin-right:.7em;white-space:nowrap}",
    ".grid{stroke:var(--rule);stroke-width:1}",
    ".best{stroke:var(--soft);stroke-width:1;stroke-dasharray:2 3}",
    ".line{fill:none;stroke:currentColor;stroke-width:1.8;stroke-linejoin:round;stroke-linecap:round}",
    ".dot{fill:currentColor}",
    ".ring{fill:none;stroke:currentColor;stroke-width:1.4}",
    ".at rect{fill:transparent}.at path{stroke:var(--ink);stroke-width:1;opacity:0}.at:hover "
    "path{opacity:.55}",
    "details{margin-top:1.25rem}summary{cursor:pointer;color:var(--soft);font-size:.9375rem;width:fit-"
    "content}",
    "summary:hover{color:var(--ink)}",
    ":focus-visible{outline:2px solid rgb(var(--a));outline-offset:3px;border-radius:2px}",

    /* tables */
    ".scroll{overflow-x:auto;margin-top:.75rem}.tall{max-height:26rem;overflow-y:auto}",
    "table{border-collapse:collapse;font-size:.875rem;line-height:1.35}",
    "th{font-weight:500;text-align:right;color:var(--soft);white-space:nowrap}",
    "td{text-align:right;white-space:nowrap}",
    ".rows th,.rows td{padding:.3rem .875rem;border-bottom:1px solid var(--rule)}",
    ".rows th:first-child,.rows td:first-child{padding-left:0}.rows .text{text-align:left}",
    ".rows tbody th{color:var(--ink);font-weight:400;text-align:left}",
    ".rows tfoot th,.rows tfoot td{border-bottom:0;font-weight:600;color:var(--ink)}.rows tfoot "
    "th{text-align:left}",
    ".tall thead th{position:sticky;top:0;background:var(--paper)}",
    ".here td,.here th{font-weight:650}",
    ".option{color:var(--soft)}",
    ".wide{width:100%}",
    ".matrix th{padding:.2rem .55rem}.matrix tbody th{text-align:right}",
    ".matrix tbody th,.matrix tfoot th{position:sticky;left:0;z-index:1;background:var(--paper)}.matrix "
    "thead th{text-align:center}",
    ".matrix td{min-width:3.1rem;height:2.1rem;padding:0 .4rem;text-align:center;border:2px solid "
    "var(--paper);background:var(--panel)}",
    ".matrix .right{background:rgba(var(--a),calc(.06 + var(--s)*var(--strong)))}",
    ".matrix .wrong{background:rgba(var(--v),calc(.1 + var(--s)*var(--strong)))}",
    ".matrix .sum{background:none;color:var(--soft)}.matrix "
    "td.sum:last-child{text-align:right;padding-right:0}",
    ".matrix "
    "caption,.corner{color:var(--soft);font-size:.8125rem;text-align:left;padding-bottom:.25rem;white-space:"
    "nowrap}",
    ".beside{display:flex;flex-wrap:wrap;gap:1rem 3rem;align-items:flex-start}",
    ".map{display:block;width:min(100%,36rem);image-rendering:pixelated;border:1px solid "
    "var(--rule);margin-top:.75rem}",
    ".bar{position:relative;width:9rem;min-width:7rem}",
    ".bar span{position:relative}.bar "
    "i{position:absolute;left:.5rem;top:50%;height:.55rem;margin-top:-.275rem;",
    "border-radius:1px;background:rgba(var(--a),.5);width:calc((100% - 4.75rem)*var(--s))}",

    /* images */
    ".images{display:grid;list-style:none;margin-top:.75rem;gap:1.25rem "
    "1rem;grid-template-columns:repeat(auto-fill,minmax(6.9rem,1fr))}",
    ".images "
    "img{display:block;width:5.25rem;height:5.25rem;object-fit:contain;object-position:left;image-rendering:"
    "pixelated;border-radius:3px;margin-bottom:.4rem}",
    ".images li{font-size:.875rem;line-height:1.35;overflow-wrap:anywhere}.images b{font-weight:650}.images "
    "small{color:var(--soft);font-size:.8125rem;display:block;white-space:nowrap}",
    ".filters{grid-template-columns:repeat(auto-fill,3.25rem);gap:.6rem}",
    ".filters img{width:3.25rem;height:3.25rem;margin:0;outline:1px solid var(--rule)}",
    "@media(max-width:40rem){body{padding:1.5rem 1rem 2rem}h1{font-size:1.5rem}.figures{gap:.875rem "
    "2rem}.figures dd{font-size:1.375rem}",
    "section{margin-top:2rem;padding-top:1.25rem}.facts div{grid-template-columns:6rem "
    "1fr}.option{display:block;max-width:12rem;white-space:normal}}",

    /* on paper: light, everything in its width */
    "@media "
    "print{:root{--ink:#000;--soft:#444;--rule:#ccc;--paper:#fff;--panel:#f6f7f9;--a:38,98,196;--v:190,80,18;"
    "--strong:.42}",
    "body{max-width:none;padding:0;font-size:10pt}figure,.images "
    "li,tr,h2{break-inside:avoid}h2,h2+p{break-after:avoid}",
    ".scroll,.tall,pre{overflow:visible;max-height:none}.at,summary{display:none}",
    ".charts{grid-template-columns:repeat(3,1fr)}.rows{font-size:8pt}.rows th,.rows td{padding:.25rem "
    ".5rem;white-space:normal}",
    ".bar{min-width:0;width:6rem}td,i,img,svg,.key{print-color-adjust:exact;-webkit-print-"
    "color-adjust:exact}}",
};

void page_style(FILE *to)
{
    for (size_t i = 0; i < sizeof sheet / sizeof *sheet; i++) fprintf(to, "%s\n", sheet[i]);
}
