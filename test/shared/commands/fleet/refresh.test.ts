import { afterEach, describe, expect, it } from 'vitest';
import { runFleet } from '../../../../shared/commands/fleet/refresh.ts';
import { type Fake, groupSpec, startFake } from '../../../support/aws/auto-scaling/fake.ts';
import type { GroupSpec } from '../../../support/aws/auto-scaling/index.ts';

let fake: Fake;
afterEach(() => fake.stop());

async function start(...groups: Partial<GroupSpec>[]): Promise<void> {
  fake = await startFake({ groups: groups.map((group) => groupSpec({ desired: 2, protectsNew: true, ...group })) });
  process.env.AWS_ENDPOINT_URL_AUTO_SCALING = fake.url;
  process.env.AWS_REGION = 'us-east-1';
  process.env.AWS_ACCESS_KEY_ID = 'local';
  process.env.AWS_SECRET_ACCESS_KEY = 'local';
  await fake.clock.advance(25_000);
}

/** Runs the command while virtual time passes. */
async function run(argv: readonly string[], aborter = new AbortController()) {
  const lines: string[] = [];
  const { signal } = aborter;
  let isOver = false;
  const work = runFleet(['refresh', ...argv], { clock: fake.clock, signal, tell: (line) => lines.push(line) });
  const ended = work.finally(() => {
    isOver = true;
  });
  ended.catch(() => {});
  while (!isOver) {
    await fake.clock.advance(1000);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { text: await ended, lines };
}

describe('stator fleet refresh', () => {
  it('replaces every machine, launching first, and tells how far it is', async () => {
    await start({});
    const before = fake.instances('g').map(({ id }) => id);
    const { text, lines } = await run(['g']);
    expect(text).toBe('1 group is refreshed\n');
    expect(lines[0]).toBe('g: a refresh has started');
    expect(lines.at(-1)).toBe('g: Successful, 100 % done, 0 instances left');
    const serving = fake.instances('g').filter(({ state }) => state === 'InService');
    expect(serving.filter(({ id }) => before.includes(id))).toEqual([]);
    const { parameters } = fake.faults.calls.find(({ action }) => action === 'StartInstanceRefresh') ?? {};
    expect(parameters).toMatchObject({
      'Preferences.MinHealthyPercentage': '100',
      'Preferences.MaxHealthyPercentage': '110',
      'Preferences.ScaleInProtectedInstances': 'Refresh',
    });
  });

  it('replaces only root volumes, with the image that it names', async () => {
    await start({ isMixed: true });
    const before = fake.instances('g').map(({ id }) => id);
    await run(['g', '--strategy=root-volume', '--image=ami-0abc']);
    expect(fake.instances('g').map(({ id, imageId }) => [id, imageId])).toEqual(before.map((id) => [id, 'ami-0abc']));
  });

  it('stops at the first group whose refresh fails, and says why', async () => {
    await start({}, { name: 'next' });
    const failing = run(['g', 'next']);
    while (fake.account.groups.get('g')?.refreshes.length !== 1) await new Promise((resolve) => setImmediate(resolve));
    fake.failRefresh('g', 'alarm errors went off');
    await expect(failing).rejects.toThrow(/refresh of g: Failed, .* \(alarm errors went off\); later groups/);
    expect(fake.account.groups.get('next')?.refreshes).toEqual([]);
  });

  it('ends with its signal, and the refresh goes on', async () => {
    await start({});
    const aborter = new AbortController();
    const running = run(['g'], aborter);
    while (fake.account.groups.get('g')?.refreshes.length !== 1) await new Promise((resolve) => setImmediate(resolve));
    aborter.abort(new Error('stopped by its user'));
    await expect(running).rejects.toThrow('stopped by its user');
    expect(fake.account.groups.get('g')?.refreshes[0]?.endMs).toBeUndefined();
  });

  it('passes on that another refresh runs', async () => {
    await start({});
    expect((await run(['g', '--no-wait'])).text).toBe('started\n');
    await expect(run(['g'])).rejects.toThrow(
      /StartInstanceRefresh of g: InstanceRefreshInProgress.*already in progress/,
    );
  });

  it.each([
    [[], /no group is named/],
    [['gone'], /there is no Auto Scaling group gone/],
    [['g', '--strategy=blue'], /--strategy blue: allowed are rolling and root-volume/],
    [['g', '--strategy=root-volume'], /--image is missing: .*ami-/],
    [['g', '--strategy=root-volume', '--image=ami-0abc'], /group g has no mixed instances policy/],
    [['g', '--image=ami-0abc'], /--image is for --strategy root-volume/],
    [['g', '--min-healthy=101'], /--min-healthy 101: allowed are whole numbers from 0 to 100/],
    [['g', '--odd'], /Unknown option '--odd'/],
  ])('refuses %j', async (argv, problem) => {
    await start({});
    await expect(run(argv)).rejects.toThrow(problem);
    expect(fake.account.groups.get('g')?.refreshes).toEqual([]);
  });
});
