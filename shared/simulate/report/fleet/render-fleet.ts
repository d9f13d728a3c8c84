import type { FleetSample } from '../../../planner/index.ts';
import { renderPage } from '../page.ts';
import { escapeMarkup } from '../svg.ts';
import { fleetCharts } from './charts.ts';
import { eventsOf, type FleetStory, meanMs, percentMet, priceOf, totalOf } from './fleet-story.ts';
import { fleetTables, stamp } from './tables.ts';

/** Renders what happened in a fleet as a self-contained page: no script, no font, nothing to load. */
export function renderFleet(story: FleetStory): string {
  const { model, namespace, fromMs, untilMs, notes } = story;
  const total = totalOf(story);
  const charts = total === undefined ? '' : `<div class="charts">${fleetCharts(story).join('\n')}</div>`;
  const key =
    total === undefined
      ? ''
      : '<p>A dash below an axis is a decision, and a cross above a chart an interruption or a failed launch.</p>';
  const body = `<p class="verdict">${escapeMarkup(verdictOf(story, total))}</p>
<p>${escapeMarkup(`Namespace ${namespace} · ${stamp(fromMs)} to ${stamp(untilMs)} UTC`)}</p>
${notes.map((note) => `<p>${escapeMarkup(note)}</p>`).join('\n')}
${total === undefined ? '' : factList(factsOf(story, total))}
${charts}
${key}
${fleetTables(story, total)}`;
  return renderPage({ title: `Fleet of ${model}`, body });
}

function verdictOf({ decisions }: FleetStory, total: FleetSample | undefined): string {
  const [newest] = decisions;
  const trouble = newest?.problem === undefined ? '' : ` Now: ${newest.problem}.`;
  if (total === undefined) return `Nothing of this fleet was recorded in this time.${trouble}`;
  const met = percentMet(total.ttft);
  const requests = `${grouped(total.started)} requests began`;
  const targets = met === undefined ? '' : `, and ${met.toFixed(1)} % had their first token within the target`;
  return `${requests}${targets}.${trouble}`;
}

/** Returns a whole number with commas: `12,000`. */
function grouped(value: number): string {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, ',');
}

type Fact = readonly [name: string, value: string];

function factsOf(story: FleetStory, total: FleetSample): readonly Fact[] {
  const { started, seconds, knownSeconds, inputTokens, outputTokens, heldMax, ttft, itl, options } = total;
  const hours = Object.values(options).reduce((sum, { gpuSeconds }) => sum + gpuSeconds, 0) / 3600;
  const { events, leftOut } = eventsOf(story);
  const failed = events.filter(({ kind }) => kind === 'launch-failed').length;
  const rate = (count: number, digits: number): string =>
    knownSeconds > 0 ? (count / knownSeconds).toFixed(digits) : 'unknown';
  const ended = events.length - failed + leftOut;
  return [
    ['requests', `${grouped(started)} (${rate(started, 2)} a second)`],
    ['tokens a second', `${rate(inputTokens, 0)} of prompts, ${rate(outputTokens, 0)} of answers`],
    ['held at once', `at most ${heldMax}`],
    ['first token', latencyText(ttft, 0)],
    ['between tokens', latencyText(itl, 1)],
    ['GPU hours', hours.toFixed(2)],
    ...dollarsOf(story, total),
    ['decisions', String(story.decisions.length)],
    ['interruptions', String(ended)],
    ['failed launches', String(failed)],
    ['recorded', `${(100 * Math.min(1, (1000 * seconds) / (story.untilMs - story.fromMs))).toFixed(0)} % of the time`],
  ];
}

function latencyText(latency: FleetSample['ttft'], digits: number): string {
  const { targetMs } = latency;
  const [mean, met] = [meanMs(latency), percentMet(latency)];
  if (mean === undefined || met === undefined) return `not measured, target ${targetMs} ms`;
  return `mean ${mean.toFixed(digits)} ms, target ${targetMs} ms met by ${met.toFixed(1)} %`;
}

function dollarsOf({ prices }: FleetStory, { options }: FleetSample): readonly Fact[] {
  const priced = Object.entries(options).map(([key, { gpuSeconds }]) => {
    return { key, hours: gpuSeconds / 3600, price: priceOf(prices, key) };
  });
  const known = priced.filter(({ price }) => price !== undefined);
  if (known.length === 0) return [];
  const dollars = known.reduce((sum, { hours, price = 0 }) => sum + hours * price, 0);
  const missing = priced.filter(({ price, hours }) => price === undefined && hours > 0).map(({ key }) => key);
  return [['US$', `${dollars.toFixed(2)}${missing.length === 0 ? '' : `, without ${missing.join(', ')}`}`]];
}

function factList(facts: readonly Fact[]): string {
  const entries = facts.map(
    ([name, value]) => `<div><dt>${escapeMarkup(name)}</dt><dd>${escapeMarkup(value)}</dd></div>`,
  );
  return `<dl class="facts">${entries.join('')}</dl>`;
}
