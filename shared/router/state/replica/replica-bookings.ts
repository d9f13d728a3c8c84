import type { Scheduler } from '../../scheduler/types.ts';
import type { ActiveSequenceEvent } from './active-sequence-event.ts';

const NO_HASHES = new Uint32Array(0);

/** Books what other routers tell of with the scheduler of the same worker set. */
export function replicaBookings(
  scheduler: Pick<Scheduler, 'book' | 'prefillDone' | 'free'>,
  blockSizeTokens: number,
): (event: ActiveSequenceEvent) => void {
  return ({ requestId, routerId, workerId, dpRank, change }) => {
    const id = `${routerId}/${requestId}`; // a client may send one id through two routers
    switch (change.kind) {
      case 'added': {
        const { sequenceHashes, tracksPrefillTokens, expectedOutputTokens, prefillTokens, expectedPrefillMs } = change;
        scheduler.book({
          requestId: id,
          workerId,
          dpRank,
          promptTokens: ((sequenceHashes?.length ?? 0) >> 1) * blockSizeTokens,
          hashes: sequenceHashes && { local: NO_HASHES, sequence: sequenceHashes },
          uncachedTokens: tracksPrefillTokens ? (prefillTokens ?? 0) : 0,
          expectedOutputTokens,
          prefillMs: expectedPrefillMs,
        });
        return;
      }
      case 'prefill_done':
        scheduler.prefillDone(id);
        return;
      case 'freed':
        scheduler.free(id);
    }
  };
}
