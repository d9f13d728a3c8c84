import { beforeEach, describe, expect, it } from 'vitest';
import { endpointAt } from '../../contract/discovery/records.ts';
import { type BedProcess, FleetBed } from './fleet-bed.ts';

const FUNCTION = { isLasting: false } as const;
/** As a function asks for it, with each request. */
const KNOWN_MS_MAX = 1000;
const FIRST = 'dynamo/backend/generate/1';
const SECOND = 'dynamo/backend/generate/2';

let bed: FleetBed;
let worker: BedProcess;
let reader: BedProcess;

beforeEach(async () => {
  bed = new FleetBed();
  worker = await bed.follow();
  await worker.discovery.put(endpointAt(FIRST));
  await bed.pass(3000);
  reader = await bed.follow(FUNCTION);
  expect(reader.witness.keys).toEqual([FIRST]);
  await bed.pass(3000); // what it knows is older than what a request asks for
});

/** Time that a request waits for the view. */
async function waitOfRequest(withinMs = 2000): Promise<number> {
  const beganMs = bed.clock.nowMs();
  let endedMs: number | undefined;
  void reader.discovery.refresh(KNOWN_MS_MAX).then(() => {
    endedMs = bed.clock.nowMs();
  });
  for (let passed = 0; passed < withinMs && endedMs === undefined; passed += 5) await bed.clock.advance(5);
  return (endedMs ?? Number.NaN) - beganMs;
}

describe('a function whose table answers', () => {
  it('has what is new before its request goes on', async () => {
    await worker.discovery.put(endpointAt(SECOND));
    await bed.pass(3000);
    expect(await waitOfRequest()).toBeLessThanOrEqual(5);
    expect(reader.witness.keys).toEqual([FIRST, SECOND]);
  });
});

describe('a function whose table is slow', () => {
  it.each([150, 500, 1400])('waits 100 ms and reads on behind the request, at %d ms a call', async (delayMs) => {
    await worker.discovery.put(endpointAt(SECOND));
    await bed.pass(3000);
    reader.client.delay(delayMs);
    expect(await waitOfRequest()).toBeLessThanOrEqual(105);
    expect(reader.witness.keys).toEqual([FIRST]);
    await bed.pass(2 * delayMs + 100, 50); // the request is served meanwhile
    expect(reader.witness.keys).toEqual([FIRST, SECOND]);
    expect(reader.witness.outages).toEqual([]);
  });

  it('ends a reading that takes longer than its requests', async () => {
    await worker.discovery.put(endpointAt(SECOND));
    await bed.pass(3000);
    reader.client.delay(1400);
    const waits: number[] = [];
    for (let request = 0; request < 8; request++) {
      waits.push(await waitOfRequest());
      await bed.pass(400, 50);
    }
    expect(Math.max(...waits)).toBeLessThanOrEqual(105);
    expect(reader.witness.keys).toEqual([FIRST, SECOND]);
  });

  it('waits as long as it may for what is older than a minute', async () => {
    await bed.pass(61_000, 1000);
    reader.client.delay(300);
    expect(await waitOfRequest()).toBeGreaterThanOrEqual(300);
  });
});

describe.each([
  ['refuses', (down: boolean) => reader.client.cut(down)],
  ['never answers', (down: boolean) => reader.client.hang(down)],
] as const)('a function whose table %s', (_name, setDown) => {
  it('waits 100 ms at most while its view is younger than a minute, and not at all after a failure', async () => {
    setDown(true);
    const waits: number[] = [];
    for (let request = 0; request < 100; request++) {
      waits.push(await waitOfRequest());
      await bed.pass(500, 50);
    }
    expect(Math.max(...waits)).toBeLessThanOrEqual(105);
    expect(waits.slice(10).filter((ms) => ms > 5)).toEqual([]); // each try that fails keeps the next ones from waiting
    expect(reader.witness.keys).toEqual([FIRST]);
    expect(reader.witness.outages.length).toBe(1);
  });

  it('waits seldom, and a second at most, for what is older than a minute', async () => {
    setDown(true);
    await bed.pass(70_000, 1000);
    const waits: number[] = [];
    for (let request = 0; request < 60; request++) {
      waits.push(await waitOfRequest());
      await bed.pass(500, 50);
    }
    expect(Math.max(...waits)).toBeLessThanOrEqual(1005);
    expect(waits.filter((ms) => ms > 5).length).toBeLessThanOrEqual(2);
    expect(reader.witness.keys).toEqual([FIRST]);
  });

  it('sees the fleet as it is with the first request after the table is back', async () => {
    setDown(true);
    for (let request = 0; request < 10; request++) {
      await waitOfRequest();
      await bed.pass(500, 50);
    }
    await worker.discovery.put(endpointAt(SECOND));
    await bed.pass(3000);
    setDown(false);
    await waitOfRequest();
    await bed.pass(2500, 50); // a try that hangs ends first
    await waitOfRequest();
    await bed.pass(100, 50);
    expect(reader.witness.keys).toEqual([FIRST, SECOND]);
    expect(reader.witness.outages).toEqual([expect.stringMatching(/^failing/), 'recovered']);
  });

  it('begins cold with a failure within three seconds', async () => {
    const cold = bed.open(FUNCTION);
    if (_name === 'refuses') cold.client.cut(true);
    else cold.client.hang(true);
    const beganMs = bed.clock.nowMs();
    let failure: Error | undefined;
    cold.discovery.watch({ bucket: 'v1/instances', prefix: '' }, cold.witness).catch((thrown: Error) => {
      failure = thrown;
    });
    while (failure === undefined && bed.clock.nowMs() - beganMs < 20_000) await bed.clock.advance(10);
    expect(failure?.message).toMatch(/^[^\n]+$/);
    expect(bed.clock.nowMs() - beganMs).toBeLessThanOrEqual(3000);
  });
});

describe('a function that was frozen in the middle of a reading', () => {
  it('serves on at once, and reads anew', async () => {
    reader.client.delay(500);
    await waitOfRequest();
    reader.client.delay(0);
    reader.freeze();
    await worker.discovery.put(endpointAt(SECOND));
    await bed.pass(20_000, 500);
    reader.thaw();
    expect(await waitOfRequest()).toBeLessThanOrEqual(105);
    expect(reader.witness.keys).toEqual([FIRST, SECOND]);
    expect(reader.witness.outages).toEqual([]);
  });
});

describe('a process that lasts', () => {
  it('waits for what it asks for, as before', async () => {
    const lasting = await bed.follow({ pollMs: 60_000 });
    await bed.pass(3000);
    lasting.client.delay(400);
    const beganMs = bed.clock.nowMs();
    let isOver = false;
    void lasting.discovery.refresh(KNOWN_MS_MAX).then(() => {
      isOver = true;
    });
    while (!isOver) await bed.clock.advance(10);
    expect(bed.clock.nowMs() - beganMs).toBeGreaterThanOrEqual(400);
  });
});
