import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasSqs, openChat, readChat, useFleet, waitUntil } from '../support/index.ts';
import { hasFunctionBed, MODEL } from '../support/lambda/function-bed.ts';
import { OPTIONS, QUIET } from './story/fleet.ts';
import { Load } from './story/load.ts';
import { StoryBed } from './story/story-bed.ts';

const STEP_MS_MAX = 60_000;
const ASKED = { model: MODEL, messages: [{ role: 'user', content: 'What are you?' }] };
const STREAMS = { min: 3, max: 6 };

describe.runIf(hasFunctionBed() && hasSqs())('a fleet of GPUs that scales from zero and back', () => {
  const fleet = useFleet();
  const isWhole = expect.objectContaining({ finishReason: 'length', error: undefined, isDone: true });
  let bed: StoryBed;
  let load: Load;

  beforeAll(async () => {
    bed = await StoryBed.open(fleet);
    load = new Load(bed.url, MODEL);
  }, 240_000);
  afterAll(async () => {
    load?.pause();
    await bed?.close();
  });

  const untilInService = (workers: string): Promise<unknown> =>
    waitUntil(() => bed.inService() === workers, { what: `${workers} workers`, timeoutMs: STEP_MS_MAX });
  const moved = (): number => bed.functions.http.output().match(/request moves to another worker/g)?.length ?? 0;

  it('holds a request while there is no worker, starts one, and answers', { timeout: 120_000 }, async () => {
    expect(bed.inService()).toBe('0 + 0');
    expect(await readChat(bed.url, { ...ASKED, max_tokens: 16 })).toEqual(isWhole);
    expect(bed.inService()).toBe('1 + 0');
    expect(bed.pump.taken).toContainEqual(
      expect.objectContaining({ type: 'request.held', source: 'functions', held_count: 1 }),
    );
    load.run(QUIET);
    await waitUntil(async () => load.count > 0 && (await load.answers()), { what: 'an answer' });
    const text = await bed.ask('explain', '--last', '100');
    expect(text).toMatch(/#0 .*\n {4}decode 0 -> 1: .* and 1 wait, a worker serves 1\.6: 1 needed\n/);
    expect(text).not.toContain('#1 ');
  });

  it('takes machines of the second option for eight times the load', { timeout: 120_000 }, async () => {
    bed.scaling.account.capacity.lack({ market: 'on-demand', code: 'InsufficientInstanceCapacity' });
    bed.machines.crashesNext = true;
    load.run(QUIET * 8);
    await untilInService('1 + 1');
    const text = await bed.ask('explain', '--last', '100');
    expect(text).toMatch(/decode 1 -> 2: .* requests\/s begin.*, a worker serves 1\.6: 2 needed\n/);
  });

  it('moves the streams of a machine that Spot takes back, and replaces it', { timeout: 180_000 }, async () => {
    const [victim] = bed.scaling.instances(OPTIONS['1-spot']);
    if (victim === undefined) throw new Error('no machine of the second option');
    const machine = await bed.machines.of(victim.id);
    const long = { ...ASKED, max_tokens: 1500, ignore_eos: true };
    const streams = [await openChat(bed.url, long)];
    while (streams.length < STREAMS.min || (streams.length < STREAMS.max && !(await machine.isStreaming()))) {
      streams.push(await openChat(bed.url, long));
    }
    await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
    const isStreaming = await machine.isStreaming();
    const before = { atMs: Date.now(), moved: moved() };
    await bed.interrupt(victim.id);
    await machine.untilPhase('drained');
    expect(Date.now() - before.atMs).toBeLessThan(90_000);
    for (const { answer } of streams) expect(await answer).toEqual(isWhole);
    await bed.functions.http.idle();
    if (isStreaming) expect(moved()).toBeGreaterThan(before.moved);
    await waitUntil(() => victim.history.at(-1) === 'Terminated', { what: 'its end', timeoutMs: STEP_MS_MAX });
    const isReplaced = () => bed.scaling.instances(OPTIONS['1-spot']).some(({ state }) => state === 'InService');
    await waitUntil(isReplaced, { what: 'its replacement', timeoutMs: STEP_MS_MAX });
  });

  it('goes back to zero when the load is gone, though the planner is killed', { timeout: 240_000 }, async () => {
    load.pause();
    for (const answer of await load.answers()) expect(answer).toEqual(isWhole);
    bed.killPlanner();
    await waitUntil(() => bed.inService() === '0 + 0', { what: 'no workers', timeoutMs: 180_000 });
    expect(bed.pump.failures).toBe(1);
    const text = await bed.ask('explain', '--last', '100');
    expect(text).toMatch(/decode \d -> 0: .*, a worker serves 1\.6: 0 needed\n/);
  });

  it('has a report with its options, decisions with their reasons, and the shortage', async () => {
    const page = await bed.ask('report', '--model', MODEL, '--since', '30m');
    for (const words of ['0-on-demand', '1-spot', 'and 1 wait', 'InsufficientInstanceCapacity', 'spot-warning']) {
      expect(page).toContain(words);
    }
  });
});
