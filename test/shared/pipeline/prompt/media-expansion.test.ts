import { describe, expect, it } from 'vitest';
import { expansionsOf, type MediaKind, placesOf } from '../../../../shared/pipeline/prompt/media-expansion.ts';

const PAD = 90;
const START = 91;
const END = 92;
const NOTHING = new Map<MediaKind, number>();
const KNOWN = new Map<MediaKind, number>([['image', PAD]]);
const ids = (...tokens: readonly number[]): Uint32Array => Uint32Array.from(tokens);
const pads = (count: number): readonly number[] => new Array<number>(count).fill(PAD);

function found(tokens: Uint32Array, expanded: Uint32Array, kinds: readonly MediaKind[], known = NOTHING) {
  const expansions = expansionsOf(tokens, expanded, kinds, known);
  return expansions && { runs: expansions.runs.map((run) => [...run]), placeholders: [...expansions.placeholders] };
}

describe('what an engine made of the media of a prompt', () => {
  it('is the run of placeholders between the same text, by which the placeholder is learned', () => {
    const prompt = ids(1, 2, START, PAD, END, 3, 4);
    expect(found(prompt, ids(1, 2, START, ...pads(5), END, 3, 4), ['image'])).toEqual({
      runs: [pads(5)],
      placeholders: [['image', PAD]],
    });
  });

  it('is found for each of several, of whatever size, also at the very beginning and end', () => {
    const prompt = ids(PAD, 7, 8, PAD, 7, 8, PAD);
    const expanded = ids(...pads(4), 7, 8, ...pads(2), 7, 8, ...pads(9));
    expect(found(prompt, expanded, ['image', 'image', 'image'])?.runs).toEqual([pads(4), pads(2), pads(9)]);
  });

  it('may hold other tokens: the breaks of rows, or a frame that the template does not write', () => {
    const rows = [PAD, PAD, 80, PAD, PAD, 80];
    expect(found(ids(1, PAD, 2), ids(1, ...rows, 2), ['image'])?.runs).toEqual([rows]);
    const framed = [70, START, 95, 95, 95, END, 70];
    expect(found(ids(1, START, 2), ids(1, ...framed, 2), ['image'])).toEqual({
      runs: [framed],
      placeholders: [['image', START]],
    });
  });

  it('goes by the placeholders of each kind once they are known', () => {
    const known = new Map<MediaKind, number>([...KNOWN, ['audio', 60]]);
    const prompt = ids(1, 60, 2, PAD, 3);
    expect(found(prompt, ids(1, 60, 60, 2, ...pads(3), 3), ['audio', 'image'], known)?.runs).toEqual([
      [60, 60],
      pads(3),
    ]);
    expect(found(prompt, ids(1, 60, 60, 2, ...pads(3), 3), ['audio', 'image'])).toBeUndefined();
  });

  it('is not guessed where the texts differ, or nothing stands between two media', () => {
    expect(found(ids(1, PAD, 2), ids(9, ...pads(5), 2), ['image'], KNOWN)).toBeUndefined();
    expect(found(ids(1, PAD, 2), ids(1, ...pads(5), 9), ['image'], KNOWN)).toBeUndefined();
    expect(found(ids(1, PAD, PAD, 2), ids(1, ...pads(8), 2), ['image', 'image'], KNOWN)).toBeUndefined();
    expect(found(ids(1, PAD, 5, PAD, 2), ids(1, ...pads(8), 2), ['image', 'image'], KNOWN)).toBeUndefined();
    expect(found(ids(1, 2), ids(1, 2), ['image'], KNOWN)).toBeUndefined();
    expect(found(ids(), ids(), [])).toBeUndefined();
  });

  it('finds no places where a text names a placeholder itself', () => {
    expect(placesOf(ids(1, PAD, 2), ['image'], KNOWN)).toEqual([1]);
    expect(placesOf(ids(1, PAD, 2, PAD), ['image'], KNOWN)).toBeUndefined();
    expect(placesOf(ids(1, 2), ['image'], KNOWN)).toBeUndefined();
  });
});
