import { describe, expect, it } from 'vitest';
import { type Answer, type Asked, ask, type Form, PROMPT } from './ask.ts';
import { type FleetWorker, type Role, VirtualFleet } from './virtual-fleet.ts';

/** How far a request has come when a fault befalls it. */
type Stage =
  | 'queued'
  | 'before the first token'
  | 'in prefill'
  | 'while its blocks move'
  | 'in mid-stream'
  | 'at the last token'
  | 'during a drain'
  | 'during a prefill drain';

const STAGES = [
  'queued',
  'before the first token',
  'in prefill',
  'in mid-stream',
  'at the last token',
  'during a drain',
] as const;
const SPLIT_STAGES = [...STAGES, 'while its blocks move', 'during a prefill drain'] as const;
const FORMS = ['stream', 'unary'] as const;

const FLEETS: readonly { readonly name: string; readonly roles: readonly Role[]; readonly stages: readonly Stage[] }[] =
  [
    { name: 'workers that do both', roles: ['aggregated', 'aggregated'], stages: STAGES },
    { name: 'prefill and decode workers', roles: ['prefill', 'prefill', 'decode', 'decode'], stages: SPLIT_STAGES },
  ];
const CELLS = FLEETS.flatMap(({ name, roles, stages }) =>
  stages.flatMap((stage) => FORMS.map((form) => ({ name, roles, stage, form }))),
);

/** What befalls the worker that has the request. */
const WORKER_FAULTS = {
  killed: (victim: FleetWorker) => victim.kill(),
  'told to stop': async (victim: FleetWorker) => victim.stop(),
  frozen: async (victim: FleetWorker) => victim.freeze(),
  'left by its engine': async (victim: FleetWorker) => victim.loseEngine(),
  'cut off from the network': (victim: FleetWorker) => victim.cutOff(),
} as const;

describe.each(Object.keys(WORKER_FAULTS) as (keyof typeof WORKER_FAULTS)[])('a worker that is %s', (fault) => {
  it.each(CELLS)('$stage, with $name ($form): another goes on, and the client notices nothing', async (cell) => {
    const whole = await undisturbed(cell);
    const fleet = await VirtualFleet.open(cell.roles);
    const { victim, asked } = await reach(fleet, cell.stage, cell.form);
    await WORKER_FAULTS[fault](victim);
    await fleet.until(() => asked.isOver, 'the answer');
    expect(await asked.answer).toEqual(whole);
    await expectNothingLeft(fleet, victim);
  });
});

describe('a client that leaves', () => {
  it.each(CELLS)('$stage, with $name ($form): its place is free, and no worker goes on for it', async (cell) => {
    const fleet = await VirtualFleet.open(cell.roles);
    const { victim, asked, others } = await reach(fleet, cell.stage, cell.form);
    const idle = fleet.workers.filter((worker) => worker !== victim && worker.running === 0);
    asked.leave();
    const left = others.length > 0 ? 1 : 0; // the one that keeps the victim busy
    await fleet.until(() => victim.running === left, 'the victim without the request', AT_ONCE_MS);
    for (const other of others) await fleet.until(() => other.isOver, 'the other answers');
    await fleet.until(
      () => fleet.workers.every((worker) => isIdle(worker) || worker.isStopped),
      'workers with nothing to do',
      others.length > 0 ? 60_000 : AT_ONCE_MS,
    );
    await fleet.clock.advance(5000);
    expect(idle.map(({ running }) => running)).toEqual(idle.map(() => 0)); // nobody was asked to go on
    expect(await cancellations(fleet, cell.form)).toBe(1);
  });
});

describe('a frontend that is killed', () => {
  it.each(CELLS)(
    '$stage, with $name ($form): its workers drop what no client waits for, and the next frontend answers',
    async (cell) => {
      const whole = await undisturbed(cell);
      const fleet = await VirtualFleet.open(cell.roles);
      const { asked, others } = await reach(fleet, cell.stage, cell.form);
      await fleet.replaceFrontend();
      await fleet.until(
        () => fleet.workers.every((worker) => isIdle(worker) || worker.isStopped),
        'free workers',
        AT_ONCE_MS,
      );
      expect([asked, ...others].map(({ isOver }) => isOver)).toEqual([asked, ...others].map(() => false));
      expect(await answerOf(fleet, cell.form, tokensOf(cell.stage))).toEqual(whole);
    },
  );
});

describe('a client that stops reading', () => {
  it.each(CELLS)(
    '$stage, with $name ($form): its worker is free before it reads on, and it gets everything',
    async (cell) => {
      const whole = await undisturbed(cell);
      const fleet = await VirtualFleet.open(cell.roles);
      const { victim, asked } = await reach(fleet, cell.stage, cell.form, false);
      await expectNothingLeft(fleet, victim);
      asked.read();
      await fleet.until(() => asked.isOver, 'the answer');
      expect(await asked.answer).toEqual(whole);
    },
  );
});

interface Reached {
  readonly victim: FleetWorker;
  readonly asked: Asked;
  /** Requests that only keep workers busy. */
  readonly others: readonly Asked[];
}

/** An engine ends the step that it is in. */
const AT_ONCE_MS = 1000;
const MANY_TOKENS = 80;

/** Most answers run on for a while after their first token; the last ones end with the second. */
function tokensOf(stage: Stage): number {
  return stage === 'at the last token' ? 2 : MANY_TOKENS;
}

/** Asks, and lets time pass until the request has come to `stage`. */
async function reach(fleet: VirtualFleet, stage: Stage, form: Form, isRead = true): Promise<Reached> {
  const { role: first } = fleet.workers[0]!; // there are workers
  const { role: last } = fleet.workers.at(-1)!; // as above
  const poolOf = (role: Role): readonly FleetWorker[] => fleet.workers.filter((worker) => worker.role === role);
  const others = stage === 'queued' ? poolOf(first).map(() => ask(fleet, 'unary', MANY_TOKENS)) : [];
  if (others.length > 0)
    await fleet.until(() => poolOf(first).every(({ usedBlocks }) => usedBlocks > 0), 'busy workers');
  const before = new Map(fleet.workers.map((worker) => [worker, worker.produced]));
  const asked = ask(fleet, form, tokensOf(stage), isRead);
  const signs: Readonly<Record<Stage, readonly [Role, (worker: FleetWorker) => boolean]>> = {
    queued: [first, ({ running }) => running > 1],
    'before the first token': [first, ({ running }) => running > 0],
    'in prefill': [first, ({ usedBlocks }) => usedBlocks > 0],
    'during a prefill drain': [first, ({ usedBlocks }) => usedBlocks > 0],
    'while its blocks move': [last, ({ running }) => running > 0],
    'in mid-stream': [last, (worker) => worker.produced > before.get(worker)! + 10],
    'at the last token': [last, (worker) => worker.produced > before.get(worker)!],
    'during a drain': [last, (worker) => worker.produced > before.get(worker)! + 10],
  };
  const [pool, isThere] = signs[stage];
  await fleet.until(() => poolOf(pool).some(isThere), `a request ${stage}`);
  const victim = poolOf(pool).find(isThere)!; // `until` has seen it
  if (stage === 'during a drain' || stage === 'during a prefill drain') {
    victim.stop();
    await fleet.turn();
  }
  expect(asked.isOver).toBe(false);
  return { victim, asked, others };
}

const undisturbedAnswers = new Map<string, Promise<Answer | undefined>>();

/** What a fleet of such workers answers where nothing befalls it. */
function undisturbed({ name, roles, stage, form }: (typeof CELLS)[number]): Promise<Answer | undefined> {
  const maxTokens = tokensOf(stage);
  const key = [name, form, maxTokens].join();
  const answer =
    undisturbedAnswers.get(key) ?? VirtualFleet.open(roles).then((fleet) => answerOf(fleet, form, maxTokens));
  undisturbedAnswers.set(key, answer);
  return answer;
}

async function answerOf(fleet: VirtualFleet, form: Form, maxTokens: number): Promise<Answer | undefined> {
  const asked = ask(fleet, form, maxTokens);
  await fleet.until(() => asked.isOver, 'the undisturbed answer');
  const answer = await asked.answer;
  expect(answer).toMatchObject({ status: 200, finishReason: 'length', usage: [PROMPT.length, maxTokens] });
  return answer;
}

/** No request, block or place has leaked at those that live on. */
async function expectNothingLeft(fleet: VirtualFleet, victim: FleetWorker): Promise<void> {
  const others = fleet.workers.filter((worker) => worker !== victim);
  await fleet.until(() => others.every(isIdle), 'workers with nothing to do');
}

function isIdle({ running, usedBlocks }: FleetWorker): boolean {
  return running === 0 && usedBlocks === 0;
}

/** Requests of `form` whose clients have left, as the frontend counts them. */
async function cancellations(fleet: VirtualFleet, form: Form): Promise<number> {
  const text = await fleet.metrics.render();
  const line = text
    .split('\n')
    .find(
      (each) => each.startsWith('dynamo_frontend_model_cancellation_total') && each.includes(`request_type="${form}"`),
    );
  return Number(line?.split(' ').at(-1) ?? 0);
}
