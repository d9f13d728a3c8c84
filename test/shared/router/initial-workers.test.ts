import { describe, expect, it } from 'vitest';
import { InitialWorkers } from '../../../shared/router/index.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const MINUTE_MS = 60_000;

function wait(workersMin: number) {
  const clock = new VirtualClock();
  const stopping = new AbortController();
  return { clock, stopping, waiting: new InitialWorkers({ workersMin, clock, signal: stopping.signal }) };
}

describe('a start that waits for workers', () => {
  it('does not wait for none', async () => {
    const { waiting } = wait(0);
    expect(waiting.pending).toBeUndefined();
    await expect(waiting.awaited).resolves.toBe('enough');
  });

  it('continues with as many as it waits for, and says how many there are until then', async () => {
    const { waiting } = wait(2);
    expect(waiting.pending).toBe('Waiting for workers: 0 of 2 exist');
    waiting.seen(1);
    expect(waiting.pending).toBe('Waiting for workers: 1 of 2 exist');
    waiting.seen(0);
    expect(waiting.pending).toBe('Waiting for workers: 0 of 2 exist');
    waiting.seen(3);
    await expect(waiting.awaited).resolves.toBe('enough');
    waiting.seen(1); // does not begin anew
    expect(waiting.pending).toBeUndefined();
  });

  it('continues after half an hour with those there are', async () => {
    const { clock, waiting } = wait(2);
    await clock.advance(30 * MINUTE_MS - 1);
    expect(waiting.pending).toBeDefined();
    await clock.advance(1);
    await expect(waiting.awaited).resolves.toBe('late');
  });

  it('ends when its signal aborts, before or while it waits', async () => {
    const { stopping, waiting } = wait(2);
    stopping.abort();
    await expect(waiting.awaited).resolves.toBe('aborted');
    const late = new InitialWorkers({ workersMin: 2, clock: new VirtualClock(), signal: stopping.signal });
    await expect(late.awaited).resolves.toBe('aborted');
  });
});
