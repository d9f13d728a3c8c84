import { describe, expect, it } from 'vitest';
import { type Answer, ask, PROMPT } from './ask.ts';
import { type FleetWorker, type Role, VirtualFleet } from './virtual-fleet.ts';

const TOKENS = 80;
const BOTH: readonly Role[] = ['aggregated', 'aggregated'];
const SPLIT: readonly Role[] = ['prefill', 'decode'];

/** What cannot move, as a client asks for it. */
const STUCK = {
  'of several choices': () => ({ n: 2, temperature: 1 }),
  guided: () => ({ nvext: { guided_regex: '[a-z]*' } }),
  pinned: (worker: FleetWorker) => ({
    nvext: { backend_instance_id: Number(`0x${worker.worker.instanceId}`) },
  }),
} as const;

const texts = (answers: readonly (Answer | undefined)[]): (string | undefined)[] =>
  answers.map((answer) => answer?.text);

/** Asks `count` times, and lets time pass until `worker` has begun to answer and the others wait behind it. */
async function askedAt(
  fleet: VirtualFleet,
  worker: FleetWorker,
  count: number,
  more: Readonly<Record<string, unknown>> = {},
) {
  const asked = Array.from({ length: count }, () => ask(fleet, 'stream', TOKENS, true, more));
  await fleet.until(() => worker.running === count && worker.produced > 10, 'streams under way');
  return {
    async answers(): Promise<readonly (Answer | undefined)[]> {
      await fleet.until(() => asked.every(({ isOver }) => isOver), 'the answers');
      return Promise.all(asked.map(({ answer }) => answer));
    },
  };
}

async function counted(fleet: VirtualFleet, name: string): Promise<number> {
  const lines = (await fleet.metrics.render()).split('\n').filter((line) => line.startsWith(`${name}{`));
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

const moves = (fleet: VirtualFleet) => counted(fleet, 'dynamo_frontend_model_migration_total');

async function wholeText(roles: readonly Role[]): Promise<string | undefined> {
  const fleet = await VirtualFleet.open(roles);
  const asked = ask(fleet, 'stream', TOKENS);
  await fleet.until(() => asked.isOver, 'the undisturbed answer');
  return (await asked.answer)?.text;
}

describe('a worker told to stop', () => {
  it.each<[string, readonly Role[]]>([
    ['the last one', ['aggregated']],
    ['the last one that decodes', SPLIT],
  ])(
    'lets its streams end where they are when it is %s: 8 of 8 are whole, long after the grace period',
    async (_what, roles) => {
      const whole = await wholeText(roles);
      const fleet = await VirtualFleet.open(roles);
      const last = fleet.workers.at(-1)!; // there are some
      const { answers } = await askedAt(fleet, last, roles.length > 1 ? 1 : 8);
      last.stop();
      const read = await answers();
      expect(texts(read)).toEqual(read.map(() => whole));
      expect(read.map((answer) => answer?.usage)).toEqual(read.map(() => [PROMPT.length, TOKENS]));
      expect(await moves(fleet)).toBe(0);
      await fleet.until(() => last.isStopped, 'its end');
    },
  );

  it('keeps its streams for the grace period, and then has another one go on with them', async () => {
    const whole = await wholeText(['aggregated']);
    const fleet = await VirtualFleet.open(['aggregated']);
    const [first] = fleet.workers as [FleetWorker];
    const { answers } = await askedAt(fleet, first, 4);
    const second = await fleet.start('aggregated');
    first.stop();
    await fleet.clock.advance(250);
    expect([first.running, second.running]).toEqual([4, 0]);
    await fleet.until(() => first.isStopped, 'its end', 1000);
    expect(texts(await answers())).toEqual([whole, whole, whole, whole]);
    expect(await moves(fleet)).toBe(4);
  });

  it('has another one go on that comes while it drains', async () => {
    const whole = await wholeText(['aggregated']);
    const fleet = await VirtualFleet.open(['aggregated']);
    const [first] = fleet.workers as [FleetWorker];
    const { answers } = await askedAt(fleet, first, 40);
    first.stop();
    await fleet.clock.advance(2000);
    const left = first.running;
    expect(left).toBeGreaterThan(20);
    await fleet.start('aggregated');
    await fleet.until(() => first.isStopped, 'its end', 6000);
    expect(texts(await answers())).toEqual(Array.from({ length: 40 }, () => whole));
    expect(await moves(fleet)).toBeGreaterThan(0);
  });

  it('keeps them when the other one dies in that very moment', async () => {
    const whole = await wholeText(['aggregated']);
    const fleet = await VirtualFleet.open(['aggregated']);
    const [first] = fleet.workers as [FleetWorker];
    const { answers } = await askedAt(fleet, first, 4);
    const second = await fleet.start('aggregated');
    first.stop();
    await second.cutOff(); // discovery has it for as long as its lease lasts
    expect(texts(await answers())).toEqual([whole, whole, whole, whole]);
    expect(await moves(fleet)).toBe(0);
  });

  it.each(Object.keys(STUCK) as (keyof typeof STUCK)[])(
    'keeps what is %s to its end, with or without other workers',
    async (what) => {
      const fleet = await VirtualFleet.open(['aggregated']);
      const [first] = fleet.workers as [FleetWorker];
      const { answers } = await askedAt(fleet, first, 2, STUCK[what](first));
      await fleet.start('aggregated');
      first.stop();
      const read = await answers();
      expect(read.map((answer) => [answer?.status, answer?.finishReason])).toEqual(read.map(() => [200, 'length']));
      expect(await moves(fleet)).toBe(0);
    },
  );

  it('fails what is left at the limit with an error that clients retry, and counts it', async () => {
    const fleet = await VirtualFleet.open(['aggregated'], undefined, { drainLimitMs: 1500 });
    const [first] = fleet.workers as [FleetWorker];
    const asked = Array.from({ length: 6 }, () => ask(fleet, 'unary', TOKENS));
    await fleet.until(() => first.running === 6 && first.produced > 10, 'requests under way');
    first.stop();
    await fleet.until(() => first.isStopped, 'its end', 3000);
    await fleet.until(() => asked.every(({ isOver }) => isOver), 'the answers');
    const statuses = (await Promise.all(asked.map(({ answer }) => answer))).map((answer) => answer?.status);
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThan(0);
    const failed = statuses.filter((status) => status === 503).length;
    expect([failed > 0, statuses.every((status) => status === 200 || status === 503)]).toEqual([true, true]);
    expect(first.report?.failed).toBe(failed);
  });

  it('moves to the next worker what that one, told to stop as well, cannot keep', async () => {
    const whole = await wholeText(BOTH);
    const fleet = await VirtualFleet.open(['aggregated']);
    const [first] = fleet.workers as [FleetWorker];
    const { answers } = await askedAt(fleet, first, 8);
    const second = await fleet.start('aggregated');
    first.stop();
    await fleet.until(() => second.running > 0, 'streams at the second', 2000);
    second.stop(); // the last one now
    expect(texts(await answers())).toEqual(Array.from({ length: 8 }, () => whole));
    await fleet.until(() => first.isStopped && second.isStopped, 'their end');
  });
});
