import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { WorkerProcesses } from '../../../functions/cli/local-workers.ts';
import { LocalConnector, type ScalableWorkers } from '../../../shared/planner/index.ts';
import { silentLogger } from '../../../shared/telemetry/log/logger.ts';
import { waitUntil } from '../../support/index.ts';
import { handTargets, isDone } from '../../support/planner/hand-over.ts';
import { describeConnector, type Fleet } from './connector.contract.ts';

const NEVER = new AbortController().signal;

/** Workers that serve when they are told to. */
class ToldWorkers implements ScalableWorkers {
  ready = 0;
  starting = 0;
  startSeconds: number | undefined;

  scaleTo(count: number): void {
    this.ready = Math.min(this.ready, count);
    this.starting = count - this.ready;
  }

  serve(): void {
    this.ready += this.starting;
    this.starting = 0;
  }
}

/** `workers` as a connector scales them, which counts what they are told. */
function fleetOf(workers: ScalableWorkers, serve: () => Promise<void>, close: () => Promise<void>): Fleet {
  let wanted: number | undefined;
  let changes = 0;
  const counting: ScalableWorkers = {
    get ready() {
      return workers.ready;
    },
    get starting() {
      return workers.starting;
    },
    get startSeconds() {
      return workers.startSeconds;
    },
    scaleTo(count) {
      wanted = count;
      changes++;
      workers.scaleTo(count);
    },
  };
  return {
    connect: () => new LocalConnector(counting),
    carryOut: serve,
    async changeByHand(count) {
      workers.scaleTo(count);
      await serve();
    },
    get wanted() {
      return wanted;
    },
    get changes() {
      return changes;
    },
    close,
  };
}

describeConnector(
  'local',
  async () => {
    const workers = new ToldWorkers();
    return fleetOf(
      workers,
      async () => workers.serve(),
      async () => {},
    );
  },
  { waits: false, runs: 100 },
);

describeConnector(
  'local, with processes,',
  async () => {
    const workers = new WorkerProcesses({
      workers: [[]],
      entry: fileURLToPath(new URL('../../support/planner/fake-worker.mjs', import.meta.url)),
      env: process.env,
      logger: silentLogger,
    });
    const serve = async (): Promise<void> => void (await waitUntil(() => workers.starting === 0));
    return fleetOf(workers, serve, () => workers.stop());
  },
  { waits: false, runs: 1 },
);

describe('the local connector', () => {
  it('tells of workers that serve and that start, and how long starts take', async () => {
    const workers = new ToldWorkers();
    Object.assign(workers, { ready: 2, starting: 1, startSeconds: 4.5 });
    expect(await new LocalConnector(workers).observe(NEVER)).toMatchObject({
      pools: {
        decode: { ready: 2, starting: 1, draining: 0, desired: 3, options: [] },
        prefill: { ready: 0, starting: 0, desired: 0 },
      },
      startSeconds: 4.5,
    });
  });

  it('is not settled while more workers serve or start than it should have', async () => {
    const workers = new ToldWorkers();
    const connector = new LocalConnector(workers);
    await handTargets(connector, { decode: 2 });
    workers.serve();
    workers.starting = 1;
    expect(await isDone(connector, { decode: 2 })).toBe(false);
    workers.serve();
    expect(await isDone(connector, { decode: 2 })).toBe(false);
    await handTargets(connector, { decode: 2 });
    expect(workers.ready).toBe(2);
    expect(await isDone(connector, { decode: 2 })).toBe(true);
  });
});
