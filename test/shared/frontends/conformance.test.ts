import { afterAll, describe, expect, it } from 'vitest';
import { Conformance } from '../../support/dynamo-http/conformance.ts';
import { LEFT_OUT, reasonLeftOut } from '../../support/dynamo-http/left-out.ts';
import { FIXTURES } from '../../support/dynamo-http/records.ts';

const conformance = new Conformance(FIXTURES);
afterAll(() => conformance.close());

describe('recorded exchanges of Dynamo 1.6.1', () => {
  const { rows } = conformance;
  const played = rows.filter((row) => reasonLeftOut(row) === undefined);
  for (const group of new Set(played.map((row) => row.group))) {
    describe(group, () => {
      for (const row of played.filter((one) => one.group === group)) {
        it(`${row.id} is answered as recorded or as decided`, async () => {
          const differences = await conformance.play(row);
          if (differences.length > 0) expect.fail(differences.join('\n'));
        });
      }
    });
  }

  it('has a row for every reason to leave rows out', () => {
    const unused = LEFT_OUT.filter((entry) => !rows.some((row) => entry.matches(row)));
    expect(unused.map((entry) => entry.reason)).toEqual([]);
  });
});
