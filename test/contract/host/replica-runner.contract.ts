import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ReplicaRunner, ReplicaSpec, RunningReplica } from '../../../shared/host/runners/types.ts';
import { waitUntil } from '../../support/index.ts';

/** A runner whose workers run the file `program`, by Node, in place of `stator`. */
export interface RunnerBed {
  /** Opens a runner, as each agent does. */
  open(): ReplicaRunner;
  close(): Promise<void>;
}

/** Program of a worker: says its environment, and ends at SIGTERM after it has said so. */
export const WORKER_PROGRAM = `
const [, , command, ...args] = process.argv;
process.on('SIGTERM', () => { console.log('draining'); setTimeout(() => process.exit(0), 100); });
console.log('started', command, args.join(' '), 'GIVEN=' + process.env.GIVEN);
if (args.includes('--crash')) { console.error('no room'); process.exit(3); }
setInterval(() => {}, 1000);
`;

/** Promises of every runner. */
export function testReplicaRunner(name: string, openBed: () => Promise<RunnerBed>): void {
  describe(`a runner of workers: ${name}`, () => {
    let bed: RunnerBed;
    let output = '';
    let running: RunningReplica | undefined;
    const spec = (...args: readonly string[]): ReplicaSpec => ({
      index: 0,
      args,
      env: { PATH: process.env.PATH ?? '', GIVEN: 'a value, with blanks' },
      gpus: [],
    });
    const onOutput = (text: string): void => {
      output += text;
    };

    beforeEach(async () => {
      bed = await openBed();
      output = '';
    });

    afterEach(async () => {
      await running?.signal('SIGKILL');
      await running?.ended;
      running = undefined;
      await bed.close();
    });

    it('starts a worker with its arguments and environment, and passes its output on', async () => {
      running = await bed.open().start(spec('--one', 'two'), onOutput);
      await waitUntil(() => output.includes('started worker --one two GIVEN=a value, with blanks'));
    });

    it('lets a worker drain at SIGTERM, and says how it ended', async () => {
      running = await bed.open().start(spec(), onOutput);
      await waitUntil(() => output.includes('started'));
      await running.signal('SIGTERM');
      expect(await running.ended).toMatchObject({ code: 0 });
      expect(output).toContain('draining');
      await running.signal('SIGTERM'); // it has ended: nothing to do
    });

    it('kills a worker', async () => {
      running = await bed.open().start(spec(), onOutput);
      await waitUntil(() => output.includes('started'));
      await running.signal('SIGKILL');
      expect((await running.ended).code).not.toBe(0);
    });

    it('says with which code and words a worker ended by itself, and starts another in its place', async () => {
      const runner = bed.open();
      const crashed = await runner.start(spec('--crash'), onOutput);
      expect(await crashed.ended).toMatchObject({ code: 3, reason: expect.stringContaining('no room') });
      running = await runner.start(spec('--again'), onOutput);
      await waitUntil(() => output.includes('started worker --again'));
    });

    it('takes over a worker whose agent is gone, and none that has ended', async () => {
      const first = await bed.open().start(spec(), onOutput);
      await waitUntil(() => output.includes('started'));
      first.release();
      output = '';
      running = await bed.open().adopt(0, onOutput);
      expect(running).toBeDefined();
      await running?.signal('SIGTERM');
      await running?.ended;
      expect(output).toContain('draining');
      expect(await bed.open().adopt(0, onOutput)).toBeUndefined();
      expect(await bed.open().adopt(1, onOutput)).toBeUndefined();
    });
  });
}
