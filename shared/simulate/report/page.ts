import { escapeMarkup } from './svg.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2330; --soft: #667085; --line: #e3e6ec; --paper: #ffffff; --card: #f8f9fb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #2c3340; --paper: #12161d; --card: #191f29; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: clamp(16px, 3vw, 32px) clamp(12px, 2.5vw, 24px); font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); }
h1 { font-size: 24px; margin: 0 0 4px; }
p { color: var(--soft); margin: 0 0 16px; max-width: 80ch; overflow-wrap: anywhere; }
.verdict { color: var(--ink); font-size: 17px; }
pre { margin: 0 0 24px; padding: 10px 12px; background: var(--card); border: 1px solid var(--line); border-radius: 8px; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 16px; align-items: start; }
figure { margin: 0; min-width: 0; padding: 16px; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
svg { width: 100%; height: auto; font: 11px system-ui, sans-serif; fill: var(--soft); }
svg .title { font-size: 14px; font-weight: 600; fill: var(--ink); }
.grid { stroke: var(--line); stroke-width: 1; }
table { border-collapse: collapse; margin: 0 0 24px; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
@media (max-width: 600px) {
  figure { padding: 10px; }
  svg { font-size: 15px; }
  svg .title { font-size: 18px; }
  thead th:first-child, tbody td:first-child { position: sticky; left: 0; background: var(--paper); max-width: 45vw; white-space: normal; }
  th, td { padding: 6px 8px; }
}
th, td { padding: 6px 9px; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
th { color: var(--soft); font-weight: 500; }
th[scope=row] { color: var(--ink); }
td.text, th.text { text-align: left; white-space: normal; min-width: 22ch; max-width: 60ch; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 28px 0 8px; }
figcaption { display: flex; flex-wrap: wrap; gap: 4px 16px; font-size: 13px; color: var(--soft); }
figcaption svg.stroke { width: 28px; height: 10px; margin-right: 8px; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(210px, 100%), 1fr)); gap: 10px 20px; margin: 0 0 20px; }
.facts dt { color: var(--soft); font-size: 13px; }
.facts dd { margin: 0; overflow-wrap: anywhere; }
.decided { stroke: var(--ink); stroke-width: 1.4; fill: none; }
.trouble { stroke: #d43f52; stroke-width: 1.6; fill: none; }
@media print {
  :root { color-scheme: light; --ink: #1d2330; --soft: #667085; --line: #e3e6ec; --paper: #ffffff; --card: #ffffff; }
  body { max-width: none; padding: 0; font-size: 12px; print-color-adjust: exact; }
  .charts { grid-template-columns: 1fr 1fr; }
  figure, tr { break-inside: avoid; }
  .wide { overflow: visible; }
  table { font-size: 10px; }
  th, td { white-space: normal; padding: 3px 5px; }
  tbody th { white-space: nowrap; }
}
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 8px; }
`;

export interface PageParts {
  readonly title: string;
  /** Markup. */
  readonly body: string;
}

/** Renders a self-contained page: no script, no font, nothing to load. */
export function renderPage({ title, body }: PageParts): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeMarkup(title)}</title><style>${STYLE}</style></head>
<body><h1>${escapeMarkup(title)}</h1>
${body}</body></html>
`;
}
