import type { DecisionRecord, FleetSample } from '../../../shared/planner/index.ts';
import type { EndedSample, FleetStory } from '../../../shared/simulate/index.ts';

/** End of the story: a fixed time, so that a page of it is always the same. */
export const UNTIL_MS = Date.UTC(2027, 0, 15, 12);
const MINUTE_MS = 60_000;
const MINUTES = 180;

/** A minute of a fleet, in which nothing happened beyond `parts`. */
export function sampleOf(parts: Partial<FleetSample> = {}): FleetSample {
  return {
    seconds: 60,
    knownSeconds: 60,
    started: 0,
    inputTokens: 0,
    outputTokens: 0,
    ttft: { count: 0, sumMs: 0, met: 0, targetMs: 500 },
    itl: { count: 0, sumMs: 0, met: 0, targetMs: 50 },
    heldMax: 0,
    heldSeconds: 0,
    runningSeconds: 0,
    targets: { decode: 1 },
    options: {},
    events: [],
    eventsLeftOut: 0,
    ...parts,
  };
}

export function decisionOf(decisionId: number, atMs: number, parts: Partial<DecisionRecord> = {}): DecisionRecord {
  return {
    decisionId,
    status: 'APPLIED',
    targets: { decode: 2 },
    previous: { decode: 1 },
    reason: 'decode 1 -> 2: 12.4 requests/s begin, a worker serves 10.0: 2 needed',
    isAdvisory: false,
    configHash: 'abc',
    decidedAtMs: atMs,
    figures: {},
    ...parts,
  };
}

/**
 * Three hours of a fleet with two options: at 50 minutes its demand grows, on-demand machines are not to be had, spot
 * machines start instead, and EC2 takes one of them back. For ten minutes no planner runs.
 */
export function toldStory(): FleetStory {
  const fromMs = UNTIL_MS - MINUTES * MINUTE_MS;
  const samples: EndedSample[] = [];
  for (let minute = 1; minute <= MINUTES; minute++) {
    const atMs = fromMs + minute * MINUTE_MS;
    if (minute > 120 && minute <= 130) continue;
    samples.push({ atMs, sample: minuteOf(minute, atMs) });
  }
  const at = (minute: number): number => fromMs + minute * MINUTE_MS;
  const decisions = [
    decisionOf(3, at(150), {
      previous: { decode: 5 },
      targets: { decode: 2 },
      reason: 'decode 5 -> 2: 14.0 requests/s',
    }),
    decisionOf(2, at(101), { previous: { decode: 5 }, targets: { decode: 5 }, reason: 'decode 5 -> 5: 1 leaves' }),
    decisionOf(1, at(51), {
      status: 'STALLED',
      previous: { decode: 1 },
      targets: { decode: 5 },
      reason: 'decode 1 -> 5: 41.3 requests/s begin, a worker serves 10.0: 5 needed',
      code: 'InsufficientInstanceCapacity',
      option: '0-on-demand',
      problem: 'decode: 4 of 5 workers are missing, and no option has room',
    }),
  ];
  return { namespace: 'ns', model: 'Qwen/Qwen3-32B', fromMs, untilMs: UNTIL_MS, samples, decisions, prices, notes: [] };
}

const prices = { byOption: { '0-on-demand': 4.1, '1-spot': 1.6 } };

function minuteOf(minute: number, atMs: number): FleetSample {
  const rate = minute < 50 ? 8 : minute < 150 ? 42 : 14;
  const spot = minute < 58 || minute >= 153 ? (minute >= 153 ? 1 : 0) : minute >= 102 && minute < 106 ? 3 : 4;
  const isShort = minute >= 50 && minute < 58;
  const starting = minute >= 54 && minute < 58 ? 4 : 0;
  const started = 60 * rate;
  return sampleOf({
    started,
    inputTokens: started * 1000,
    outputTokens: started * 180,
    ttft: {
      count: started,
      sumMs: started * (isShort ? 900 : 210),
      met: isShort ? 0.3 * started : started,
      targetMs: 500,
    },
    itl: { count: started * 179, sumMs: started * 179 * (isShort ? 55 : 31), met: started * 179, targetMs: 50 },
    heldMax: isShort ? 37 : 0,
    heldSeconds: isShort ? 900 : 0,
    runningSeconds: 60 * rate * 5,
    targets: { decode: minute < 51 ? 1 : minute < 150 ? 5 : 2 },
    options: {
      'decode/0-on-demand': {
        workers: { serving: 60, ...(isShort && minute >= 51 && minute < 54 ? { capacity: 240 } : {}) },
        gpuSeconds: 120,
        ...(isShort ? { failing: 'InsufficientInstanceCapacity' } : {}),
      },
      'decode/1-spot': {
        workers: {
          ...(spot > 0 ? { serving: 60 * spot } : {}),
          ...(starting > 0 ? startingIn(minute, 60 * starting) : {}),
          ...(minute === 102 ? { draining: 60 } : {}),
        },
        gpuSeconds: 120 * (spot + starting),
      },
    },
    ...(minute === 57 ? { starts: { count: 4, seconds: { boot: 160, image: 244, weights: 200, engine: 120 } } } : {}),
    events: eventsAt(minute, atMs),
  });
}

function startingIn(minute: number, seconds: number) {
  const phase = (['boot', 'image', 'weights', 'engine'] as const)[minute - 54] ?? 'register';
  return { [phase]: seconds };
}

function eventsAt(minute: number, atMs: number): FleetSample['events'] {
  if (minute === 52) {
    const about = 'InsufficientInstanceCapacity: g6e.12xlarge in us-east-1b';
    return [{ atMs: atMs - 20_000, kind: 'launch-failed', pool: 'decode', about }];
  }
  if (minute !== 101) return [];
  const deadlineMs = atMs + 100_000;
  return [{ atMs: atMs - 20_000, kind: 'spot-warning', pool: 'decode', instance: 'i-0abc', deadlineMs }];
}
