import { afterEach, describe, it } from 'vitest';
import {
  type BedOptions,
  cellsAt,
  cellsOf,
  expectWhole,
  type MatrixBed,
  type Run,
  type Stage,
  useMatrixBed,
} from './matrix-bed.ts';

/**
 * Faults of the worker that has the request. In every cell the client gets the same text and usage as without a fault.
 */
export const WORKER_FAULTS = [
  {
    name: 'killed',
    bed: {},
    async strike(bed: MatrixBed, { victim }: Run) {
      bed.lost(victim);
      await victim.kill();
    },
  },
  {
    name: 'told to stop',
    bed: {},
    async strike(bed: MatrixBed, { victim }: Run) {
      bed.lost(victim);
      victim.signal('SIGTERM');
    },
  },
  {
    name: 'frozen',
    bed: { env: { STATOR_STREAM_STALL_SECS: '0.5' } },
    async strike(bed: MatrixBed, { victim, answer }: Run) {
      bed.lost(victim);
      victim.signal('SIGSTOP');
      await answer;
      await victim.kill();
    },
  },
  {
    name: 'left by its engine',
    bed: { isMortal: true },
    async strike(bed: MatrixBed, { victim }: Run) {
      bed.lost(victim);
      victim.signal('SIGUSR2');
    },
  },
  {
    name: 'cut off from the network',
    bed: { hasProxies: true },
    async strike(bed: MatrixBed, { victim, answer }: Run) {
      bed.lost(victim);
      bed.proxies.get(victim)?.cut();
      await answer;
      await victim.kill();
    },
  },
] as const;

/** A kill at every stage, the other faults at `stage`; all of them everywhere where every cell is played. */
export function describeWorkerFaults(where: BedOptions, stages: readonly Stage[], stage: Stage): void {
  describe.each(WORKER_FAULTS)('a worker that is $name', ({ name, bed: options, strike }) => {
    const bed = useMatrixBed({ ...where, ...options });
    afterEach(() => bed.mend());

    const cells = name === 'killed' ? cellsOf(stages) : cellsAt(stage, stages);
    it.each(cells)('$stage ($form): another goes on, and the client notices nothing', async ({ stage, form }) => {
      const run = await bed.reach(stage, form);
      await strike(bed, run);
      await expectWhole(run);
      await run.victim.exited; // whatever befell it, it does not stay
    });
  });
}
