import { type Estimate, LEFT_OUT } from './estimate.ts';
import { HOURS, type PricedPart, sumDollars } from './prices.ts';
import type { Worst } from './worst.ts';

/** Held requests in the example: as many as a container edge holds of a model (`--hold-max`). */
const HELD = 256;

/** Returns an estimate as the command prints it. */
export function renderEstimate(estimate: Estimate): string {
  const { idle, load, worst, held, streamsForContainers, unpriced } = estimate;
  const always = sumDollars(idle);
  const parts = [
    line('US$ a month, us-east-1', 'number', 'a month'),
    ...idle.map(monthly),
    line('idle', '', always.toFixed(2)),
    '',
    ...load.map(monthly),
    line('idle and load', '', (always + sumDollars(load)).toFixed(2)),
    '',
    line('US$ with every ceiling reached', 'number', 'a month', 'an hour'),
    hourly({ name: 'idle', dollars: always }),
    ...worst.parts.map(hourly),
    ...worstSums(worst, always),
    '',
  ];
  if (held !== undefined)
    parts.push(
      `A request that waits ${held.secs} s for a worker costs ${held.dollars.toFixed(4)} at the function, as one that is answered for as long. ${HELD} of them cost ${(HELD * held.dollars).toFixed(2)}; a container edge holds them in its memory.`,
    );
  if (streamsForContainers !== undefined)
    parts.push(
      `From ${streamsForContainers.toFixed(1)} streams at a time on, day and night, two container edges with a load balancer cost less than the function.`,
    );
  if (unpriced.length > 0)
    parts.push(
      `Machines of ${unpriced.join(', ')} count as nothing: their price is not known. instanceTypes in the settings takes it.`,
    );
  return [...parts, '', 'Not in it:', ...LEFT_OUT.map((text) => `- ${text}`), ''].join('\n');
}

/** Returns the function's share and the sum, for each number of streams that the function may have. */
function worstSums({ parts, functions }: Worst, always: number): readonly string[] {
  const rest = always + sumDollars(parts);
  if (functions.length === 0) return [hourly({ name: 'the worst', dollars: rest })];
  return functions.flatMap(({ streams, part }) => [
    hourly(part),
    hourly({ name: `the worst, with ${streams} streams at the function`, dollars: rest + part.dollars }),
  ]);
}

function monthly({ name, count, dollars }: PricedPart): string {
  return line(name, shorten(count), dollars.toFixed(2));
}

function hourly({ name, count, dollars }: Pick<PricedPart, 'name' | 'dollars'> & Partial<PricedPart>): string {
  const number = count === undefined ? '' : shorten(count);
  return line(name, number, dollars.toFixed(2), (dollars / HOURS).toFixed(2));
}

function shorten(count: number): string {
  return Number.isInteger(count) || count >= 100 ? String(Math.round(count)) : count.toFixed(1);
}

function line(name: string, ...columns: readonly string[]): string {
  return `${name.padEnd(50)}${columns.map((text) => text.padStart(12)).join('')}`;
}
