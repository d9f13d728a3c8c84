import type { Exchange } from './exchange.ts';
import type { Body } from './fields.ts';
import { objectsOf, walk } from './identities.ts';
import type { Answer } from './records.ts';

/** Tolerance, because times in whole seconds lose up to a second. Client and server have the same clock. */
const SLACK_MS = 1000;

/** Finds the fields of an answer whose time is not a time, or is impossible. */
export function timeFaults(exchange: Exchange, answer: Answer): readonly string[] {
  const faults: string[] = [];
  const moments = new Set<unknown>();
  walk(objectsOf(answer), (object) => {
    for (const key of ['created', 'created_at', 'completed_at']) {
      const time = object[key];
      if (time === undefined || (time === null && key === 'completed_at')) continue;
      const isModel = object.object === 'model' || object.type === 'model';
      if (!isModel && key === 'created') moments.add(time);
      if (!isPlausible(time, isModel, exchange)) faults.push(`${key} ${JSON.stringify(time)}`);
    }
    if (Number(object.completed_at ?? object.created_at) < Number(object.created_at))
      faults.push('ends before it began');
    if (object.timing !== undefined) faults.push(...timingFaults(object.timing as Body, exchange));
  });
  if (moments.size > 1) faults.push(`created at ${[...moments].join(' and ')}`);
  return faults;
}

/** Whether a time is possible: models existed before the request, and everything else was made during it. */
function isPlausible(time: unknown, isModel: boolean, exchange: Exchange): boolean {
  const fromMs = isModel ? exchange.serverStartedMs : exchange.startedMs;
  const isText = typeof time === 'string' && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(time);
  const ms = isText ? Date.parse(time) : Number.isInteger(time) ? Number(time) * 1000 : Number.NaN;
  return ms >= fromMs - SLACK_MS && ms <= exchange.endedMs + SLACK_MS;
}

const DURATIONS = ['prefill_wait_time_ms', 'prefill_time_ms', 'ttft_ms', 'total_time_ms'] as const;

function timingFaults(timing: Body, { startedMs, endedMs }: Exchange): string[] {
  const faults: string[] = [];
  const received = Number.isInteger(timing.request_received_ms) ? Number(timing.request_received_ms) : Number.NaN;
  if (!(received >= startedMs - SLACK_MS && received <= endedMs + SLACK_MS)) faults.push('request_received_ms');
  const took = endedMs - startedMs + SLACK_MS;
  for (const key of DURATIONS) {
    const value = timing[key];
    if (typeof value !== 'number' || !(value >= 0 && value <= took)) faults.push(`${key} ${JSON.stringify(value)}`);
  }
  const { prefill_wait_time_ms: wait, prefill_time_ms: prefill, ttft_ms: ttft, total_time_ms: total } = timing;
  const isInOrder = Math.abs(Number(wait) + Number(prefill) - Number(ttft)) < 1 && Number(ttft) <= Number(total);
  if (!isInOrder) faults.push(`times out of order: ${JSON.stringify(timing)}`);
  return faults;
}
