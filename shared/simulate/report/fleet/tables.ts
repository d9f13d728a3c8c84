import {
  type DecisionRecord,
  type FleetSample,
  outcomeLines,
  STATUS_WORDS,
  WORKER_PHASES,
} from '../../../planner/index.ts';
import { START_PHASES } from '../../../protocol/index.ts';
import { escapeMarkup } from '../svg.ts';
import { binsOf } from './bins.ts';
import { eventsOf, type FleetStory, meanMs, optionsOf, percentMet, priceOf } from './fleet-story.ts';

/** Rows of the table over time, and of decisions and events. */
const ROWS_MAX = 24;
const LISTED_MAX = 500;

/** Returns the tables of a story: options, decisions, events, and the numbers over time. */
export function fleetTables(story: FleetStory, total: FleetSample | undefined): string {
  return [
    ...(total === undefined ? [] : [optionTable(story, total), startTable(total)]),
    decisionTable(story.decisions),
    eventTable(story),
    ...(total === undefined ? [] : [overTime(story)]),
  ].join('\n');
}

interface Column {
  readonly head: string;
  /** Whether its cells are sentences, which wrap. */
  readonly isText?: boolean;
}

function table(title: string, columns: readonly Column[], rows: readonly (readonly string[])[], note = ''): string {
  const styleOf = (column: Column | undefined): string => (column?.isText === true ? ' class="text"' : '');
  const head = columns.map((each) => `<th scope="col"${styleOf(each)}>${escapeMarkup(each.head)}</th>`).join('');
  const body = rows.map((cells) => {
    const [first = '', ...rest] = cells.map((cell, at) => {
      const name = at === 0 ? 'th scope="row"' : 'td';
      return `<${name}${styleOf(columns[at])}>${escapeMarkup(cell)}</${at === 0 ? 'th' : 'td'}>`;
    });
    return `<tr>${first}${rest.join('')}</tr>`;
  });
  const region = `class="wide" role="region" tabindex="0" aria-label="${escapeMarkup(title)}"`;
  const grid = `<div ${region}><table><thead><tr>${head}</tr></thead><tbody>${body.join('')}</tbody></table></div>`;
  const text = note === '' ? '' : `<p>${escapeMarkup(note)}</p>`;
  return `<section><h2>${escapeMarkup(title)}</h2>${text}${rows.length === 0 ? '' : grid}</section>`;
}

function optionTable(story: FleetStory, total: FleetSample): string {
  const keys = optionsOf(story.samples);
  const phases = WORKER_PHASES.filter((phase) => keys.some((key) => (total.options[key]?.workers[phase] ?? 0) > 0));
  const hasPrices = keys.some((key) => priceOf(story.prices, key) !== undefined);
  const columns = [
    { head: 'option' },
    ...phases.map((phase) => ({ head: `${phase}, worker h` })),
    { head: 'GPU h' },
    ...(hasPrices ? [{ head: 'US$' }] : []),
    { head: 'last failed launch', isText: true },
  ];
  const rows = keys.map((key) => {
    const { workers = {}, gpuSeconds = 0, failing = '' } = total.options[key] ?? {};
    const hours = gpuSeconds / 3600;
    const price = priceOf(story.prices, key);
    return [
      key,
      ...phases.map((phase) => ((workers[phase] ?? 0) / 3600).toFixed(2)),
      hours.toFixed(2),
      ...(hasPrices ? [price === undefined ? 'unknown' : (price * hours).toFixed(2)] : []),
      failing,
    ];
  });
  return table('Capacity options', columns, rows);
}

/** Returns how long the starts took by phase; nothing if no machine has told of one. */
function startTable({ starts }: FleetSample): string {
  if (starts === undefined) return '';
  const known = START_PHASES.filter((phase) => starts.seconds[phase] !== undefined);
  const columns = [{ head: 'starts' }, ...known.map((phase) => ({ head: `${phase}, s` })), { head: 'all, s' }];
  const means = known.map((phase) => (starts.seconds[phase] ?? 0) / starts.count);
  const all = means.reduce((total, each) => total + each, 0);
  const row = [String(Math.round(starts.count)), ...[...means, all].map((seconds) => seconds.toFixed(0))];
  return table('Starts of machines', columns, [row], 'Mean seconds of each phase, of the starts that ended well.');
}

function decisionTable(decisions: readonly DecisionRecord[]): string {
  const columns = [
    { head: 'decision' },
    { head: 'time (UTC)' },
    { head: 'workers' },
    { head: 'reason', isText: true },
    { head: 'outcome', isText: true },
  ];
  const rows = decisions.slice(0, LISTED_MAX).map((decision) => {
    const { decisionId, decidedAtMs, status, reason, problem, previous, targets } = decision;
    const outcome = [STATUS_WORDS[status], ...(problem === undefined ? [] : [problem]), ...outcomeLines(decision)];
    return [`#${decisionId}`, stamp(decidedAtMs), changeOf(previous, targets), reason, outcome.join('; ')];
  });
  const none = decisions.length === 0 ? 'No decision in this time.' : '';
  return table('Decisions', columns, rows, none || leftOut(decisions.length));
}

function changeOf(previous: DecisionRecord['targets'], targets: DecisionRecord['targets']): string {
  const pools = Object.entries(targets) as [keyof DecisionRecord['targets'], number][];
  return pools
    .filter(([pool, target]) => target !== 0 || (previous[pool] ?? 0) !== 0)
    .map(([pool, target]) => `${pool} ${previous[pool] ?? 0} → ${target}`)
    .join(', ');
}

function eventTable(story: FleetStory): string {
  const { events, leftOut: unlisted } = eventsOf(story);
  const columns = [
    { head: 'time (UTC)' },
    { head: 'what' },
    { head: 'pool' },
    { head: 'machine' },
    { head: 'ends (UTC)' },
    { head: 'about', isText: true },
  ];
  const rows = events.slice(0, LISTED_MAX).map(({ atMs, kind, pool, instance = '', deadlineMs, about = '' }) => {
    return [stamp(atMs), kind, pool, instance, deadlineMs === undefined ? '' : stamp(deadlineMs), about];
  });
  const missing = unlisted === 0 ? '' : `${unlisted} further events in the same minutes were only counted. `;
  const note = events.length === 0 ? 'None in this time.' : `${missing}${leftOut(events.length)}`.trim();
  return table('Interruptions and failed launches', columns, rows, note);
}

function leftOut(count: number): string {
  return count <= LISTED_MAX ? '' : `The last ${LISTED_MAX} of ${count}.`;
}

function overTime({ samples, fromMs, untilMs }: FleetStory): string {
  const bins = binsOf(samples, fromMs, untilMs, ROWS_MAX);
  const columns = [
    'from (UTC)',
    'requests/s',
    'prompt tokens/s',
    'answer tokens/s',
    'held, at most',
    'decided',
    'serving',
    'first token, ms',
    'between tokens, ms',
    'first token met, %',
    'between tokens met, %',
    'GPUs',
  ].map((head) => ({ head }));
  const rows = bins.samples.map((sample, at) => [stamp(fromMs + at * bins.binMs), ...numbersOf(sample)]);
  return table('Over time', columns, rows, 'Means of each time, unless a column says otherwise.');
}

function numbersOf(sample: FleetSample | undefined): readonly string[] {
  if (sample === undefined) return Array.from({ length: 11 }, () => '–');
  const { seconds, knownSeconds, started, inputTokens, outputTokens, heldMax, targets, ttft, itl, options } = sample;
  const sum = (values: readonly number[]): number => values.reduce((total, each) => total + each, 0);
  const known = (value: number): number | undefined => (knownSeconds > 0 ? value / knownSeconds : undefined);
  return [
    shown(known(started), 2),
    shown(known(inputTokens), 0),
    shown(known(outputTokens), 0),
    String(heldMax),
    String(sum(Object.values(targets))),
    shown(sum(Object.values(options).map(({ workers }) => workers.serving ?? 0)) / seconds, 1),
    shown(meanMs(ttft), 0),
    shown(meanMs(itl), 1),
    shown(percentMet(ttft), 1),
    shown(percentMet(itl), 1),
    shown(sum(Object.values(options).map(({ gpuSeconds }) => gpuSeconds)) / seconds, 1),
  ];
}

function shown(value: number | undefined, digits: number): string {
  return value === undefined ? '–' : value.toFixed(digits);
}

/** Returns a time of UTC to the second. */
export function stamp(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 19).replace('T', ' ');
}
