import { afterAll, describe, expect, it } from 'vitest';
import { Conformance } from '../../support/dynamo-http/conformance.ts';
import { type Exchange, isCutShort } from '../../support/dynamo-http/exchange.ts';
import { judge } from '../../support/dynamo-http/judge.ts';
import { MUTATIONS, NO_MUTATION, outcomeOf } from '../../support/dynamo-http/mutations/index.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';

const conformance = new Conformance(FIXTURES);
const exchanges: Exchange[] = [];
afterAll(() => conformance.close());

describe('recorded exchanges of Dynamo 1.6.1', () => {
  const { rows } = conformance;
  for (const group of new Set(rows.map((row) => row.group))) {
    describe(group, () => {
      for (const row of rows.filter((one) => one.group === group)) {
        it(`${row.id} is answered as recorded or as decided`, async () => {
          const exchange = await conformance.exchange(row);
          exchanges.push(exchange);
          const faults = judge(exchange);
          if (faults.length > 0) expect.fail(faults.join('\n'));
        });
      }
    });
  }
});

// The exchanges above once more, each spoiled in one way: what judges them must notice every time.
describe('an answer that is spoiled', () => {
  it('is not the one that is only taken apart and put together again', () => {
    const whole = exchanges.filter(({ row }) => !isCutShort(row));
    const { changed, unnoticed } = outcomeOf(NO_MUTATION, whole);
    expect([changed, unnoticed.length]).toEqual([whole.length, whole.length]);
  });

  it.each(MUTATIONS.map((mutation) => [mutation.name, mutation] as const))('is noticed: %s', (_name, mutation) => {
    const { changed, unnoticed } = outcomeOf(mutation, exchanges);
    expect(changed).toBeGreaterThan(0);
    expect(unnoticed).toEqual([]);
  });
});
