import { describe, expect, it } from 'vitest';
import { KeyBudgets } from '../../../../shared/access/keys/budgets.ts';
import type { KeyLimits, KeyRecord } from '../../../../shared/access/keys/key-record.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const keyOf = (id: string, limits: KeyLimits = {}) => ({ id, limits }) as KeyRecord;

describe('the budgets of keys', () => {
  it('stay spent, however many keys without limits are used', () => {
    const budgets = new KeyBudgets(new VirtualClock());
    const limits = { tokensPerDay: 100 };
    budgets.of(keyOf('limited', limits)).spend(100, limits);
    for (let at = 0; at < 10_001; at++) budgets.of(keyOf(`free ${at}`)).take({});
    expect(() => budgets.of(keyOf('limited', limits)).take(limits)).toThrow('100 tokens of the day are spent');
  });

  it('keep what a key has used when its limits come and go', () => {
    const budgets = new KeyBudgets(new VirtualClock());
    const limits = { tokensPerDay: 100 };
    budgets.of(keyOf('a')).spend(40, {});
    expect(budgets.useOf(keyOf('a', limits))).toMatchObject({ tokens: 40, left: { tokensPerDay: 60 } });
    budgets.of(keyOf('a', limits)).spend(10, limits);
    budgets.of(keyOf('a')).spend(5, {});
    expect(budgets.useOf(keyOf('a'))).toMatchObject({ tokens: 55, tokensToday: 55 });
  });
});
