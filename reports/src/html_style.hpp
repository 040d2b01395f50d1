// SPDX-License-Identifier: Apache-2.0
// Style of the HTML report. Colours meet WCAG AA (4.5:1) in both themes: the browser test measures
// them. The theme is the system's unless the page's root says another (data-theme).
#pragma once

#include <string_view>

namespace faultline::reports {

inline constexpr std::string_view kStyle = R"css(
:root{color-scheme:light;--bg:#fff;--surface:#f5f6f8;--text:#1b2027;--muted:#57606a;
--line:#d5dae0;
--accent:#0b5cad;--fail:#b3261e;--pass:#176f31;--warn:#7d5200;--mark:#fff1c9;
--h0:#eef0f3;--h1:#fdedc9;--h2:#f8cd8d;--h3:#f0975f;--h4:#b92f24;--h0t:#57606a;--ht:#1b2027;
--h4t:#fff}
:root[data-theme=dark]{color-scheme:dark;--bg:#101317;--surface:#181c22;--text:#e4e8ed;
--muted:#9ba5b1;--line:#2c333c;
--accent:#7fb8ff;--fail:#ff8f86;--pass:#74d98e;--warn:#ecc067;--mark:#463a17;
--h0:#1e242c;--h1:#40371f;--h2:#6a4a17;--h3:#974419;--h4:#c0362b;--h0t:#9ba5b1;--ht:#fff;
--h4t:#fff}
@media(prefers-color-scheme:dark){:root:not([data-theme]){color-scheme:dark;--bg:#101317;
--surface:#181c22;--text:#e4e8ed;
--muted:#9ba5b1;--line:#2c333c;
--accent:#7fb8ff;--fail:#ff8f86;--pass:#74d98e;--warn:#ecc067;--mark:#463a17;
--h0:#1e242c;--h1:#40371f;--h2:#6a4a17;--h3:#974419;--h4:#c0362b;--h0t:#9ba5b1;--ht:#fff;
--h4t:#fff}}
*{box-sizing:border-box}
[hidden]{display:none!important}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--bg);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
header,main,footer{max-width:80rem;margin:0 auto;padding:0 1.25rem}
main:focus{outline:none}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);
white-space:nowrap}
code,pre,.mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;
font-size:.867em}
h1,h2,h3,h4,p,ul,dl,figure,pre{margin:0}
h1{font-size:1.6rem;line-height:1.25;font-weight:650;letter-spacing:-.01em;margin:.5rem 0 0;
overflow-wrap:anywhere;text-wrap:pretty}
h2{font-size:1.1rem;font-weight:650;margin:0 0 .75rem}
h2 small,h3 small,caption small{font-weight:400;color:var(--muted);font-size:.867rem;
margin-left:.5rem}
h3{font-size:1rem;font-weight:600;line-height:1.4}
h4{font-size:.867rem;font-weight:600}
a{color:var(--accent)}
section{padding:1.25rem 0 0}
section>h2{border-top:1px solid var(--line);padding-top:1.25rem}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:.5rem;background:var(--bg);padding:.25rem .5rem}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
header{padding-top:1.5rem}
#theme{margin-left:auto}
.verdict{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem}
.badge{font-weight:700;font-size:.867rem;letter-spacing:.06em;padding:.15rem .6rem;
border-radius:4px;color:#fff}
.badge.fail,.badge.error{background:#b3261e}.badge.pass{background:#176f31}
.badge.inconclusive,.badge.skipped{background:#7d5200}
.class{font-weight:600}
.subject{color:var(--muted)}
.facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.2rem 1rem;margin-top:1rem}
.facts dt{color:var(--muted)}
.facts dd{margin:0;overflow-wrap:anywhere;white-space:pre-line}
.alert{border-left:3px solid var(--warn);padding:.25rem .75rem;margin-top:1rem;color:var(--warn)}
nav ul{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.25rem 1.1rem;margin-top:1.25rem;
font-size:.933rem}
.command{display:flex;align-items:flex-start;gap:.75rem;background:var(--surface);
border:1px solid var(--line);
border-radius:6px;padding:.5rem .5rem .5rem .8rem;margin-top:.5rem}
.command code{flex:1;min-width:0;overflow-wrap:anywhere;padding:.15rem 0}
button{font:inherit;font-size:.867rem;color:var(--text);background:var(--bg);
border:1px solid var(--line);
border-radius:5px;padding:.15rem .7rem;min-width:4.5rem;cursor:pointer}
button:hover{border-color:var(--accent)}
.finding{border-left:3px solid var(--muted);padding:.1rem 0 .1rem .9rem;margin-bottom:1.25rem;
max-width:60rem}
.finding.s-error{border-color:var(--fail)}.finding.s-warning{border-color:var(--warn)}
.finding ul,.plain{padding-left:1.1rem;margin:.4rem 0}
.finding li,.plain li{margin:.2rem 0;overflow-wrap:anywhere}
.finding h3,.finding p{overflow-wrap:anywhere}
.sev{font-weight:600;margin-left:.25rem}.s-error .sev{color:var(--fail)}
.s-warning .sev{color:var(--warn)}
.s-note .sev{color:var(--muted)}
.label{color:var(--muted)}
.race{border:1px solid var(--line);border-radius:8px;padding:.9rem 1rem 1rem;margin-bottom:1rem}
.race h3,.race p{overflow-wrap:anywhere}
.race>p{margin-top:.35rem;max-width:60rem}
.sites{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr));
gap:1rem 1.25rem;margin-top:.8rem}
.site{min-width:0}
.site p{margin:.1rem 0}
.site .mono{overflow-wrap:anywhere}
.frame{margin-top:.5rem}
.kept{white-space:nowrap}
pre{background:var(--surface);border-radius:6px;padding:.4rem 0;line-height:1.45;
margin-top:.2rem}
pre code{display:block;font-size:.8rem}
pre .row{display:block;padding:0 .75rem 0 4.4em;text-indent:-3.6em;white-space:pre-wrap;
overflow-wrap:anywhere}
pre .row.marked{background:var(--mark);box-shadow:inset 3px 0 var(--warn)}
pre .n{display:inline-block;width:3.6em;padding-right:1em;text-align:right;text-indent:0;
color:var(--muted);user-select:none}
.marked .n{color:var(--text);font-weight:700}
.scroll{overflow-x:auto}
.scroll.cut{-webkit-mask-image:linear-gradient(to left,transparent,#000 3rem);
mask-image:linear-gradient(to left,transparent,#000 3rem)}
.scroll+.scroll{margin-top:1.25rem}
.scroll+p{margin-top:.5rem;max-width:60rem}
.footing{max-width:60rem;margin-top:.75rem}
.timing th[scope=row]{width:30%}
table{border-collapse:collapse;font-size:.933rem}
table.wide{width:100%}
caption{text-align:left;padding:0 0 .4rem;font-weight:600}
th,td{text-align:left;padding:.28rem .9rem .28rem 0;vertical-align:baseline}
thead th{font-weight:500;color:var(--muted);border-bottom:1px solid var(--line);white-space:nowrap;
vertical-align:bottom}
tbody tr+tr>*{border-top:1px solid var(--line)}
tbody th{font-weight:400}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.bad{color:var(--fail);font-weight:600}.good{color:var(--pass)}.warn{color:var(--warn)}
.muted{color:var(--muted)}
.note{color:var(--muted);font-size:.867rem;display:block}.note.warn{color:var(--warn)}
.note+.maps{margin-top:.75rem}
.maps{display:flex;flex-wrap:wrap;gap:1.5rem 2.5rem;align-items:flex-start}
figure{min-width:0;max-width:100%}
figure.drawn{flex:1 1 100%}
figure.drawn,.race,.errors{content-visibility:auto;contain-intrinsic-size:auto 24rem}
figcaption{margin-bottom:.5rem;max-width:46rem}
.map,.matrix{border-collapse:separate;border-spacing:3px}
.map{margin:-3px}.matrix{margin-left:-3px}
.map th,.matrix th{font-size:.867rem;color:var(--muted);font-weight:500;padding:.1rem .5rem .1rem 0;
white-space:nowrap}
.map tbody th{position:sticky;left:0;background:var(--bg);z-index:1}
.map tr>*,.matrix tr>*{border:0!important}
.map td{border-radius:5px;padding:0;font-variant-numeric:tabular-nums;vertical-align:top;
cursor:crosshair}
.map td>*{display:none;white-space:nowrap}
.map td b{font-weight:500;font-size:.8rem}.map td span{font-weight:600}
.map td small{font-size:.8rem}
.map td.at{outline:2px solid var(--text);outline-offset:1px;position:relative;z-index:2}
.map td:focus-visible{outline:3px solid var(--accent);outline-offset:1px}
.z0,.z1{border-spacing:1px}.z2{border-spacing:2px}
.z0 td,.z1 td,.z2 td{border-radius:2px}
.z0 td{min-width:6px;height:6px}.z1 td{min-width:11px;height:11px}.z2 td{min-width:18px;height:18px}
.z0 thead th,.z1 thead th,.z2 thead th,.z3 thead i{display:none}
.z0 tbody th,.z1 tbody th{font-size:9px;line-height:1;padding:0 .4rem 0 0}
.z3 td{min-width:2.6rem;height:2.1rem;padding:.3rem .35rem}.z3 td b{display:block}
.z4 td{min-width:6rem;padding:.4rem .7rem}.z5 td{min-width:9.5rem;padding:.5rem .8rem}
.z4 td b,.z4 td span,.z5 td>*{display:block}
.z3 td b i,.map thead i{font-style:normal}.z3 td b i{display:none}
.map td b i{font-style:normal}
.tools,.buttons{display:flex;flex-wrap:wrap;gap:.35rem}
.tools{margin:0 0 .3rem}.tools button{min-width:2.2rem}
.tools+.scroll{padding:3px}
[data-hint]{margin-bottom:1rem;max-width:60rem}
.readout{min-height:3em;font-size:.933rem;margin-top:.5rem;max-width:60rem}
.player{position:sticky;top:0;z-index:2;background:var(--surface);border:1px solid var(--line);
border-radius:6px;padding:.6rem .8rem;margin-bottom:1rem;display:grid;gap:.4rem .8rem;
grid-template-columns:max-content minmax(8rem,1fr)}
.player input{width:100%;accent-color:var(--accent);margin:0}
.player p{grid-column:1/-1}.player .shown{font-size:.933rem;font-variant-numeric:tabular-nums}
.errors+.errors{margin-top:1.5rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));
gap:.5rem 2rem;margin-top:.5rem}
.pair figcaption{font-size:.867rem;color:var(--muted);margin-bottom:.25rem}
svg.columns{display:block;width:100%;height:150px;overflow:visible}
.columns .v{fill:var(--accent)}.columns .over{fill:var(--fail)}
.columns .axis{stroke:var(--muted)}.columns .limit{stroke:var(--fail);stroke-dasharray:4 3}
.columns text{font-size:11px;fill:var(--muted);text-anchor:middle}
.columns .end{text-anchor:end}
.sweep td,.sweep th{padding:.28rem .7rem;white-space:nowrap}
.sweep td{text-align:right;font-variant-numeric:tabular-nums}
.sweep th[scope=row]{position:sticky;left:0;background:var(--bg);padding-left:0}
.sweep thead th{text-align:right;white-space:normal;min-width:5.5rem;max-width:14rem}
.sweep thead th:first-child{text-align:left;padding-left:0}
.sweep caption{font-weight:400;color:var(--muted);font-size:.867rem}
.named{list-style:none;padding:0;margin-bottom:.75rem}
.h0{background:var(--h0);color:var(--h0t);fill:var(--h0)}
.h1{background:var(--h1);color:var(--ht);fill:var(--h1)}
.h2{background:var(--h2);color:var(--ht);fill:var(--h2)}
.h3{background:var(--h3);color:var(--ht);fill:var(--h3)}
.h4{background:var(--h4);color:var(--h4t);fill:var(--h4)}
.none{background:none}
.legend{display:flex;flex-wrap:wrap;gap:.35rem;list-style:none;padding:0;margin:.2rem 0 1rem;
font-size:.8rem}
.legend li{padding:.05rem .6rem;border-radius:4px}
details{margin-top:.6rem}
summary{cursor:pointer;color:var(--accent);font-size:.933rem}
.matrix td,.matrix thead th{text-align:center;min-width:3.4rem}
.matrix td{padding:.3rem .5rem;border-radius:5px}
.bar{display:inline-block;vertical-align:-1px;width:5rem;height:.7rem;margin-left:.6rem}
.bar rect{fill:var(--h0)}.bar rect.v{fill:var(--accent)}.bar rect.over{fill:var(--fail)}
.arms tbody th{min-width:15rem}.arms tbody tr>*{vertical-align:middle}
.arms .chart{width:38%;padding:0 1.4rem}
.arms svg{display:block;width:100%;height:22px;overflow:visible}
.arms thead svg{height:16px}
.arms svg text{font-size:11px;fill:var(--muted)}
.arms .g{stroke:var(--line)}
.arms .e{stroke:var(--fail);stroke-width:2}.arms .p{fill:var(--fail)}
.arms .z{stroke:var(--pass);stroke-width:2}.arms .zp{fill:var(--bg);stroke:var(--pass);
stroke-width:2}
footer{padding-top:2rem;padding-bottom:3rem;color:var(--muted);font-size:.867rem}
footer h2{border-top:1px solid var(--line);padding-top:1.25rem;color:var(--text)}
@media(max-width:44rem){
#mutants td{white-space:nowrap}
#mutants tbody th{position:sticky;left:0;background:var(--bg);min-width:7.5rem;
overflow-wrap:anywhere}
#mutants thead th{white-space:normal}
.places tbody th{min-width:8rem;overflow-wrap:anywhere}.places .kept{white-space:normal}
.places td.mono{min-width:6.5rem;overflow-wrap:anywhere}
.sweep tbody th{white-space:normal;min-width:6.5rem;max-width:8rem}
.sweep td,.sweep thead th{padding:.28rem .5rem;text-align:left}.sweep td b{display:block}
.sweep thead th{min-width:6rem}
.columns .between{display:none}
body{font-size:14.5px}header,main,footer{padding-left:.9rem;padding-right:.9rem}h1{font-size:1.3rem}
.facts{grid-template-columns:minmax(0,1fr);gap:0}.facts dd{margin-bottom:.45rem}
.command{flex-direction:column}.command button{align-self:flex-end}
.z4 td{min-width:5.2rem;padding:.35rem .5rem}
.player{grid-template-columns:minmax(0,1fr)}
#theme{margin-left:0}
.arms,.arms tbody,.arms thead{display:block}
.arms caption{display:block}
.arms thead th{position:absolute;left:-999px}
.arms thead th.chart{position:static;display:block;border:0}
.arms tr{display:grid;grid-template-columns:minmax(0,1fr) auto;padding:.35rem 0;gap:0 .75rem;
grid-template-areas:"name rate" "count interval" "raced wrong" "chart chart"}
.arms thead tr{display:block}
.arms tbody th{grid-area:name;min-width:0}.arms .count{grid-area:count}.arms .raced{grid-area:raced}
.arms .wrong{grid-area:wrong}.arms .rate{grid-area:rate}.arms .interval{grid-area:interval}
.arms tbody tr+tr{border-top:1px solid var(--line)}
.arms tr>*{border:0!important;padding:.05rem 0}
.arms .num[data-label]::before{content:attr(data-label) " ";color:var(--muted);font-weight:400}
.arms .num[data-label]{text-align:left}
.arms .rate,.arms .interval{text-align:right}
.arms td.chart{grid-area:chart}.arms .chart{width:auto;padding:.1rem 1.2rem}
}
@media(min-width:110rem){html{font-size:19px}body{font-size:1rem}header,main,footer{max-width:94rem}
.columns text,.arms svg text{font-size:14px}svg.columns{height:190px}
.arms svg{height:26px}.arms thead svg{height:20px}
.z0 td{min-width:9px;height:9px}.z1 td{min-width:15px;height:15px}.z2 td{min-width:24px;height:24px}
.z0 tbody th,.z1 tbody th{font-size:11px}}
@media(prefers-reduced-motion:no-preference){.map td{transition:background-color .12s}}
@media print{:root:root,:root[data-theme]{color-scheme:light;--bg:#fff;--surface:#f5f6f8;
--text:#1b2027;--muted:#57606a;
--line:#d5dae0;
--accent:#0b5cad;--fail:#b3261e;--pass:#176f31;--warn:#7d5200;--mark:#fff1c9;
--h0:#eef0f3;--h1:#fdedc9;--h2:#f8cd8d;--h3:#f0975f;--h4:#b92f24;--h0t:#57606a;--ht:#1b2027;
--h4t:#fff;--text:#000;--muted:#444}
html{font-size:9.5pt}body{font-size:1rem}
nav,button,.skip,.tools,.player,[data-hint],.readout{display:none!important}
header,main,footer{max-width:none;padding:0}.scroll{overflow:visible}
.scroll.cut{-webkit-mask-image:none;mask-image:none}
.map td.at{outline:0}.sites{grid-template-columns:minmax(0,1fr)}
figure.drawn,.race,.errors{content-visibility:visible}
a,summary{color:inherit;text-decoration:none}h2,h3,h4{break-after:avoid}
.race,.finding,figure,tr,.command{break-inside:avoid}*{-webkit-print-color-adjust:exact;
print-color-adjust:exact}}
)css";

}  // namespace faultline::reports
