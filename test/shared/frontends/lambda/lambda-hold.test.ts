import { Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { seededRandom, systemClock } from '../../../../shared/clock/index.ts';
import { resolveConfig } from '../../../../shared/config/index.ts';
import { MemoryDiscovery } from '../../../../shared/discovery/memory/memory-discovery.ts';
import { composeFrontend, createLambdaHandler, LAMBDA_HOLD } from '../../../../shared/frontends/index.ts';
import type { ResponsePrelude } from '../../../../shared/frontends/lambda/lambda-sink.ts';
import { captureLogger } from '../../../../shared/telemetry/log/logger.ts';
import { endpointAt, modelAt } from '../../../contract/discovery/records.ts';
import { waitUntil } from '../../../support/index.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const WORKER = 'dynamo/backend/generate/1';
const MODEL = modelAt(WORKER).card.display_name;
const LIMIT_MS = 900_000;

/** A function whose only worker has left, with one request for its model, in virtual time. */
async function holdRequest(holdSecs: number, isStream: boolean, more: Readonly<Record<string, string>> = {}) {
  const clock = new VirtualClock();
  const worker = new MemoryDiscovery({ clock: systemClock, random: seededRandom(3) });
  const records = [
    endpointAt(WORKER),
    { ...modelAt(WORKER), card: { ...modelAt(WORKER).card, model_input: 'Text' } },
  ] as const;
  for (const record of records) await worker.put(record);
  const env = { DYN_DISCOVERY_BACKEND: 'mem', STATOR_AUTH: 'off', STATOR_HOLD_TIMEOUT: String(holdSecs), ...more };
  const { settings } = resolveConfig('function', [], env);
  const { logger, lines } = captureLogger();
  const { app, flush, close, metrics } = await composeFrontend(settings, {
    clock,
    random: seededRandom(4),
    logger,
    discovery: { isLasting: false },
    followsEvents: false,
    holdBounds: LAMBDA_HOLD,
  });
  for (const record of records) await worker.remove(record);
  const written: string[] = [];
  const preludes: ResponsePrelude[] = [];
  const endedAtMs: number[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      written.push(String(chunk));
      done();
    },
    final(done) {
      endedAtMs.push(clock.nowMs());
      done();
    },
  });
  const { handler } = createLambdaHandler(async () => ({ serve: app.serve, afterRequest: flush }), {
    clock,
    openHttpStream: (underlying, prelude) => {
      preludes.push(prelude);
      return underlying;
    },
    onFailure() {},
  });
  const body = JSON.stringify({ model: MODEL, stream: isStream, messages: [{ role: 'user', content: 'Hi' }] });
  const event = {
    httpMethod: 'POST',
    path: '/v1/chat/completions',
    headers: { 'content-type': 'application/json' },
    body,
  };
  const beganMs = clock.nowMs();
  const context = {
    awsRequestId: 'r1',
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => LIMIT_MS - clock.nowMs() + beganMs,
  };
  let isDone = false;
  const done = handler(event, stream, context).finally(() => {
    isDone = true;
  });
  await waitUntil(() => lines.some((line) => JSON.stringify(line).includes('requests wait for a worker')), {
    what: 'the request to wait',
  });
  for (let secs = 0; secs < 900 && endedAtMs.length === 0; secs++) await clock.advance(1000);
  for (let secs = 0; secs < 60 && !isDone; secs++) {
    await new Promise((resolve) => setImmediate(resolve)); // a call to the table may be under way
    await clock.advance(1000); // its deadline is of this clock
  }
  await done;
  const armed = clock.pendingTimers; // the environment may be frozen now
  const noted = metrics.registry.totalsBy('stator_frontend_held_notes_total', 'outcome');
  const warned = lines.filter(({ level }) => level === 'warn').map(({ message }) => message);
  await close();
  await worker.close();
  return {
    armed,
    noted,
    warned,
    afterSecs: Math.round(((endedAtMs[0] ?? Number.NaN) - beganMs) / 1000),
    text: written.join(''),
    preludes,
  };
}

/** The gateway ends an answer that says nothing for 300 s, the service every one after 900 s. */
describe('a request that waits for a worker at the function', () => {
  it.each([
    [120, 120],
    [870, 280],
    [3600, 280],
  ])('is 503 with Retry-After where it is not streamed and --hold-timeout is %d, after %d s', async (given, after) => {
    const { afterSecs, text, preludes } = await holdRequest(given, false);
    expect(afterSecs).toBeGreaterThanOrEqual(after);
    expect(afterSecs).toBeLessThanOrEqual(after + 1);
    expect(preludes).toMatchObject([{ statusCode: 503, headers: { 'retry-after': expect.stringMatching(/^\d+$/) } }]);
    expect(text).toContain('"code":"service_unavailable"');
  });

  it.each([
    [120, 120],
    [3600, 870],
  ])(
    "ends with its dialect's error where it is streamed and --hold-timeout is %d, after %d s",
    async (given, after) => {
      const { afterSecs, text, preludes } = await holdRequest(given, true);
      expect(afterSecs).toBeGreaterThanOrEqual(after);
      expect(afterSecs).toBeLessThanOrEqual(after + 1);
      expect(preludes).toHaveLength(1);
      expect(text).toContain('"code":"service_unavailable"');
      expect(text.split('\n').filter((line) => line.startsWith(':')).length).toBeGreaterThan(after / 20); // something was heard
    },
  );

  it('waits as long, and leaves as few timers armed, if the table of the planner cannot be reached', async () => {
    const table = { STATOR_PLANNER_TABLE: 'plans', STATOR_DYNAMODB_ENDPOINT: 'http://127.0.0.1:9' };
    const [without, away] = [await holdRequest(20, true), await holdRequest(20, true, table)];
    expect(away.afterSecs).toBe(without.afterSecs);
    expect(away.armed).toBe(without.armed);
    expect(away.warned).toEqual([...without.warned, 'held requests cannot be noted for the planner']);
    expect(away.noted).toMatchObject({ written: 0, failed: expect.any(Number) });
    expect(away.noted.failed).toBeGreaterThanOrEqual(4); // every 5 s
  });
});
