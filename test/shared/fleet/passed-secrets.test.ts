import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openSecrets, passSecrets, readPassedSecrets } from '../../../shared/fleet/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import {
  createTable,
  type DynamoDbServer,
  freePort,
  hasDynamoDb,
  startDynamoDb,
  startDynoxide,
} from '../../support/index.ts';

const [A, B, C] = ['a', 'b', 'c'].map((letter) => letter.repeat(40)) as [string, string, string];

describe.runIf(hasDynamoDb())('secrets that a frontend passes to functions', () => {
  let server: DynamoDbServer;
  let tables = 0;
  let place: { secretsTable: string; dynamodbEndpoint: string; awsRegion: string };

  beforeAll(async () => {
    server = await startDynamoDb();
  });
  beforeEach(async () => {
    const tableName = `secrets-${process.pid}-${tables++}`;
    await createTable({ tableName, endpoint: server.url });
    place = { secretsTable: tableName, dynamodbEndpoint: server.url, awsRegion: 'us-east-1' };
  });
  afterAll(() => server.stop());

  type Given = Partial<Record<'planeToken' | 'planeTokenPrevious' | 'idSecret' | 'idSecretPrevious', string | null>>;
  const settingsOf = (given: Given) =>
    ({
      ...{ planeToken: undefined, planeTokenPrevious: undefined, idSecret: undefined, idSecretPrevious: undefined },
      ...place,
      ...given,
    }) as Parameters<typeof readPassedSecrets>[0];

  async function pass(given: Given): Promise<readonly string[]> {
    const { logger, lines } = captureLogger();
    await passSecrets(settingsOf(given), logger)?.ended;
    return lines.map(({ message }) => message);
  }

  async function passed(): Promise<object> {
    const names = { STATOR_SECRETS_TABLE: place.secretsTable };
    const { env } = await openSecrets(names, { readPassed: () => readPassedSecrets(settingsOf({})) });
    const { STATOR_SECRETS_TABLE: _, ...secrets } = env;
    return secrets;
  }

  it('are there for functions', async () => {
    expect(await pass({ planeToken: A, idSecret: B, planeTokenPrevious: null })).toEqual([
      'secrets are passed to functions',
    ]);
    expect(await passed()).toEqual({ STATOR_PLANE_TOKEN: A, STATOR_ID_SECRET: B });
  });

  it('are those of the newest rotation, whichever process starts last', async () => {
    await pass({ planeToken: A, idSecret: C });
    await pass({ planeToken: B, planeTokenPrevious: A, idSecret: C });
    expect(await pass({ planeToken: A, idSecret: C })).toEqual(['functions have newer secrets than this process']);
    expect(await passed()).toEqual({ STATOR_PLANE_TOKEN: B, STATOR_PLANE_TOKEN_PREVIOUS: A, STATOR_ID_SECRET: C });
  });

  it('are as old as the rotation that made them, however often processes start', async () => {
    const { logger } = captureLogger();
    const since = async (given: Given) => {
      const passing = passSecrets(settingsOf(given), logger);
      await passing?.ended;
      return passing?.sinceMs;
    };
    const first = await since({ planeToken: A, idSecret: C });
    expect(first).toBeGreaterThan(0);
    expect(await since({ planeToken: A, idSecret: C })).toBe(first);
    const rotated = await since({ planeToken: B, planeTokenPrevious: A, idSecret: C });
    expect(rotated).toBeGreaterThanOrEqual(first ?? 0);
    expect(await since({ planeToken: B, idSecret: C })).toBe(rotated); // the one before is forgotten
    expect(await since({ planeToken: A, idSecret: C })).toBe(first); // and may come back
    await since({ planeToken: B, planeTokenPrevious: A, idSecret: C });
    expect(await since({ planeToken: A, idSecret: C })).toBeUndefined(); // not those that functions have
  });

  it('are those of the newest rotation of request ids alone', async () => {
    await pass({ planeToken: A, idSecret: B });
    await pass({ planeToken: A, idSecret: C, idSecretPrevious: B });
    await pass({ planeToken: A, idSecret: B });
    expect(await passed()).toMatchObject({ STATOR_ID_SECRET: C, STATOR_ID_SECRET_PREVIOUS: B });
  });

  it('may come back to what they were two rotations ago', async () => {
    await pass({ planeToken: B, planeTokenPrevious: A });
    await pass({ planeToken: C, planeTokenPrevious: B });
    await pass({ planeToken: A, planeTokenPrevious: C });
    expect(await passed()).toEqual({ STATOR_PLANE_TOKEN: A, STATOR_PLANE_TOKEN_PREVIOUS: C });
  });

  it('are not passed where there are none, or no table is named', async () => {
    const { logger } = captureLogger();
    expect(passSecrets(settingsOf({}), logger)).toBeUndefined();
    expect(passSecrets({ ...settingsOf({ planeToken: A }), secretsTable: undefined }, logger)).toBeUndefined();
  });

  it('are missing in one line that says who brings them', async () => {
    await expect(passed()).rejects.toThrow(/secrets table ".*" has no secrets yet.*STATOR_SECRETS_TABLE/);
    place = { ...place, secretsTable: 'nowhere' };
    await expect(passed()).rejects.toThrow(/secrets table "nowhere" does not exist.*STATOR_SECRETS_TABLE/);
  });

  it('arrive once the table answers, and are given up when the process ends', async () => {
    const port = await freePort();
    place = { ...place, dynamodbEndpoint: `http://127.0.0.1:${port}` };
    const { logger, lines } = captureLogger();
    const away = passSecrets(settingsOf({ planeToken: A }), logger)!;
    const late = await startDynoxide({ port });
    try {
      await createTable({ tableName: place.secretsTable, endpoint: late.url });
      await away.ended;
      expect(await passed()).toEqual({ STATOR_PLANE_TOKEN: A });
    } finally {
      await late.stop();
    }
    expect(JSON.stringify(lines)).not.toContain(A);
    const never = passSecrets(settingsOf({ planeToken: A }), logger)!;
    never.stop();
    await never.ended;
  });
});
