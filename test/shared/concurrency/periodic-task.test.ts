import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { PeriodicTask } from '../../../shared/concurrency/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

function bedOf(run: (signal: AbortSignal) => Promise<void>) {
  const clock = new VirtualClock();
  const problems: unknown[] = [];
  const random = { ...seededRandom(1), next: () => 0.5 }; // the middle of the jitter
  const onProblem = (problem: unknown): void => void problems.push(problem);
  return {
    clock,
    problems,
    task: new PeriodicTask({ clock, random, periodMs: 100, run, onProblem, backOffMsMax: 400 }),
  };
}

describe('PeriodicTask', () => {
  it('runs at once and then every period', async () => {
    let runs = 0;
    const { clock, task } = bedOf(async () => {
      runs++;
    });
    task.start();
    await clock.advance(250);
    expect(runs).toBe(3);
    await task.stop();
    await clock.advance(1000);
    expect(runs).toBe(3);
    expect(clock.pendingTimers).toBe(0);
  });

  it('pauses twice as long with each failure, up to its bound, and tells each', async () => {
    const at: number[] = [];
    const { clock, task, problems } = bedOf(async () => {
      at.push(clock.nowMs());
      if (at.length < 5) throw new Error(`run ${at.length}`);
    });
    task.start();
    await clock.advance(1600);
    expect(at).toEqual([0, 200, 600, 1000, 1400, 1500, 1600]);
    expect(problems.map(String)).toEqual(['Error: run 1', 'Error: run 2', 'Error: run 3', 'Error: run 4']);
    await task.stop();
  });

  it('never runs twice at a time; what is asked for meanwhile comes right after', async () => {
    let ends: (() => void)[] = [];
    let runs = 0;
    const { clock, task } = bedOf(() => {
      runs++;
      return new Promise((resolve) => ends.push(resolve));
    });
    task.start();
    task.soon();
    task.soon();
    expect(runs).toBe(1);
    for (const end of ends) end();
    ends = [];
    await clock.advance(0);
    expect(runs).toBe(2);
    const stopped = task.stop();
    for (const end of ends) end();
    await stopped;
  });

  it('aborts the run under way when it stops, waits for it, and tells no failure of it', async () => {
    const { task, problems } = bedOf(
      (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    );
    task.start();
    await task.stop();
    task.soon();
    expect(problems).toEqual([]);
  });
});
