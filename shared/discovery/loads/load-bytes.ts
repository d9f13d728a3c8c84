import { PackedReader, PackedWriter } from '../packed.ts';
import type { RankLoad, WorkerLoad } from '../types.ts';

/** Ranks of one worker: each costs its own entry in every router. */
export const RANKS_MAX = 1024;
/** Workers that one process may tell of. */
export const WORKERS_MAX = 1024;
const VERSION = 1;
const DRAINING = 1;

/**
 * The loads of the workers of one process, by instance id, as its lease carries them. Sixteen ranks take 100 to 250 bytes:
 *
 *   version | workers x ( id | flags | ranks x ( rank | requests | decode blocks | prefill tokens ) )
 */
export function packLoads(loads: ReadonlyMap<string, WorkerLoad>): Uint8Array {
  const writer = new PackedWriter();
  writer.byte(VERSION);
  for (const [instanceId, { ranks, isDraining }] of loads) {
    writer.hex(instanceId);
    writer.byte(isDraining ? DRAINING : 0);
    writer.count(ranks.length);
    for (const { dpRank, requests, decodeBlocks, prefillTokens } of ranks) {
      writer.count(dpRank);
      writer.count(requests);
      writer.count(decodeBlocks);
      writer.count(prefillTokens);
    }
  }
  return writer.finish();
}

/** Reverses `packLoads`; undefined for what it cannot have made, or what is out of bounds. */
export function unpackLoads(bytes: Uint8Array): readonly (readonly [string, WorkerLoad])[] | undefined {
  const loads: [string, WorkerLoad][] = [];
  try {
    const reader = new PackedReader(bytes);
    if (reader.byte() !== VERSION) return undefined;
    while (!reader.isAtEnd) {
      if (loads.length === WORKERS_MAX) return undefined;
      const instanceId = reader.hex();
      const isDraining = (reader.byte() & DRAINING) !== 0;
      const ranks: RankLoad[] = [];
      for (let left = reader.count(RANKS_MAX); left > 0; left--) {
        ranks.push({
          dpRank: reader.count(RANKS_MAX),
          requests: reader.count(),
          decodeBlocks: reader.count(),
          prefillTokens: reader.count(),
        });
      }
      loads.push([instanceId, { ranks, isDraining }]);
    }
  } catch {
    return undefined; // cut short or out of bounds: written by a process gone wrong
  }
  return loads;
}
