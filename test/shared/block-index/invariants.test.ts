import { describe, expect, it } from 'vitest';
import { BlockIndex } from '../../../shared/block-index/block-index.ts';
import { HOLDER_MASK } from '../../../shared/block-index/holder-sets.ts';
import { longPrompt, prompt, remove, store, tableOf } from './prompts.ts';

function emptyIndex(): BlockIndex {
  return new BlockIndex({
    ranks: tableOf(3),
    blocksMax: 10_000,
    bytesMax: () => Number.POSITIVE_INFINITY,
    onEvicted: () => {},
  });
}

/** The number of a block that the index has. */
function blockOf({ residency }: BlockIndex, { sequence }: { readonly sequence: Uint32Array }, position: number) {
  const block = residency.table.findBlock(sequence[2 * position]! | 0, sequence[2 * position + 1]! | 0);
  expect(block).toBeGreaterThan(0);
  return block;
}

describe('a block index whose state was corrupted stops', () => {
  it('when an incarnation loses more blocks than it is said to hold', () => {
    const index = emptyIndex();
    store(index, 0, longPrompt(1, 4));
    index.residency.incarnations.blocks[index.residency.incarnations.find(0)] = 0;
    expect(() => remove(index, 0, longPrompt(1, 4), [3])).toThrow(
      'broken invariant: an incarnation loses no more blocks than it held',
    );
  });

  it('when a set of holders has fewer references than blocks', () => {
    const index = emptyIndex();
    for (const rank of [0, 1]) store(index, rank, prompt(1));
    const { residency } = index;
    const set = residency.blocks.holders(blockOf(index, prompt(1), 0)) & HOLDER_MASK;
    const references = residency.sets.membersAt(set) - 3;
    residency.sets.pageOf(set)[references] = 0;
    expect(() => remove(index, 0, prompt(1), [0])).toThrow(
      'broken invariant: a set of holders is let go of as often as it was taken',
    );
  });

  it('when a shared hash has fewer users than holders', () => {
    const index = emptyIndex();
    const names = Uint32Array.of(1, 2);
    for (const rank of [0, 1]) store(index, rank, prompt(1), { names });
    index.residency.engineHashes.releaseShared(blockOf(index, prompt(1), 0));
    index.residency.engineHashes.releaseShared(blockOf(index, prompt(1), 0));
    expect(() => index.residency.engineHashes.releaseShared(blockOf(index, prompt(1), 0))).toThrow(
      'broken invariant: a shared hash is let go of as often as it was taken',
    );
  });

  it('when a block with children is removed, or one is removed twice', () => {
    const index = emptyIndex();
    const hashes = longPrompt(1, 2);
    store(index, 0, hashes);
    const { blocks } = index.residency;
    const [first, last] = [blockOf(index, hashes, 0), blockOf(index, hashes, 1)];
    expect(() => blocks.remove(first)).toThrow('broken invariant: a block that is removed has no children');
    blocks.remove(last);
    expect(() => blocks.remove(last)).toThrow('broken invariant: a block is removed once');
    expect(() => blocks.remove(0)).toThrow('broken invariant: a block is removed once');
  });

  it('when a block is made below one that was removed', () => {
    const index = emptyIndex();
    const hashes = longPrompt(1, 2);
    store(index, 0, hashes);
    const last = blockOf(index, hashes, 1);
    index.residency.blocks.remove(last);
    expect(() => index.residency.blocks.create(last, 1, 2, 3, 4, 0, false)).toThrow(
      'broken invariant: a parent is in the index',
    );
  });
});
