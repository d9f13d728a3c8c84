import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../clock/index.ts';
import type { Lane } from './encode-queue.ts';
import { type EncodedStretches, type EncodeJob, StretchEncoder } from './stretches.ts';

/** The event loop is held no longer than this and one stretch. */
const SLICE_MS = 5;

/** Encodes on the event loop, a slice at a time, where there are no threads. */
export function createLoopLane(clock: Clock): Lane {
  return {
    async encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedStretches> {
      const encoder = new StretchEncoder(job.tokenizer.encode, job);
      let sliceStartMs = clock.nowMs();
      while (encoder.step()) {
        if (clock.nowMs() - sliceStartMs < SLICE_MS) continue;
        await setImmediate();
        signal.throwIfAborted();
        sliceStartMs = clock.nowMs();
      }
      return encoder.take();
    },
    close: async () => undefined,
  };
}
