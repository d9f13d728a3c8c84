import { describe, expect, it } from 'vitest';
import { isSelected, joinedSelectors, readSelector } from '../../../../shared/planner/kubernetes/selectors.ts';

describe('a selector of labels', () => {
  it.each([
    ['app=chat', { app: 'chat', tier: 'a' }, true],
    ['app=chat', { app: 'other' }, false],
    ['app=chat', {}, false],
    ['app==chat,tier in (a, b)', { app: 'chat', tier: 'b' }, true],
    ['app=chat,tier in (a,b)', { app: 'chat', tier: 'c' }, false],
    ['tier notin (a,b)', {}, true],
    ['tier notin (a,b)', { tier: 'b' }, false],
    ['tier!=a', { tier: 'b' }, true],
    ['tier!=a', { tier: 'a' }, false],
    ['canary', { canary: '' }, true],
    ['canary', {}, false],
    ['!canary', {}, true],
    ['!canary', { canary: 'yes' }, false],
    ['canary=', { canary: '' }, true],
    ['constructor', {}, false],
  ])('%s chooses %j: %s', (text, labels, isChosen) => {
    expect(isSelected(labels, readSelector(text))).toBe(isChosen);
  });

  it('is refused with its text if it cannot be read', () => {
    expect(() => readSelector('app=chat,size>3 x')).toThrow(
      'the selector app=chat,size>3 x cannot be read at "size>3 x"',
    );
  });
});

describe('selectors of several workloads', () => {
  it('become one if they require values of the same labels', () => {
    const texts = ['app=chat,pool=b', 'pool in (a,c),app=chat,!canary'];
    expect(joinedSelectors(texts.map(readSelector))).toEqual(['app=chat,pool in (a,b,c)']);
  });

  it('stay apart if they require other labels, or none', () => {
    const texts = ['app=chat', 'set=groups', '!canary', '!canary', 'app=large'];
    expect(joinedSelectors(texts.map(readSelector))).toEqual(['app in (chat,large)', 'set=groups', '!canary']);
  });
});
