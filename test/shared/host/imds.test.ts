import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../shared/clock/index.ts';
import { InstanceMetadata } from '../../../shared/host/imds.ts';
import { readIdentity, readNotices } from '../../../shared/host/instance-facts.ts';
import { type FakeImds, startFakeImds } from '../../support/aws/fake-imds.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const { signal } = new AbortController();
const TOKEN = 'PUT /latest/api/token';

describe('instance metadata', () => {
  let imds: FakeImds;
  let nowMs = 0;

  beforeEach(async () => {
    nowMs = 1_800_000_000_000;
    imds = await startFakeImds({ lifeCycle: 'spot', nowMs: () => nowMs });
  });

  afterEach(() => imds.stop());

  it('is read with one token for all reads', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    expect(await readIdentity(metadata, undefined, signal)).toEqual({
      instanceId: 'i-0123456789abcdef0',
      instanceType: 'g6e.12xlarge',
      zone: 'us-east-1b',
      market: 'spot',
    });
    expect(imds.asked.filter((line) => line === TOKEN)).toHaveLength(1);
  });

  it('gets a new token before the life of the old one ends', async () => {
    const clock = new VirtualClock();
    const metadata = new InstanceMetadata({ url: imds.url, clock });
    await metadata.read('instance-id', signal);
    await clock.advance(21_600_000 * 0.89);
    await metadata.read('instance-id', signal);
    expect(imds.asked.filter((line) => line === TOKEN)).toHaveLength(1);
    await clock.advance(21_600_000 * 0.02);
    await metadata.read('instance-id', signal);
    expect(imds.asked.filter((line) => line === TOKEN)).toHaveLength(2);
  });

  it('gets a new token when the service refuses the old one', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    await metadata.read('instance-id', signal);
    imds.expireTokens();
    expect(await metadata.read('instance-id', signal)).toBe('i-0123456789abcdef0');
    expect(imds.asked.filter((line) => line === TOKEN)).toHaveLength(2);
  });

  it('is asked three times, and then the failure says what was read', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    await metadata.read('instance-id', signal);
    imds.failures.push(503, 503);
    expect(await metadata.read('instance-type', signal)).toBe('g6e.12xlarge');
    imds.failures.push(500, 500, 500);
    const asked = imds.asked.length;
    await expect(metadata.read('instance-type', signal)).rejects.toThrow(
      `instance metadata at ${imds.url}, instance-type: it answered 500`,
    );
    expect(imds.asked).toHaveLength(asked + 3);
  });

  it('is asked once if it is turned off', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    imds.failures.push(403);
    await expect(metadata.read('instance-id', signal)).rejects.toThrow('it answered 403');
    expect(imds.asked).toEqual([TOKEN]);
  });

  it('is not read beyond the longest value, and never in part', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    imds.values.set('long', 'x'.repeat(16_385));
    await expect(metadata.read('long', signal)).rejects.toThrow(
      `instance metadata at ${imds.url}, long: the answer is not a text of at most 16384 bytes`,
    );
  });

  it('has a deadline for each answer', async () => {
    const clock = new VirtualClock();
    const metadata = new InstanceMetadata({ url: imds.url, clock });
    imds.isSilent = true;
    const failed = expect(metadata.read('instance-id', signal)).rejects.toThrow('no answer within 2000 ms');
    await clock.advance(10_000);
    await failed;
    expect(clock.pendingTimers).toBe(0);
  });

  it('has no notices until something is announced', async () => {
    const metadata = new InstanceMetadata({ url: imds.url, clock: systemClock });
    expect(await readNotices(metadata, signal)).toEqual({
      target: 'InService',
      spot: undefined,
      rebalanceAtMs: undefined,
    });
    imds.setTarget('Terminated');
    imds.announceSpot('terminate', new Date('2026-12-01T08:22:00Z'));
    imds.announceRebalance(new Date('2026-12-01T08:17:00Z'));
    expect(await readNotices(metadata, signal)).toEqual({
      target: 'Terminated',
      spot: { action: 'terminate', atMs: Date.parse('2026-12-01T08:22:00Z') },
      rebalanceAtMs: Date.parse('2026-12-01T08:17:00Z'),
    });
  });
});

describe('the fake', () => {
  it('keeps the rules of IMDSv2', async () => {
    const imds = await startFakeImds();
    const ask = async (path: string, init: RequestInit = {}): Promise<readonly [number, string]> => {
      const response = await fetch(`${imds.url}${path}`, init);
      return [response.status, await response.text()];
    };
    const ttl = (secs: string) => ({ method: 'PUT', headers: { 'x-aws-ec2-metadata-token-ttl-seconds': secs } });
    expect(await ask('/latest/meta-data/instance-id')).toEqual([401, '']);
    expect((await ask('/latest/api/token', { method: 'PUT' }))[0]).toBe(400);
    expect((await ask('/latest/api/token', ttl('21601')))[0]).toBe(400);
    const forwarded = { method: 'PUT', headers: { ...ttl('60').headers, 'x-forwarded-for': '10.0.0.1' } };
    expect((await ask('/latest/api/token', forwarded))[0]).toBe(403);
    const [status, token] = await ask('/latest/api/token', ttl('60'));
    expect(status).toBe(200);
    const headers = { 'x-aws-ec2-metadata-token': token };
    expect(await ask('/latest/meta-data/placement/', { headers })).toEqual([200, 'availability-zone']);
    expect((await ask('/latest/meta-data/', { headers }))[1]).toMatch(/^placement\/$/m);
    expect((await ask('/latest/meta-data/spot/instance-action', { headers }))[0]).toBe(404);
    await imds.stop();
  });
});
