import { beforeAll, describe, expect, it } from 'vitest';
import { canMeet, hasDynamo } from '../../support/dynamo/index.ts';
import { type ChatAnswer, openChat, postJson, readChat, waitUntil } from '../../support/index.ts';
import { type CellBed, LONG, SHORT, useCells, WITH_USAGE } from './bed.ts';
import {
  type CellGroup,
  FRONTENDS,
  type FrontendKind,
  GROUPS,
  NEEDS_WIRE,
  nameOfFrontend,
  nameOfGroup,
  playedOf,
  reasonNotPlayed,
  WIRE_NEEDS_TCP,
} from './cells.ts';

/** Streams at each frontend during a fault: enough that each of two workers has some of every frontend. */
const STREAMS = 4;
/** Prompts that a frontend in mode kv sends twice. */
const PROMPTS = 10;
const FAULT_MS_MAX = 120_000;
/** Whether every group is played: `npm run test:dynamo`. */
const IS_FULL = process.env.STATOR_TEST_DYNAMO === 'all';

function isPlayed(group: CellGroup): boolean {
  if (!hasDynamo() || !canMeet(group.store, group.plane) || playedOf(group).length === 0) return false;
  // Other suites run Stator's own pairs.
  return IS_FULL || (group.workers !== 'Stator' && (group.store === 'file') === (group.plane === 'tcp'));
}

const groups = GROUPS.filter(isPlayed).map((group) => [nameOfGroup(group), group] as const);

describe('the matrix of both products', () => {
  it('plays every cell but those of workers that do not take such requests', () => {
    const reasons = GROUPS.flatMap((group) => FRONTENDS.flatMap((frontend) => reasonNotPlayed(group, frontend) ?? []));
    const counts = [NEEDS_WIRE, WIRE_NEEDS_TCP].map((reason) => reasons.filter((each) => each === reason).length);
    expect({ cells: GROUPS.length * FRONTENDS.length, counts }).toEqual({ cells: 48, counts: [8, 8] });
  });
});

describe.each(groups)('%s', (_, group) => {
  const bed = useCells(group);
  const played = playedOf(group);

  describe.each(played.map((kind) => [nameOfFrontend(kind), kind] as const))('behind %s', (_name, kind) => {
    it('answer a chat, streamed and whole, with the same usage', async () => {
      const { url } = frontendOf(bed, kind);
      const streamed = await readChat(url, { ...SHORT, ...WITH_USAGE });
      expect(streamed).toMatchObject({ finishReason: 'length', error: undefined, isDone: true });
      const response = await postJson(`${url}/v1/chat/completions`, SHORT);
      expect(response.status).toBe(200);
      const whole = (await response.json()) as { readonly usage: object };
      expect(whole).toMatchObject({ choices: [{ finish_reason: 'length', message: { role: 'assistant' } }] });
      expect(usageOf(whole.usage)).toEqual(usageOf(streamed.usage));
      expect(streamed.usage).toMatchObject({ completion_tokens: SHORT.max_tokens });
    });

    if (kind.mode === 'kv')
      it('get repeated prompts where their blocks are', async () => {
        const { url } = frontendOf(bed, kind);
        const prompts = Array.from({ length: PROMPTS }, (_, at) => promptAbout(`${nameOfFrontend(kind)} ${at}`));
        for (const prompt of prompts) expect(await cachedTokens(url, prompt)).toBe(0);
        let hits = 0;
        for (const prompt of prompts) if ((await cachedTokens(url, prompt)) > 0) hits++;
        expect(hits).toBe(PROMPTS); // a router that does not know the caches finds half of them
      });

    it('hear of a client that leaves', async () => {
      const stream = await openChat(frontendOf(bed, kind).url, LONG);
      await stream.untilDeltas(3);
      expect(await bed.inflight()).toBe(1);
      stream.leave();
      await waitUntil(async () => (await bed.inflight()) === 0, { what: 'workers without requests' });
    });
  });

  describe.each([
    ['killed', 'SIGKILL'],
    ['told to stop', 'SIGTERM'],
  ] as const)('when one of them is %s', (_name, signal) => {
    let outcomes: ReadonlyMap<string, Outcome>;

    beforeAll(async () => {
      outcomes = await outcomesOf(bed, signal);
    }, FAULT_MS_MAX);

    it.each(played.map((kind) => [nameOfFrontend(kind)]))('lose no stream of %s', (name) => {
      const { answers = [], moves = 0 } = outcomes.get(name) ?? {};
      for (const answer of answers) {
        expect(answer).toMatchObject({
          finishReason: 'length',
          error: undefined,
          isDone: true,
          usage: { completion_tokens: LONG.max_tokens },
        });
      }
      expect(answers).toHaveLength(STREAMS);
      if (signal === 'SIGKILL') expect(moves).toBeGreaterThan(0); // the fault met streams of this frontend
    });
  });
});

function frontendOf(bed: CellBed, { product, mode }: FrontendKind): { readonly url: string } {
  const found = bed.frontends.find((frontend) => frontend.product === product && frontend.mode === mode);
  if (found === undefined) throw new Error(`no ${mode} frontend of ${product} is up`);
  return found;
}

/** Returns the counts of a usage that do not depend on what the cache holds. */
function usageOf(usage: object | undefined): object {
  const { prompt_tokens, completion_tokens, total_tokens } = usage as Readonly<Record<string, number>>;
  return { prompt_tokens, completion_tokens, total_tokens };
}

/** Returns how many tokens of the prompt the worker had in its cache. */
async function cachedTokens(url: string, prompt: object): Promise<number> {
  const { usage } = await readChat(url, { ...SHORT, ...WITH_USAGE, ...prompt });
  const { prompt_tokens_details: details } = usage as unknown as Usage;
  return details?.cached_tokens ?? 0;
}

interface Usage {
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
}

/** Returns a prompt of several blocks that no other test sends. */
function promptAbout(topic: string): object {
  return { messages: [{ role: 'user', content: `${topic}: ${'What if a machine stops? '.repeat(60)}` }] };
}

/** Fate of the streams of one frontend. */
interface Outcome {
  readonly answers: readonly ChatAnswer[];
  /** Streams that the frontend moved to another worker. */
  readonly moves: number;
}

/**
 * Ends a worker while streams run through every frontend. Returns what became of them, by the name of the frontend, and
 * leaves two workers up.
 */
async function outcomesOf(bed: CellBed, signal: 'SIGKILL' | 'SIGTERM'): Promise<ReadonlyMap<string, Outcome>> {
  const opened = await Promise.all(
    bed.frontends.map(async (frontend) => {
      const streams = await Promise.all(
        Array.from({ length: STREAMS }, (_, at) => openChat(frontend.url, withTopic(`stream ${at}`))),
      );
      await Promise.all(streams.map((stream) => stream.untilDeltas(3)));
      return { name: nameOfFrontend(frontend), streams, url: frontend.url, before: await movesAt(frontend.url) };
    }),
  );
  const [first] = bed.workers;
  if (first === undefined) throw new Error('no worker is up');
  const ended = bed.removeWorker(first, signal);
  const outcomes = opened.map(async ({ name, streams, url, before }): Promise<readonly [string, Outcome]> => {
    const answers = await Promise.all(streams.map(({ answer }) => answer));
    return [name, { answers, moves: (await movesAt(url)) - before }];
  });
  const all = new Map(await Promise.all(outcomes));
  await ended;
  await bed.addWorker();
  return all;
}

/** Returns how many streams a frontend has moved so far. */
async function movesAt(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith('dynamo_frontend_model_migration_total{'));
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

function withTopic(topic: string): typeof LONG & typeof WITH_USAGE {
  return { ...LONG, ...WITH_USAGE, messages: [{ role: 'user', content: `${topic}: what if a machine stops?` }] };
}
