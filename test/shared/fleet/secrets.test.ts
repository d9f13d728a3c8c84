import { describe, expect, it } from 'vitest';
import { openSecrets, SecretWatch } from '../../../shared/fleet/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TOKEN = 'a-plane-token-of-thirty-two-letters';
const OLDER = 'x'.repeat(32);
const NAMES = { STATOR_PLANE_TOKEN_SECRET: 'plane', STATOR_NATS_SECRET: 'arn:nats' };

/** Secrets by their names; what a name has behind `@` is the version before. */
const keeping =
  (secrets: Readonly<Record<string, string>>) =>
  async (id: string, stage: string): Promise<string | undefined> => {
    if (stage === 'AWSPREVIOUS') return secrets[`${id}@before`];
    const text = secrets[id];
    if (text === undefined) throw new Error('no such secret');
    return text;
  };

describe('secrets that the environment names', () => {
  it('stand for the variables of the plane and of NATS', async () => {
    const read = keeping({ plane: TOKEN, 'arn:nats': '{"username":"worker","password":"pass"}' });
    expect((await openSecrets({ ...NAMES, DYN_LOG: 'warn' }, { read })).env).toEqual({
      ...NAMES,
      DYN_LOG: 'warn',
      STATOR_PLANE_TOKEN: TOKEN,
      NATS_AUTH_USERNAME: 'worker',
      NATS_AUTH_PASSWORD: 'pass',
    });
  });

  it.each([
    ['a text that was never rotated', { s: TOKEN }, { STATOR_PLANE_TOKEN: TOKEN }],
    [
      'a text and the version before',
      { s: TOKEN, 's@before': OLDER },
      { STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TOKEN_PREVIOUS: OLDER },
    ],
    [
      'a text, but no placeholder that no process takes as a token',
      { s: TOKEN, 's@before': 'x'.repeat(31) },
      { STATOR_PLANE_TOKEN: TOKEN },
    ],
    [
      'JSON, which has both',
      { s: JSON.stringify({ current: TOKEN, previous: 'older' }), 's@before': 'unread' },
      { STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TOKEN_PREVIOUS: 'older' },
    ],
    [
      'JSON without one before',
      { s: JSON.stringify({ current: TOKEN }) },
      { STATOR_PLANE_TOKEN: TOKEN, STATOR_PLANE_TOKEN_PREVIOUS: 'none' },
    ],
  ])('bring the one before along: %s', async (_, kept, variables) => {
    const names = { STATOR_PLANE_TOKEN_SECRET: 's' };
    const { env } = await openSecrets(names, { read: keeping(kept as Record<string, string>) });
    expect(env).toEqual({ ...names, ...variables });
  });

  it('are for request ids, too', async () => {
    const names = { STATOR_ID_SECRET_SECRET: 'i' };
    const { env } = await openSecrets(names, { read: keeping({ i: TOKEN, 'i@before': OLDER }) });
    expect(env).toEqual({ ...names, STATOR_ID_SECRET: TOKEN, STATOR_ID_SECRET_PREVIOUS: OLDER });
  });

  it('are what a frontend has passed, for who is passed its secrets alone', async () => {
    const names = { STATOR_SECRETS_TABLE: 't' };
    const passed = { STATOR_PLANE_TOKEN: TOKEN, STATOR_ID_SECRET: 'id', PATH: '/evil' };
    const { env } = await openSecrets(names, { readPassed: async () => JSON.stringify(passed) });
    expect(env).toEqual({ ...names, STATOR_PLANE_TOKEN: TOKEN, STATOR_ID_SECRET: 'id' });
    expect((await openSecrets(names)).env).toEqual(names); // a frontend that passes them
    await expect(
      openSecrets({ ...names, STATOR_PLANE_TOKEN: TOKEN }, { readPassed: async () => '{}' }),
    ).rejects.toThrow('STATOR_SECRETS_TABLE and STATOR_PLANE_TOKEN contradict each other: leave out one of them');
  });

  it.each(['{}', '[]', 'null', '{"STATOR_PLANE_TOKEN":1}', 'hidden', '{"STATOR_PLANE_TOKEN":"hidden'])(
    'are refused where the table has something else, and not shown: %s',
    async (text) => {
      const opening = openSecrets({ STATOR_SECRETS_TABLE: 't' }, { readPassed: async () => text });
      await expect(opening).rejects.toThrow(
        /^STATOR_SECRETS_TABLE: the table does not hold the secrets that a frontend passes$/,
      );
    },
  );

  it('are a token of NATS where they are no JSON', async () => {
    const { env } = await openSecrets({ STATOR_NATS_SECRET: 'n' }, { read: keeping({ n: 'the-token' }) });
    expect(env.NATS_AUTH_TOKEN).toBe('the-token');
  });

  it('are not asked for where none is named', async () => {
    const read = () => Promise.reject(new Error('asked'));
    const env = { STATOR_PLANE_TOKEN: TOKEN, STATOR_NATS_SECRET: '' };
    expect((await openSecrets(env, { read })).env).toEqual(env);
  });

  it.each([
    [
      { STATOR_PLANE_TOKEN_SECRET: 'gone' },
      /STATOR_PLANE_TOKEN_SECRET: cannot read secret "gone": no such secret\. .*GetSecretValue/,
    ],
    [
      { STATOR_NATS_SECRET: 'odd' },
      /STATOR_NATS_SECRET: the secret must be a token, or JSON with username and password/,
    ],
    [
      { STATOR_PLANE_TOKEN_SECRET: 'odd' },
      /STATOR_PLANE_TOKEN_SECRET: the secret must be a text, or JSON with current/,
    ],
    [{ STATOR_NATS_SECRET: 'torn' }, /STATOR_NATS_SECRET: the secret begins like JSON but is not valid JSON$/],
    [{ STATOR_PLANE_TOKEN_SECRET: 'plane', STATOR_PLANE_TOKEN: TOKEN }, /contradict each other: leave out one/],
  ])('are refused in one line that names the variable: %j', async (env, line) => {
    const read = keeping({ odd: '{"username":"u"}', torn: '{"password":"hidden' });
    await expect(openSecrets(env, { read })).rejects.toThrow(line);
  });

  it('are seen to be rotated within their bound, and kept while they cannot be read', async () => {
    const kept: Record<string, string> = { plane: TOKEN };
    const secrets = await openSecrets(
      { STATOR_PLANE_TOKEN_SECRET: 'plane' },
      { read: (id, stage) => keeping(kept)(id, stage) },
    );
    const clock = new VirtualClock();
    const { logger, lines } = captureLogger();
    const watch = new SecretWatch(secrets, { clock, ageMsMax: 1000, logger });
    kept.plane = TOKEN.toUpperCase();
    await watch.look();
    expect(watch.isOutdated).toBe(false); // not yet looked
    delete kept.plane;
    await clock.advance(1000);
    await watch.look();
    expect([watch.isOutdated, lines.map(({ level }) => level)]).toEqual([false, ['warn']]);
    kept.plane = TOKEN.toUpperCase();
    await clock.advance(1000);
    await watch.look();
    expect(watch.isOutdated).toBe(true);
  });
});
