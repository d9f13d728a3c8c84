import { AutoScalingClient } from '@aws-sdk/client-auto-scaling';
import { SignatureV4 } from '@smithy/signature-v4';
import { describe, expect, it } from 'vitest';
import { EksTokens } from '../../../../shared/planner/kubernetes/eks-token.ts';
import { VirtualClock } from '../../../support/virtual-clock.ts';

const { sha256 } = new AutoScalingClient({ region: 'eu-west-1' }).config;

function tokensOf(clock: VirtualClock, region = 'eu-west-1') {
  const forced: (boolean | undefined)[] = [];
  const tokens = new EksTokens({
    cluster: 'gpu',
    region,
    credentials: async ({ forceRefresh } = {}) => {
      forced.push(forceRefresh);
      return { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'secret', sessionToken: 'session' };
    },
    sha256,
    signer: SignatureV4,
    clock,
  });
  return { tokens, forced };
}

function urlIn(token: string): URL {
  expect(token).toMatch(/^k8s-aws-v1\.[A-Za-z0-9_-]+$/);
  return new URL(Buffer.from(token.slice('k8s-aws-v1.'.length), 'base64url').toString());
}

describe('a token for EKS', () => {
  it('is a presigned question to STS who asks, bound to the cluster', async () => {
    const url = urlIn(await tokensOf(new VirtualClock()).tokens.token(false));
    expect(url.origin + url.pathname).toBe('https://sts.eu-west-1.amazonaws.com/');
    expect(Object.fromEntries(url.searchParams)).toMatchObject({
      Action: 'GetCallerIdentity',
      Version: '2011-06-15',
      'X-Amz-Expires': '60',
      'X-Amz-SignedHeaders': 'host;x-k8s-aws-id',
      'X-Amz-Credential': 'AKIDEXAMPLE/20231114/eu-west-1/sts/aws4_request',
      'X-Amz-Security-Token': 'session',
    });
    expect(url.searchParams.get('X-Amz-Signature')).toMatch(/^[0-9a-f]{64}$/);
    expect(url.searchParams.has('x-k8s-aws-id')).toBe(false);
  });

  it('has the address of its partition', async () => {
    const url = urlIn(await tokensOf(new VirtualClock(), 'cn-north-1').tokens.token(false));
    expect(url.hostname).toBe('sts.cn-north-1.amazonaws.com.cn');
  });

  it('is made anew before it ends, and if the server refuses it', async () => {
    const clock = new VirtualClock();
    const { tokens, forced } = tokensOf(clock);
    const first = await tokens.token(false);
    await clock.advance(9 * 60_000);
    expect(await tokens.token(false)).toBe(first);
    await clock.advance(60_000);
    const second = await tokens.token(false);
    expect(second).not.toBe(first);
    await clock.advance(1000);
    expect(await tokens.token(true)).not.toBe(second);
    expect(forced).toEqual([false, false, true]);
  });
});
