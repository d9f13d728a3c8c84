import { describe, expect, it } from 'vitest';
import { type ChoiceRules, ChoiceText } from '../../../../shared/pipeline/answer/choice-text.ts';

/** A tokenizer of one letter per id: 1 = a, 2 = b, ... */
const letters = { push: (id: number) => String.fromCharCode(96 + id), flush: () => '' };

function choice(
  rules: Partial<{
    min: number;
    stop: string[];
    hidden: number[];
    ids: number[];
    max: number;
    visible: number[];
    shows: boolean;
  }> = {},
) {
  const full: ChoiceRules = {
    minTokens: rules.min ?? 0,
    maxTokens: rules.max ?? Number.POSITIVE_INFINITY,
    stopStrings: rules.stop ?? [],
    showsStopString: rules.shows ?? false,
    hiddenIds: new Set(rules.hidden),
    stopIds: new Set(rules.ids),
    visibleIds: new Set(rules.visible),
  };
  return new ChoiceText(full, letters);
}

describe('ChoiceText', () => {
  it('counts the end token but never shows it, and gives no stop reason for the model’s own', () => {
    const text = choice({ hidden: [26] });
    expect(text.push([1, 2, 26, 3], 0, 4)).toBe('ab');
    expect([text.generated, text.counted, text.hasEnded, text.stopReason]).toEqual([3, 3, true, undefined]);
  });

  it('names the token id that the client asked to stop at', () => {
    const text = choice({ ids: [3] });
    expect(text.push([1, 3], 0, 2)).toBe('a');
    expect(text.stopReason).toBe(3);
  });

  it('shows the text of a visible end token', () => {
    const text = choice({ visible: [3] });
    expect(text.push([1, 3, 4], 0, 3)).toBe('ac');
    expect(text.generated).toBe(2);
  });

  it('checks nothing before min_tokens are generated', () => {
    const text = choice({ min: 3, hidden: [2], stop: ['a'] });
    expect(text.push([1, 2], 0, 2)).toBe('ab');
    expect(text.push([3, 1], 0, 2)).toBe('c');
    expect([text.generated, text.matchedStop, text.stopReason]).toEqual([4, 'a', 'a']);
  });

  it('counts up to and including the token that completes a stop string', () => {
    const text = choice({ stop: ['bc'] });
    expect(text.push([1, 2, 3, 4, 5], 0, 5)).toBe('a');
    expect([text.counted, text.matchedStop]).toEqual([3, 'bc']);
  });

  it('reads only its range of a shared array', () => {
    expect(choice().push([9, 1, 2, 9], 1, 2)).toBe('ab');
  });

  it('releases held text at the end', () => {
    const text = choice({ stop: ['bcd'] });
    expect(text.push([1, 2, 3], 0, 3)).toBe('a');
    expect(text.flush()).toBe('bc');
  });
});
