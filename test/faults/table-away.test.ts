import { describe, expect, it } from 'vitest';
import { type Clock, seededRandom } from '../../shared/clock/index.ts';
import { DynamoDbDiscovery } from '../../shared/discovery/dynamodb/dynamodb-discovery.ts';
import { type Discovery, TableTime } from '../../shared/discovery/index.ts';
import { Witness } from '../contract/discovery/records.ts';
import { MemoryTable, type MemoryTableClient } from '../support/memory-table.ts';
import type { VirtualClock } from '../support/virtual-clock.ts';
import { type Asked, ask, PROMPT } from './ask.ts';
import { VirtualFleet } from './virtual-fleet.ts';

/** Three times what a lease lives without being renewed. */
const AWAY_MS = 30_000;
const REQUESTS = 300;
/** Enough for the bursts of 300 random moments: each serves one request at a time, a third of a second long. */
const WORKERS = 8;
const TOKENS = 2;
const SERVED = { status: 200, finishReason: 'length', usage: [PROMPT.length, TOKENS] };

/** A table that all processes of a fleet know each other by, and that can be away for all of them. */
class SharedTable {
  /** How it is away: calls fail at once, or nothing answers them. */
  readonly #how: 'cut' | 'hang';
  readonly #clients: MemoryTableClient[] = [];
  #isAway = false;

  constructor(how: 'cut' | 'hang') {
    this.#how = how;
  }

  readonly connect = (clock: VirtualClock): ((own: Clock) => Discovery) => {
    const table = new MemoryTable(clock);
    return (own) => {
      const client = table.connect();
      client[this.#how](this.#isAway);
      this.#clients.push(client);
      return new DynamoDbDiscovery(client.table, new TableTime(own), {
        clock: own,
        random: seededRandom(this.#clients.length),
        onProblem: () => {},
      });
    };
  };

  away(isAway: boolean): void {
    this.#isAway = isAway;
    for (const client of this.#clients) client[this.#how](isAway);
  }
}

describe.each([
  ['fails every call', 'cut'],
  ['answers no call', 'hang'],
] as const)('when the table %s for 30 seconds under load', (_, how) => {
  it('every request is served that a live worker could serve, and all is known afresh afterwards', async () => {
    const table = new SharedTable(how);
    const fleet = await VirtualFleet.open(
      Array.from({ length: WORKERS }, () => 'aggregated' as const),
      table.connect,
    );
    const seen = new Witness();
    await fleet.discovery.watch({ bucket: 'v1/instances', prefix: 'dynamo/backend/generate/' }, seen);
    await pass(fleet, 5000);
    expect(seen.present.size).toBe(WORKERS);

    table.away(true);
    const [victim, ...living] = fleet.workers;
    let produced = living.map((worker) => worker.produced);
    const asked = await play(fleet, moments(), {
      12000: () => victim!.kill(),
      [AWAY_MS - 5000]: async () => {
        produced = living.map((worker) => worker.produced);
      },
    });
    expect(seen.outages).toEqual([expect.stringMatching(/failing/)]);
    await fleet.until(() => asked.every(({ isOver }) => isOver), 'all answers');
    const answers = await Promise.all(asked.map(({ answer }) => answer));
    expect(answers).toHaveLength(REQUESTS);
    expect(answers.filter((answer) => answer?.status !== 200)).toEqual([]);
    for (const answer of answers) expect(answer).toMatchObject(SERVED);
    for (const [at, worker] of living.entries()) expect(worker.produced).toBeGreaterThan(produced[at]!); // long after its lease
    expect(seen.events.filter(({ kind }) => kind === 'removed')).toEqual([]);

    table.away(false);
    const late = await fleet.start('aggregated');
    await pass(fleet, 25_000);
    expect(seen.outages.at(-1)).toBe('recovered');
    expect(seen.events.filter(({ kind }) => kind === 'removed')).toHaveLength(1); // whoever died, and nobody else
    expect(seen.present.size).toBe(WORKERS);
    const more = fleet.workers.map(() => ask(fleet, 'unary', TOKENS));
    await fleet.until(() => more.every(({ isOver }) => isOver), 'answers of the fleet as it is');
    for (const { answer } of more) expect(await answer).toMatchObject(SERVED);
    expect(late.produced).toBeGreaterThan(0);
  });
});

/** Random moments of the outage, one a request. */
function moments(): number[] {
  const random = seededRandom(14);
  return Array.from({ length: REQUESTS }, () => Math.floor(random.next() * AWAY_MS)).sort((a, b) => a - b);
}

/** Lets the outage pass: a request at each of `moments`, every other one as a stream, and `events` at theirs. */
async function play(
  fleet: VirtualFleet,
  moments: readonly number[],
  events: Readonly<Record<number, () => Promise<void>>>,
): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (let atMs = 0; atMs < AWAY_MS; atMs += 2) {
    await events[atMs]?.();
    while ((moments[asked.length] ?? AWAY_MS) <= atMs)
      asked.push(ask(fleet, asked.length % 2 === 0 ? 'stream' : 'unary', TOKENS));
    await fleet.turn();
    await fleet.clock.advance(2);
  }
  return asked;
}

async function pass(fleet: VirtualFleet, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 10) {
    await fleet.turn();
    await fleet.clock.advance(10);
  }
}
