import { describe, expect, it } from 'vitest';
import { readSettings } from '../../infra/app.ts';

const reading = (given: Record<string, unknown>): unknown => readSettings((name) => given[name]);

describe('readSettings', () => {
  it('has a default for each', () => {
    expect(reading({})).toEqual({
      stackName: 'Stator',
      retainTables: false,
      natGateways: 0,
      nats: false,
      functionUrl: false,
    });
  });

  it('takes the texts of the command line and the values of cdk.json alike', () => {
    expect(reading({ retainTables: 'true', natGateways: '2', functionUrl: true })).toMatchObject({
      retainTables: true,
      natGateways: 2,
      functionUrl: true,
    });
  });

  it.each([
    [{ retainTables: 'yes' }, /-c retainTables=/],
    [{ natGateways: '-1' }, /-c natGateways=/],
    [{ stackName: '1 bad name' }, /-c stackName=.*letter/],
  ])('refuses %j and names it', (given, message) => {
    expect(() => reading(given)).toThrow(message);
  });
});
