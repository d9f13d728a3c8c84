import { describe, expect, it } from 'vitest';
import { openSecrets, SecretWatch } from '../../../shared/fleet/index.ts';
import { captureLogger } from '../../../shared/telemetry/log/logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const TOKEN = 'a-plane-token-of-thirty-two-letters';
const NAMES = { STATOR_PLANE_TOKEN_SECRET: 'plane', STATOR_NATS_SECRET: 'arn:nats' };

const keeping =
  (secrets: Readonly<Record<string, string>>) =>
  async (id: string): Promise<string> => {
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
    [{ STATOR_NATS_SECRET: 'torn' }, /STATOR_NATS_SECRET: the secret begins as JSON and is none$/],
    [{ STATOR_PLANE_TOKEN_SECRET: 'plane', STATOR_PLANE_TOKEN: TOKEN }, /contradict each other: leave out one/],
  ])('are refused in one line that names the variable: %j', async (env, line) => {
    const read = keeping({ odd: '{"username":"u"}', torn: '{"password":"hidden' });
    await expect(openSecrets(env, { read })).rejects.toThrow(line);
  });

  it('are seen to be rotated within their bound, and kept while they cannot be read', async () => {
    const kept: Record<string, string> = { plane: TOKEN };
    const secrets = await openSecrets({ STATOR_PLANE_TOKEN_SECRET: 'plane' }, { read: (id) => keeping(kept)(id) });
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
