import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { LifecycleActions } from '../../../shared/host/lifecycle/types.ts';

/** A group with one instance, which waits in the hook `launch`. */
export interface LifecycleBed {
  readonly actions: LifecycleActions;
  isWaiting(): boolean;
  isHealthy(): boolean;
  close(): Promise<void>;
}

const { signal } = new AbortController();

/** Promises of every way to call Auto Scaling. */
export function testLifecycleActions(name: string, openBed: () => Promise<LifecycleBed>): void {
  describe(`lifecycle actions: ${name}`, () => {
    let bed: LifecycleBed;

    beforeEach(async () => {
      bed = await openBed();
    });

    afterEach(() => bed.close());

    it('lets the instance go on when its hook is complete', async () => {
      expect(bed.isWaiting()).toBe(true);
      expect(await bed.actions.complete('launch', 'CONTINUE', signal)).toBe('done');
      expect(bed.isWaiting()).toBe(false);
    });

    it('says that an action is unknown once it is complete', async () => {
      await bed.actions.complete('launch', 'CONTINUE', signal);
      expect(await bed.actions.complete('launch', 'CONTINUE', signal)).toBe('unknown');
      expect(await bed.actions.heartbeat('launch', signal)).toBe('unknown');
    });

    it('takes heartbeats while an action waits', async () => {
      expect(await bed.actions.heartbeat('launch', signal)).toBe('done');
      expect(bed.isWaiting()).toBe(true);
    });

    it('says that a hook whose action has not begun is unknown', async () => {
      expect(await bed.actions.heartbeat('terminate', signal)).toBe('unknown');
      expect(await bed.actions.complete('terminate', 'CONTINUE', signal)).toBe('unknown');
    });

    it('reports the instance as unhealthy', async () => {
      await bed.actions.complete('launch', 'CONTINUE', signal);
      expect(bed.isHealthy()).toBe(true);
      await bed.actions.setUnhealthy(signal);
      expect(bed.isHealthy()).toBe(false);
    });

    it('makes no call after its signal has aborted', async () => {
      const aborted = AbortSignal.abort(new Error('over'));
      await expect(bed.actions.complete('launch', 'CONTINUE', aborted)).rejects.toThrow('over');
      expect(bed.isWaiting()).toBe(true);
    });
  });
}
