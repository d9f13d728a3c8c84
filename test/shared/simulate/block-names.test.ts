import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WorkloadNames } from '../../../shared/simulate/workload.ts';
import { chainHashes } from '../../../shared/tokens/index.ts';
import { workloadOf } from './simulation-bed.ts';

function pairs(words: Uint32Array): readonly string[] {
  return Array.from({ length: words.length / 2 }, (_, at) => `${words[2 * at]}.${words[2 * at + 1]}`);
}

describe('WorkloadNames', () => {
  it('names blocks alike exactly as far as the ids of two prompts are the same', () => {
    const prompt = fc.array(fc.constantFrom(1, 2, 3), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(prompt, prompt, fc.constantFrom(64, 128, 512), (left, right, blockSizeTokens) => {
        // Ids of a trace name whole prefixes, so the alternatives at a place depend on what came before.
        const prefixIds = (path: readonly number[]): number[] =>
          path.map((_, at) => Number(`1${path.slice(0, at + 1).join('')}`));
        const workload = workloadOf(
          [left, right].map((path) => ({ inputTokens: 512 * path.length, segmentIds: prefixIds(path) })),
        );
        const first = new WorkloadNames(workload, 0, blockSizeTokens).prompt;
        const second = new WorkloadNames(workload, 1, blockSizeTokens).prompt;
        const differ = left.findIndex((id, at) => id !== right[at]);
        const shared = differ < 0 ? left.length : differ;
        const sharedBlocks = (shared * 512) / blockSizeTokens;
        for (const name of ['local', 'sequence'] as const) {
          const ours = pairs(first[name]);
          const theirs = pairs(second[name]);
          const upTo = ours.findIndex((hash, at) => hash !== theirs[at]);
          expect(upTo < 0 ? ours.length : upTo).toBe(sharedBlocks);
          expect(new Set(ours).size).toBe(ours.length);
        }
      }),
    );
  });

  it('names the whole blocks of a prompt whose last segment is only begun', () => {
    const workload = workloadOf([{ inputTokens: 700, outputTokens: 100 }]);
    const names = new WorkloadNames(workload, 0, 64);
    expect(names.promptBlocks).toBe(10);
    expect(names.prompt.local.length).toBe(20);
    expect(names.prompt.sequence).toEqual(chainHashes(names.prompt.local));
  });

  it('names generated blocks after their request', () => {
    const workload = workloadOf([
      { inputTokens: 512, outputTokens: 1024, segmentIds: [1] },
      { inputTokens: 512, outputTokens: 1024, segmentIds: [1] },
    ]);
    const [first, second] = [0, 1].map((request) => new WorkloadNames(workload, request, 512));
    first!.ensure(3);
    second!.ensure(3);
    const ours = pairs(first!.hashes);
    const theirs = pairs(second!.hashes);
    expect(ours[0]).toBe(theirs[0]);
    expect(new Set([...ours.slice(1), ...theirs.slice(1)]).size).toBe(4);
  });
});
