import { afterEach, describe, expect, it, vi } from 'vitest';
import { runSecrets, SECRETS_HELP } from '../../../shared/commands/index.ts';
import {
  type FleetAccount,
  type FleetService,
  type KeptSecret,
  openFleetAccount,
} from '../../../shared/commands/secrets/fleet-account.ts';
import { type RotationPlan, rotate } from '../../../shared/commands/secrets/rotate.ts';
import { namesPrevious, rotatedText } from '../../../shared/commands/secrets/rotated-text.ts';
import { startFleetServices } from '../../support/aws/fleet-services.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const source = { hex: (bytes: number) => 'f'.repeat(2 * bytes) };
const HOUR = 3_600_000;

describe('what a secret says once it is rotated', () => {
  it.each([
    ['a text', 'hunter2', 'f'.repeat(64), undefined],
    [
      'JSON with both',
      '{"previous":"none","current":"a","note":"ours"}',
      { previous: 'a', current: 'f'.repeat(64), note: 'ours' },
      false,
    ],
    [
      'a user of NATS',
      '{"username":"worker","password":"p","previous_username":"worker-before","previous_password":"none"}',
      {
        username: 'worker-ffffffff',
        password: 'f'.repeat(64),
        previous_username: 'worker',
        previous_password: 'p',
      },
      false,
    ],
    [
      'a user that was rotated',
      '{"username":"worker-01234567","password":"q","previous_username":"worker","previous_password":"p"}',
      {
        username: 'worker-ffffffff',
        password: 'f'.repeat(64),
        previous_username: 'worker-01234567',
        previous_password: 'q',
      },
      true,
    ],
  ])('%s', (_, text, expected, before) => {
    const next = rotatedText(text, source);
    expect(typeof expected === 'string' ? next : JSON.parse(next)).toEqual(expected);
    expect(namesPrevious(text)).toBe(before);
  });

  it.each(['{"hidden":1}', '{"username":"hidden"}', '{"current":""}', '{"current":7}', '{hidden', ' [] {'])(
    'is refused in any other form, and not shown: %s',
    (text) => {
      if (!text.trimStart().startsWith('{')) return expect(rotatedText(text, source)).toHaveLength(64);
      expect(() => rotatedText(text, source)).toThrow(/^(?!.*hidden)(it must be a text|the secret begins like JSON)/);
    },
  );
});

/** An account in memory whose services are replaced in 30 s. */
class Rig {
  readonly clock = new VirtualClock();
  readonly told: string[] = [];
  readonly done: string[] = [];
  readonly secrets = new Map<string, KeptSecret>();
  readonly services: FleetService[] = [];
  rollout: 'COMPLETED' | 'FAILED' | 'IN_PROGRESS' = 'COMPLETED';
  /** Looks at services that fail from now on, once something was restarted. */
  failingLooks = 0;
  #restarting: { readonly arn: string; readonly endMs: number } | undefined;

  constructor() {
    const madeMs = this.clock.wallMs() - 2 * HOUR;
    const token = JSON.stringify({ current: 'a', previous: 'none' });
    for (const id of ['plane', 'ids']) this.secrets.set(id, { text: token, madeMs, hasPrevious: false });
    this.secrets.set('nats', { text: '{"username":"worker","password":"p"}', madeMs, hasPrevious: false });
    const parts = { 'nats-0': 'nats', 'nats-1': 'nats', edge: 'edge', fleet: 'worker' } as const;
    for (const [name, part] of Object.entries(parts)) this.services.push(this.#service(name, part, HOUR));
  }

  #service(name: string, part: FleetService['part'], ageMs: number): FleetService {
    const madeMs = this.clock.wallMs() - ageMs;
    return {
      name,
      arn: name,
      part,
      deployments: [{ id: `first-${name}`, status: 'PRIMARY', madeMs, rollout: 'COMPLETED' }],
    };
  }

  #settle(): void {
    if (this.#restarting === undefined || this.clock.nowMs() < this.#restarting.endMs) return;
    const at = this.services.findIndex(({ arn }) => arn === this.#restarting?.arn);
    const { deployments, ...service } = this.services[at]!;
    const [newest, ...before] = deployments.map((each, index) =>
      index === 0 ? { ...each, rollout: this.rollout } : each,
    );
    this.services[at] = { ...service, deployments: [newest!, ...(this.rollout === 'COMPLETED' ? [] : before)] };
    this.#restarting = undefined;
  }

  readonly account: FleetAccount = {
    readSecret: async (id) => {
      const found = this.secrets.get(id);
      if (found === undefined) throw new Error('there is no such secret');
      return found;
    },
    putSecret: async (id, text) => {
      this.done.push(`put ${id}`);
      this.secrets.set(id, { text, madeMs: this.clock.wallMs(), hasPrevious: true });
    },
    services: async () => {
      if (this.#restarting !== undefined && this.failingLooks-- > 0) throw new Error('Rate exceeded');
      this.#settle();
      return [...this.services];
    },
    restart: async (_, arn) => {
      expect(this.#restarting).toBeUndefined(); // one after the other
      this.done.push(`restart ${arn}`);
      const at = this.services.findIndex((each) => each.arn === arn);
      const own = { id: `next-${arn}`, status: 'PRIMARY', madeMs: this.clock.wallMs() + 1, rollout: 'IN_PROGRESS' };
      this.services[at] = { ...this.services[at]!, deployments: [own, ...this.services[at]!.deployments] };
      this.#restarting = { arn, endMs: this.clock.nowMs() + 30_000 };
      return own.id;
    },
    close: () => {},
  };

  async run(more: Partial<RotationPlan> = {}, kinds: readonly string[] = ['nats', 'plane', 'ids']): Promise<void> {
    const secrets = kinds.map((id) => ({ kind: id, id })) as RotationPlan['secrets'];
    const plan = { secrets, cluster: 'c', isResumed: false, serviceMsMax: 60_000, ...more };
    const { account, clock } = this;
    const { signal } = new AbortController();
    let isOver = false;
    const running = rotate(plan, { account, clock, source, tell: (line) => this.told.push(line), signal }).finally(
      () => {
        isOver = true;
      },
    );
    running.catch(() => {}); // told to the caller below
    while (!isOver) await clock.advance(1000);
    return running;
  }
}

describe('a rotation', () => {
  it('puts every secret, then restarts NATS, edges and workers, one service after the other', async () => {
    const rig = new Rig();
    await rig.run();
    const order = [
      'put nats',
      'put plane',
      'put ids',
      'restart nats-0',
      'restart nats-1',
      'restart edge',
      'restart fleet',
    ];
    expect(rig.done).toEqual(order);
    expect(rig.told.at(-1)).toBe('every service has the secrets in force');
    expect(rig.told.join()).not.toMatch(/f{8}/);
  });

  it.each([
    ['ids', ['put ids', 'restart edge']],
    ['plane', ['put plane', 'restart edge', 'restart fleet']],
  ])('of %s alone restarts who has it', async (kind, done) => {
    const rig = new Rig();
    await rig.run({}, [kind]);
    expect(rig.done).toEqual(done);
  });

  it('is refused while the one before has just been, and goes later', async () => {
    const rig = new Rig();
    await rig.run({}, ['ids']);
    await expect(rig.run({}, ['ids'])).rejects.toThrow(/^ids was rotated a moment ago.*try again in 10 min$/);
    await rig.clock.advance(10 * 60_000);
    await rig.run({}, ['ids']);
    expect(rig.done.filter((each) => each === 'put ids')).toHaveLength(2);
  });

  it('that ECS takes back ends with what to do, and is gone on with, without a second secret', async () => {
    const rig = new Rig();
    rig.rollout = 'FAILED';
    await expect(rig.run({}, ['plane'])).rejects.toThrow(/^edge: its new tasks do not run, .*--resume goes on$/);
    await expect(rig.run({}, ['plane'])).rejects.toThrow(
      /^the previous rotation is not complete: edge, fleet may still have the secret before it\. stator secrets rotate --resume/,
    );
    rig.rollout = 'COMPLETED';
    await rig.run({ isResumed: true }, ['plane']);
    expect(rig.done).toEqual(['put plane', 'restart edge', 'restart edge', 'restart fleet']);
  });

  it('that takes too long says so', async () => {
    const rig = new Rig();
    rig.rollout = 'IN_PROGRESS';
    await expect(rig.run({}, ['ids'])).rejects.toThrow(/^edge: not restarted within 1 min\. .*--resume/);
  });

  it('goes on where a look at a service fails, and says so where it is the last', async () => {
    const rig = new Rig();
    rig.failingLooks = 3;
    await rig.run({}, ['ids']);
    expect(rig.told.at(-1)).toBe('every service has the secrets in force');
    await rig.clock.advance(HOUR);
    rig.failingLooks = Number.POSITIVE_INFINITY;
    const over = /^edge: not restarted within 1 min, and the last look at it failed: Rate exceeded\. .*--resume/;
    await expect(rig.run({}, ['ids'])).rejects.toThrow(over);
  });

  it('changes nothing where one of the secrets cannot be rotated, or no service is marked', async () => {
    const rig = new Rig();
    rig.secrets.set('ids', { text: '{"other":1}', madeMs: 0, hasPrevious: false });
    await expect(rig.run()).rejects.toThrow(/^ids: it must be a text, JSON/);
    await expect(rig.run({}, ['gone'])).rejects.toThrow(/^gone: there is no such secret/);
    rig.services.splice(0);
    await expect(rig.run({}, ['plane'])).rejects.toThrow(/^cluster c has no service with the tag stator:part/);
    expect(rig.done).toEqual([]);
  });

  it('without a cluster leaves restarts to the operator of the processes', async () => {
    const rig = new Rig();
    await rig.run({ cluster: undefined }, ['plane']);
    expect(rig.done).toEqual(['put plane']);
    expect(rig.told.at(-1)).toMatch(/^no --cluster: restart every process that has the secrets/);
  });
});

describe('stator secrets', () => {
  it.each([
    [[], /takes: rotate/],
    [['rotate'], /no secret is named: --plane-token, --id-secret or --nats/],
    [['rotate', '--nope'], /Unknown option '--nope'/],
    [['rotate', '--plane-token', 'p', '--which', 'plan'], /^--which: "plan": allowed are plane, ids, nats$/],
    [['rotate', '--plane-token', 'p', '--which', 'nats'], /^--which nats: no secret of it is named/],
    [['rotate', '--plane-token', 'p', '--minutes', '0'], /^--minutes: "0": a whole number from 1 to 1440 is wanted$/],
    [['rotate', '--plane-token', 'p', '--resume'], /^--resume needs --cluster/],
  ])('refuses %j', async (argv, message) => {
    const running = runSecrets(argv, new VirtualClock(), () => {});
    await expect(running).rejects.toMatchObject({ name: 'UsageError', message: expect.stringMatching(message) });
  });

  it('says how it is used', () => {
    expect(SECRETS_HELP).toMatch(/^Usage: stator secrets rotate/);
    for (const flag of ['--cluster', '--plane-token', '--id-secret', '--nats', '--which', '--minutes', '--resume']) {
      expect(SECRETS_HELP).toContain(flag);
    }
  });
});

describe('the services of a cluster', () => {
  afterEach(() => void vi.unstubAllEnvs());

  /** What is found in a cluster of so many services. */
  async function find(count: number): Promise<readonly FleetService[]> {
    const restart = async (): Promise<void> => {};
    const all = Array.from({ length: count }, (_, at) => ({ name: `s${at}`, part: 'worker', restart }));
    const services = await startFleetServices({}, all);
    const set = { AWS_REGION: 'us-east-1', AWS_ACCESS_KEY_ID: 'a', AWS_SECRET_ACCESS_KEY: 'b' };
    for (const [name, value] of Object.entries({ ...set, AWS_ENDPOINT_URL: services.url })) vi.stubEnv(name, value);
    const account = await openFleetAccount();
    try {
      return await account.services('c');
    } finally {
      account.close();
      await services.close();
    }
  }

  it('are all found, page after page', async () => {
    expect(new Set((await find(250)).map(({ name }) => name)).size).toBe(250);
  });

  it('are refused where there are too many to restart one after the other: none is left out in silence', async () => {
    await expect(find(1001)).rejects.toThrow('cluster c has more than 1000 services');
  });
});
